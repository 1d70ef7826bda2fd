"""Child processes that end with their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout

TAG = "ACKGPU_REHEARSAL"
"""Environment variable that holds the cloud's folder, in every process of a rehearsal."""

_STOP_SECONDS = 4
"""Enough for an idle child. An API server with open watches would take a minute."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Send this process the signal when its parent ends; called in a child before its program starts."""
    _libc.prctl(_PR_SET_PDEATHSIG, number)


def child_environment(layout: Layout, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: with the cloud's home, temporary folder and tag."""
    return {
        **os.environ,
        "HOME": str(layout.home),
        "TMPDIR": str(layout.temporary),
        TAG: str(layout.cloud),
        **(extra or {}),
    }


class Processes:
    """The children of a supervisor: each has a log of its own, and they stop in reverse order."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._children)):
            self.stop(name)

    def start(self, name: str, command: Sequence[str | Path], cwd: Path | None = None) -> None:
        """Start a child with its output in `logs/<name>.log`."""
        with self.log_path(name).open("ab") as log:
            self._children[name] = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd or self._layout.temporary,
                env=child_environment(self._layout),
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def log_path(self, name: str) -> Path:
        """Return the path of the child's log."""
        return self._layout.logs / f"{name}.log"

    def running(self, name: str) -> bool:
        """Return whether the child is running."""
        child = self._children.get(name)
        return child is not None and child.poll() is None

    def check(self, except_for: str | None = None) -> None:
        """Raise `RehearsalError` if a child other than `except_for` has ended by itself."""
        # Iterate over a copy: the adapter agent stops its child from another thread.
        for name, child in list(self._children.items()):
            if name != except_for and child.poll() is not None:
                raise RehearsalError(f"{name} ended with exit code {child.returncode}. See {self.log_path(name)}.")

    def stop(self, name: str) -> None:
        """Terminate the child; kill it if it does not end in time."""
        child = self._children.pop(name, None)
        if child is None:
            return
        child.terminate()
        try:
            child.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def stray_processes(layout: Layout, supervisor: int | None = None) -> list[psutil.Process]:
    """List processes with the cloud's tag, except this process, its parents and the supervisor's tree."""
    excluded = {process.pid for process in psutil.Process().parents()} | {os.getpid()}
    if supervisor is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            excluded |= {supervisor, *(child.pid for child in psutil.Process(supervisor).children(recursive=True))}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid not in excluded and process.environ().get(TAG) == str(layout.cloud):
                found.append(process)
    return found


def end_stray_processes(layout: Layout, supervisor: int | None = None) -> list[str]:
    """End stray processes, such as leftovers of a killed rehearsal; return their names."""
    strays = stray_processes(layout, supervisor)
    names = []
    for process in strays:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.append(process.name())
            process.terminate()
    _, alive = psutil.wait_procs(strays, timeout=8)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=5)
    return names


def require_free_ports(address: str, ports: Mapping[str, int]) -> None:
    """Raise `RehearsalError` with the port and its purpose if a port is in use."""
    for name, port in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                raise RehearsalError(
                    f"Port {port} on {address} for {name} is not available ({error.strerror}). "
                    "Stop the program that uses it; if it is a rehearsal cloud, run `./ackgpu down`."
                ) from None
