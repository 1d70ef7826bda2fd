"""Run the commands of README.md and docs/ in bash and compare the output with the pages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from rehearsal.layout import CHECKOUT, STACK, Layout
from tests.engine.checkout import fresh_checkout
from tests.engine.conftest import only_load_on_this_machine
from tests.readme import Command, section

_END = "--- the exit code is"


class Shell:
    """A single bash for all commands, as in a user's terminal."""

    def __init__(self, folder: Path) -> None:
        # A user's terminal lacks the variables of the `make` that runs the tests.
        excluded = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "KUBECONFIG")
        environment = {
            name: value for name, value in os.environ.items() if name not in excluded and "PULUMI" not in name
        }
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**environment, "PULUMI_SKIP_CONFIRMATIONS": "true"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def execute(self, line: str) -> tuple[int, str]:
        """Run a command whose questions the user answers with yes; return its exit code and output."""
        assert self._bash.stdin and self._bash.stdout
        self._bash.stdin.write(f'{{ {line}\n}} <<< yes; printf "\\n{_END} $?\\n"\n')
        self._bash.stdin.flush()
        output: list[str] = []
        for text in self._bash.stdout:
            if text.startswith(_END):
                return int(text.removeprefix(_END)), "".join(output)
            output.append(text)
        raise AssertionError(f"bash ended at {line}: {''.join(output)}")

    def run(self, line: str) -> str:
        code, output = self.execute(line)
        assert code == 0, f"$ {line}\n{output}"
        return output

    def run_all(self, steps: Sequence[Command]) -> None:
        """Run each command; it must succeed and print the expected text."""
        for step in steps:
            output = self.run(step.line)
            assert step.matches(output), f"$ {step.line}\n{output}\n--- expected\n{step.expected}"

    def close(self) -> None:
        self._bash.communicate()


@pytest.fixture(scope="module")
def checkout() -> Path:
    copy = fresh_checkout("somebody's checkout").checkout
    shutil.copy(CHECKOUT / "Pulumi.dev.yaml", copy)
    return copy


@pytest.fixture(scope="module")
def shell(checkout: Path) -> Iterator[Shell]:
    shell = Shell(checkout)
    try:
        yield shell
        shell.run("./ackgpu down")
    finally:
        shell.close()


def test_the_main_command_prints_the_expected_output_and_writes_its_report(shell: Shell, checkout: Path) -> None:
    rehearse, test = section("README.md", "The two commands")
    # `make test` runs this test.
    assert test.line == "make test"
    assert test.matches("===== 2668 passed in 151.30s (0:02:31) =====")
    with only_load_on_this_machine():
        shell.run_all([rehearse])
    with Image.open(checkout / "build" / "rehearsal" / "timeline.png") as picture:
        assert picture.size == (1200, 900)
    assert (checkout / "build" / "rehearsal" / "result.json").is_file()


def test_by_hand_on_the_rehearsal_cloud(shell: Shell) -> None:
    *steps, end = section("docs/rehearsal.md", "By hand")
    assert end.line == "./ackgpu down"
    shell.run_all(steps)


def test_on_ack(shell: Shell, checkout: Path) -> None:
    """The rehearsal cloud replaces the account. Everything else is as for an ACK stack."""
    init, refused, *steps = section("docs/getting-started.md", "Deploy")
    short = [step.line for step in section("README.md", "On ACK")]
    assert short == [init.line, *(step.line for step in steps if step.line != "pulumi preview")]
    shell.run("unset PULUMI_STACK PULUMI_BACKEND_URL; export PULUMI_CONFIG_PASSPHRASE='of the team'")
    shell.run('mkdir build/old build/new; pulumi login "file://$PWD/build/old"')
    shell.run_all([init])
    code, output = shell.execute(refused.line)
    assert code != 0
    assert refused.matches(output), output
    fill_in(checkout)
    shell.run_all(steps)


def test_drift_is_found_and_the_release_replaced(shell: Shell) -> None:
    shell.run_all(section("docs/changes-and-recovery.md", "Drift"))


def test_cancel_removes_the_lock_of_a_killed_run(shell: Shell) -> None:
    cancel, refresh = section("docs/changes-and-recovery.md", "A killed run")
    leave_a_lock(shell)
    code, output = shell.execute(refresh.line)
    assert code != 0
    assert "locked by 1 lock(s)" in output
    shell.run_all([cancel, refresh])


def test_the_passphrase_is_changed(shell: Shell) -> None:
    shell.run_all(section("docs/changes-and-recovery.md", "Another passphrase"))
    shell.run("export PULUMI_CONFIG_PASSPHRASE=yes")


def test_the_stack_moves_to_another_backend_and_no_backend_holds_the_key(shell: Shell, checkout: Path) -> None:
    for step in section("docs/changes-and-recovery.md", "Another backend"):
        shell.run_all([replace(step, line=re.sub(r"<the (old|new) backend>", r'"file://$PWD/build/\1"', step.line))])
    key = yaml.safe_load(Layout(checkout).kubeconfig.read_text())["users"][0]["user"]["client-key-data"]
    assert [file for file in checkout.glob("build/*/.pulumi/**/*") if file.is_file() and key in file.read_text()] == []
    shell.run('pulumi login "file://$PWD/build/new"; pulumi stack select dev; pulumi preview --expect-no-changes')
    shell.run("pulumi destroy")


def test_down_ends_the_cloud(shell: Shell) -> None:
    shell.run_all(section("docs/rehearsal.md", "By hand")[-1:])


def fill_in(checkout: Path) -> None:
    """Fill in Pulumi.dev.yaml with the settings of the rehearsal."""
    path = checkout / "Pulumi.dev.yaml"
    stack: dict[str, Any] = yaml.safe_load(path.read_text())
    rehearsal_settings = yaml.safe_load((checkout / f"Pulumi.{STACK}.yaml").read_text())["config"]
    stack["config"].update({key: value for key, value in rehearsal_settings.items() if key.startswith("ackgpu:")})
    path.write_text(yaml.safe_dump(stack))


def leave_a_lock(shell: Shell) -> None:
    """Kill a `pulumi` and its children while it holds the lock."""
    shell.run(
        "set -m; pulumi refresh >/dev/null 2>&1 &\n"
        'while kill -0 $! && ! find build/old/.pulumi/locks -name "*.json" 2>/dev/null | grep -q .; do :; done\n'
        'kill -KILL -- "-$!"; wait; set +m'
    )
