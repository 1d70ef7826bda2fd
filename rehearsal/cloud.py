"""Start and stop the supervisor of a checkout's cloud."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from rehearsal.environment import engine_variables
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.processes import TAG, child_environment, end_stray_processes, end_with_parent

_START_SECONDS = 90
_STOP_SECONDS = 40


@contextlib.contextmanager
def running_cloud(layout: Layout, tools: Path) -> Iterator[None]:
    """Run a cloud during a `with` block; it also stops if this process is killed.

    Raises:
        RehearsalError: the cloud did not start, or this checkout already runs a cloud.
    """
    supervisor = _launch(layout, tools, attached=True)
    try:
        _wait_until_ready(layout, supervisor)
        yield
    finally:
        _stop(layout, supervisor.pid)


def start_cloud(layout: Layout, tools: Path) -> None:
    """Start a cloud that outlives this process; `stop_cloud` stops it.

    Raises:
        RehearsalError: the cloud did not start, or is already running.
    """
    supervisor = _launch(layout, tools, attached=False)
    try:
        _wait_until_ready(layout, supervisor)
    except BaseException:
        _stop(layout, supervisor.pid)
        raise


def stop_cloud(layout: Layout) -> bool:
    """Stop the cloud of this checkout; return whether it was running or had left anything."""
    if supervisor := running_supervisor(layout):
        _stop(layout, supervisor.pid)
        return True
    found = bool(end_stray_processes(layout)) or layout.cloud.exists()
    shutil.rmtree(layout.cloud, ignore_errors=True)
    return found


def running_supervisor(layout: Layout) -> psutil.Process | None:
    """Return the supervisor of this checkout's cloud, or None if the cloud is not running."""
    try:
        process = psutil.Process(int(layout.pid_file.read_text()))
        # Another process may have reused the process ID.
        return process if process.environ().get(TAG) == str(layout.cloud) else None
    except (OSError, ValueError, psutil.Error):
        return None


def _stop(layout: Layout, supervisor: int) -> None:
    # End an interrupted engine first: the API server would wait for its open watches.
    end_stray_processes(layout, supervisor)
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(supervisor)
        process.terminate()
        try:
            process.wait(timeout=_STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
    end_stray_processes(layout)
    shutil.rmtree(layout.cloud, ignore_errors=True)


def _launch(layout: Layout, tools: Path, *, attached: bool) -> subprocess.Popen[bytes]:
    if running_supervisor(layout):
        raise RehearsalError("The rehearsal cloud of this checkout is already running. Stop it with `./ackgpu down`.")
    for name in end_stray_processes(layout):
        print(f"stopped {name}, which an interrupted rehearsal left running", flush=True)
    layout.output.mkdir(parents=True, exist_ok=True)
    layout.ready_file.unlink(missing_ok=True)
    with layout.supervisor_log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "rehearsal", str(tools)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=layout.checkout,
            env=child_environment(layout, engine_variables(layout)),
            start_new_session=True,
            preexec_fn=end_with_parent if attached else None,
        )


def _wait_until_ready(layout: Layout, supervisor: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not layout.ready_file.exists():
        if supervisor.poll() is not None:
            lines = layout.supervisor_log.read_text().strip().splitlines()
            raise RehearsalError(
                lines[-1] if lines else f"The rehearsal cloud stopped during its start. See {layout.supervisor_log}."
            )
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"The rehearsal cloud was not ready within {_START_SECONDS} s. See {layout.supervisor_log}."
            )
        time.sleep(0.1)
