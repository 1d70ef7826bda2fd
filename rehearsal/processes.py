"""Child processes that never outlive their parent."""

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
"""Environment variable that marks every process of a rehearsal with the folder of its cloud."""

_STOP_SECONDS = 4
"""Enough for an idle child; an API server with open watches would take a minute."""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Send this process the signal when its parent ends; a child calls this before its program starts."""
    _libc.prctl(_PR_SET_PDEATHSIG, number)


def child_environment(layout: Layout, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: home and temporary folder of the cloud, and its tag."""
    return {
        **os.environ,
        "HOME": str(layout.home),
        "TMPDIR": str(layout.temporary),
        TAG: str(layout.cloud),
        **(extra or {}),
    }


class Processes:
    """The children of a supervisor; each has its own log, and they end in reverse order."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._children)):
            self.stop(name)

    def start(self, name: str, command: Sequence[str | Path], cwd: Path | None = None) -> None:
        """Start a child that writes its output to `logs/<name>.log`."""
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
        """Return the path of the child's output."""
        return self._layout.logs / f"{name}.log"

    def running(self, name: str) -> bool:
        """Return whether the child was started and has not ended."""
        child = self._children.get(name)
        return child is not None and child.poll() is None

    def check(self, but: str | None = None) -> None:
        """Raise `RehearsalError` if a child other than `but` has ended by itself."""
        # A copy: the adapter's agent stops its child from another thread.
        for name, child in list(self._children.items()):
            if name != but and child.poll() is not None:
                raise RehearsalError(f"{name} ended with exit code {child.returncode}: see {self.log_path(name)}.")

    def stop(self, name: str) -> None:
        """Terminate the child, and kill it if it does not end in time."""
        child = self._children.pop(name, None)
        if child is None:
            return
        child.terminate()
        try:
            child.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def strays(layout: Layout, supervisor: int | None = None) -> list[psutil.Process]:
    """List processes with the cloud's tag, without this one, its parents, and the supervisor with its children."""
    mine = {process.pid for process in psutil.Process().parents()} | {os.getpid()}
    if supervisor is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            mine |= {supervisor, *(child.pid for child in psutil.Process(supervisor).children(recursive=True))}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid not in mine and process.environ().get(TAG) == str(layout.cloud):
                found.append(process)
    return found


def sweep(layout: Layout, supervisor: int | None = None) -> list[str]:
    """End the strays, such as those of a killed rehearsal of this checkout; return their names."""
    left = strays(layout, supervisor)
    names = []
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.append(process.name())
            process.terminate()
    _, alive = psutil.wait_procs(left, timeout=8)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=5)
    return names


def require_free_ports(address: str, ports: Mapping[str, int]) -> None:
    """Raise `RehearsalError` with the port and its purpose if a port is taken."""
    for name, port in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                raise RehearsalError(
                    f"Port {port} on {address}, which {name} needs, can't be used ({error.strerror}): "
                    "end the program that holds it (a cloud kept up is ended by `./ackgpu down`)."
                ) from None
