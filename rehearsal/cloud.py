"""Starts and ends the supervisor of a checkout's cloud."""

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
from rehearsal.processes import TAG, child_environment, end_with_parent, sweep

_START_SECONDS = 90
_STOP_SECONDS = 40


@contextlib.contextmanager
def running_cloud(layout: Layout, tools: Path) -> Iterator[None]:
    """Run a cloud during a `with` block; it also ends if this process is killed.

    Raises:
        RehearsalError: the cloud could not be started, or one is kept up in this checkout.
    """
    supervisor = _launch(layout, tools, attached=True)
    try:
        _wait_until_ready(layout, supervisor)
        yield
    finally:
        _end(layout, supervisor.pid)


def keep_up(layout: Layout, tools: Path) -> None:
    """Start a cloud that outlives this process, until `take_down`.

    Raises:
        RehearsalError: the cloud could not be started, or is up already.
    """
    supervisor = _launch(layout, tools, attached=False)
    try:
        _wait_until_ready(layout, supervisor)
    except BaseException:
        _end(layout, supervisor.pid)
        raise


def take_down(layout: Layout) -> bool:
    """End the cloud that is kept up; return whether one was up."""
    if supervisor := kept_up(layout):
        _end(layout, supervisor.pid)
        return True
    left = bool(sweep(layout)) or layout.cloud.exists()
    shutil.rmtree(layout.cloud, ignore_errors=True)
    return left


def kept_up(layout: Layout) -> psutil.Process | None:
    """Return the supervisor of this checkout's cloud if it runs."""
    try:
        process = psutil.Process(int(layout.pid_file.read_text()))
        # Another process may have the number now.
        return process if process.environ().get(TAG) == str(layout.cloud) else None
    except (OSError, ValueError, psutil.Error):
        return None


def _end(layout: Layout, supervisor: int) -> None:
    # The API server would wait for the open watches of an interrupted engine.
    sweep(layout, supervisor)
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(supervisor)
        process.terminate()
        try:
            process.wait(timeout=_STOP_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
    sweep(layout)
    shutil.rmtree(layout.cloud, ignore_errors=True)


def _launch(layout: Layout, tools: Path, *, attached: bool) -> subprocess.Popen[bytes]:
    if kept_up(layout):
        raise RehearsalError("A rehearsal cloud of this checkout is up already: end it with `./ackgpu down`.")
    for name in sweep(layout):
        print(f"ended {name}, left by an interrupted rehearsal", flush=True)
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
            raise RehearsalError(lines[-1] if lines else "The rehearsal cloud ended at its start.")
        if time.monotonic() > deadline:
            raise RehearsalError(
                f"The rehearsal cloud was not ready within {_START_SECONDS} s: see {layout.supervisor_log}."
            )
        time.sleep(0.1)
