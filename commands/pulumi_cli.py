"""Run the `pulumi` command, for its output or in the user's terminal."""

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
    """Pulumi is missing or failed; the message is for the user."""


def require_pulumi() -> None:
    """Require `pulumi`.

    Raises:
        PulumiError: `pulumi` is not on PATH.
    """
    if shutil.which("pulumi") is None:
        raise PulumiError(
            "pulumi is not on PATH. Install pulumi. For a rehearsal cloud, run `./ackgpu up` and then "
            "`source build/rehearsal/cloud/env.sh`."
        )


def run_pulumi(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `pulumi` and return its output and exit code.

    Raises:
        PulumiError: `pulumi` is not on PATH.
    """
    require_pulumi()
    with temporary_folder() as folder:
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
        The exit code of `pulumi`, or 130 after an interrupt.

    Raises:
        PulumiError: `pulumi` is not on PATH.
    """
    require_pulumi()
    command = ["pulumi", "--cwd", str(CHECKOUT / "commands" / "access"), operation, "--run-program", "--stack", stack]
    received: list[int] = []
    unsent: list[int] = []
    processes: list[subprocess.Popen[bytes]] = []

    def forward() -> None:
        while processes and unsent:
            processes[0].send_signal(unsent.pop())

    def interrupt(number: int, _: FrameType | None) -> None:
        received.append(number)
        # The terminal sends Ctrl-C to pulumi too; a second interrupt would kill it.
        if number != signal.SIGINT and len(received) == 1:
            unsent.append(signal.SIGINT)
            forward()

    # Set before pulumi starts: it would inherit a SIGINT that a shell without job control ignores.
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with temporary_folder() as folder:
            process = subprocess.Popen(
                [*command, *(["--yes"] if yes else [])], env={**os.environ, "TMPDIR": str(folder)}
            )
            processes.append(process)
            # A signal may arrive while pulumi starts.
            forward()
            # Remove the temporary files only after pulumi has finished or cancelled the operation.
            code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return INTERRUPTED if received else code if code >= 0 else 128 - code


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Create a temporary folder, because every preview of the Kubernetes provider leaves a kubeconfig with a key."""
    with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
        yield Path(folder)


def error_messages(output: str) -> list[str]:
    """Return the error messages in the engine's output, without duplicates."""
    lines = re.findall(r"error: (.+)", output)
    errors = [line.removeprefix("Exception calling application: ") for line in lines]
    return list(dict.fromkeys(errors)) or ["pulumi failed without an error message."]
