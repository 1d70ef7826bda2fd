"""The engine by its own command line: for an answer, or in the user's terminal."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from commands import CHECKOUT
from commands.command_line import INTERRUPTED


class PulumiError(Exception):
    """Pulumi is missing or failed; the message is for people."""


def require_pulumi() -> None:
    """Look for the engine.

    Raises:
        PulumiError: it is not on PATH.
    """
    if shutil.which("pulumi") is None:
        raise PulumiError("pulumi is not on PATH: install it, or `source build/rehearsal/cloud/env.sh` on a rehearsal.")


def answer_of(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `pulumi` and return what it printed.

    Raises:
        PulumiError: it is not on PATH.
    """
    require_pulumi()
    with scratch() as folder:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=CHECKOUT,
            env={**os.environ, "TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )


def with_new_credential(operation: str, stack: str, *, yes: bool) -> int:
    """Run `pulumi refresh` or `pulumi destroy` in the terminal, with a credential from the account.

    Returns:
        Its exit code, or 130 where it was interrupted.

    Raises:
        PulumiError: it is not on PATH.
    """
    require_pulumi()
    command = ["pulumi", "--cwd", str(CHECKOUT / "commands" / "access"), operation, "--run-program", "--stack", stack]
    received: list[int] = []
    processes: list[subprocess.Popen[bytes]] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        received.append(number)
        # The terminal sends Ctrl-C to pulumi too; a second one would end it at once.
        if number != signal.SIGINT and len(received) == 1:
            for process in processes:
                process.send_signal(signal.SIGINT)

    # Before pulumi starts, which would inherit a SIGINT that a shell without job control ignores in the background.
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with scratch() as folder:
            process = subprocess.Popen(
                [*command, *(["--yes"] if yes else [])], env={**os.environ, "TMPDIR": str(folder)}
            )
            processes.append(process)
            # Pulumi ends its operation in order; its temporary files are removed after that.
            code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return INTERRUPTED if received else code if code >= 0 else 128 - code


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for temporary files: the Kubernetes provider leaves a kubeconfig with its key at each preview."""
    with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
        yield Path(folder)


def reasons(output: str) -> list[str]:
    """The errors in what the engine printed, each once."""
    lines = re.findall(r"error: (.+)", output)
    errors = [line.removeprefix("Exception calling application: ") for line in lines]
    return list(dict.fromkeys(errors)) or ["pulumi failed and gave no reason."]
