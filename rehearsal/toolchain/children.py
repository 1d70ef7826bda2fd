"""Runs a program as a child that ends with this process, within a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from rehearsal.processes import end_with_parent


def run_child(
    command: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str], seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without input and return its output.

    Raises:
        subprocess.TimeoutExpired: the command was killed after `seconds`.
    """
    child = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    try:
        output, complaint = child.communicate(timeout=seconds)
    except BaseException:
        # The command's own children, such as the compilers of `go`, are in its process group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    return subprocess.CompletedProcess(command, child.returncode, output, complaint)
