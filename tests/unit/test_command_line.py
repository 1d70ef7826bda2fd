"""`./ackgpu`: help, wrong arguments, exit codes, start and interrupts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from commands import CHECKOUT
from commands.command_line import COMMANDS, run

FOLDER = "mein Größen-Test"
"""A checkout's path may have spaces and non-ASCII letters."""


def printed_help(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run([*arguments, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_has_a_summary_and_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed_help(capsys, name)
    summary = text.split("\n\n")[1].strip()
    assert f"  ./ackgpu {name}" in text.partition("Example")[2]
    assert re.search(rf"^  {name} +{re.escape(summary)}$", printed_help(capsys), re.MULTILINE), (
        "the summary is not cut off"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["chek"], "No such command 'chek'. Did you mean 'check'? See `./ackgpu --help`."),
        (["verify", "--stack", "dev", "--laod"], "No such option '--laod'. Did you mean '--load'?"),
        (["check"], "Missing option '--stack'. See `./ackgpu check --help`."),
        (["check", "--stack", "dev", "more"], "Got unexpected extra argument (more). See"),
        (["check-exporter", "none.txt"], "'none.txt': No such file or directory. See"),
        (["check-exporter", "--labels", "upstrem", os.devnull], "'upstrem' is not one of 'ack', 'upstream',"),
        ([], "Missing command. See `./ackgpu --help`."),
    ],
)
def test_wrong_arguments_print_one_line_and_return_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    shown = capsys.readouterr()
    [line] = shown.err.splitlines()
    assert sentence in line
    assert shown.out == ""


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_does_not_import_heavy_modules(arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "commands", *arguments, "--help"]
    shown = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stderr
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in shown.splitlines()}
    assert "click" in imported
    heavy = {"pulumi", "pulumi_alicloud", "pulumi_kubernetes", "kubernetes", "lightkube", "httpx", "pydantic", "yaml"}
    assert not imported & (heavy | {"autoscaling", "components", "live", "program", "rehearsal"})


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("./ackgpu ver", ["plain,verify"]), ("./ackgpu check --stack re", ["plain,rehearsal"])],
)
def test_completes_commands_and_stacks(typed: str, completed: list[str]) -> None:
    words = typed.split()
    variables = {"_ACKGPU_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-m", "commands"]
    result = subprocess.run(
        command, cwd=CHECKOUT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert result.stdout.splitlines() == completed


def test_prints_a_completion_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "bash"]) == 0
    assert "complete -o nosort -F _ackgpu_completion ackgpu" in capsys.readouterr().out


# The start

PYTHON = """\
#!/bin/sh
case "$1" in
  -c) exit 0 ;;
  -m) echo "$*" >> calls
      if [ "$2" = venv ]; then mkdir -p build/venv/bin; cp "$0" build/venv/bin/python; fi ;;
  *)  echo "runs $(basename "$1") $2 in $PWD with $TMPDIR"; kill -0 "$PPID"; exit 7 ;;
esac
"""


def test_a_fresh_clone_creates_its_venv_once_and_runs_from_any_folder(tmp_path: Path) -> None:
    clone, path = tmp_path / FOLDER, tmp_path / "path"
    clone.mkdir()
    path.mkdir()
    for name in ("ackgpu", "Makefile", "requirements.txt", "requirements-dev.txt"):
        shutil.copy(CHECKOUT / name, clone)
    (path / "python3.11").write_text(PYTHON)
    (path / "python3.11").chmod(0o755)
    (tmp_path / "link").symlink_to(clone / "ackgpu")
    # Set by an outer make.
    variables = {"PATH": f"{path}:{os.defpath}", "MAKEFLAGS": "n", "MAKELEVEL": "1"}
    for script in (clone / "ackgpu", tmp_path / "link"):
        result = subprocess.run(
            [script, "check"], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stdout) == (
            7,
            f"runs commands check in {tmp_path} with {clone}/build/tmp\n",
        ), result.stderr
    venv, install = (clone / "calls").read_text().splitlines()
    assert venv == "-m venv --clear build/venv"
    assert install.startswith("-m pip install")
    assert result.stderr == "", "the second start prints nothing"


# The engine in the terminal

PULUMI = """\
#!/bin/sh
trap 'echo cancelled >> "$OUT/arguments"; exit 255' INT
echo "$*" > "$OUT/arguments"
echo key > "$TMPDIR/kubeconfig"
echo "$TMPDIR" > "$OUT/folder"
if [ "$WAIT" ]; then while :; do sleep 0.05; done; fi
exit 3
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake `pulumi` that leaves a key in its temporary folder."""
    (tmp_path / "pulumi").write_text(PULUMI)
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("OUT", str(tmp_path))
    return tmp_path


def test_refresh_runs_only_the_providers_and_keeps_the_exit_code(engine: Path) -> None:
    assert run(["refresh", "--stack", "dev", "--yes"]) == 3
    access = CHECKOUT / "commands" / "access"
    assert (engine / "arguments").read_text() == f"--cwd {access} refresh --run-program --stack dev --yes\n"
    assert not Path((engine / "folder").read_text().strip()).exists()


def wait_until_pulumi_runs(engine: Path) -> None:
    deadline = time.monotonic() + 30
    while not (engine / "folder").exists() or not (engine / "folder").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_refresh_cancels_pulumi_and_leaves_no_key(engine: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "commands", "refresh", "--stack", "dev"]
    process = subprocess.Popen(command, cwd=CHECKOUT, env={**os.environ, "WAIT": "1"}, start_new_session=True)
    try:
        wait_until_pulumi_runs(engine)
        if number == signal.SIGINT:
            # The terminal sends Ctrl-C to the whole process group.
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(30) == 130
        assert (engine / "arguments").read_text().endswith("cancelled\n")
        assert not Path((engine / "folder").read_text().strip()).exists()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def test_a_signal_while_pulumi_starts_cancels_it(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            wait_until_pulumi_runs(engine)
            os.kill(os.getpid(), signal.SIGTERM)

        def wait(self, timeout: float | None = None) -> int:
            try:
                return super().wait(30)
            finally:
                self.kill()

    monkeypatch.setenv("WAIT", "1")
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    assert run(["refresh", "--stack", "dev"]) == 130
    assert (engine / "arguments").read_text().endswith("cancelled\n")


@pytest.mark.parametrize("command", ["adopt", "check", "destroy", "refresh", "verify"])
@pytest.mark.parametrize("name", ["", "rehearsal/"])
def test_an_empty_stack_name_does_not_select_the_current_stack(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--stack", name]) == 2
    assert f"{name!r} is not a stack name" in capsys.readouterr().err
