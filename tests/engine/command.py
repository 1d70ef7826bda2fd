"""Run a command as a terminal does, and follow its output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

PYTHON = "build/venv/bin/python"
ACKGPU = ("./ackgpu",)
WITHOUT_LOAD = (
    PYTHON,
    "-c",
    "from commands.command_line import run\n"
    "from rehearsal import main_job\n"
    "main_job._walk = lambda *_: None\n"
    "raise SystemExit(run())",
    "rehearse",
)
"""`./ackgpu rehearse` without the load test, which takes a minute."""


class Command:
    """A command in its own process group, killed at the end of the `with` block."""

    def __init__(self, arguments: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [str(part) for part in arguments],
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.output = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait_for(self, *texts: str, seconds: float = 150) -> None:
        """Wait until the output has the texts in this order."""
        with self._changed:
            self._changed.wait_for(lambda: self._has(texts) or not self._reader.is_alive(), seconds)
            assert self._has(texts), f"{' ... '.join(texts)!r} is not in the output:\n{self.output}"

    def interrupt(self) -> None:
        """Send SIGINT to the whole group, as Ctrl-C does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self, seconds: float = 60) -> int:
        """Wait for the exit and return the exit code."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code

    def _has(self, texts: Sequence[str]) -> bool:
        position = 0
        for text in texts:
            found = self.output.find(text, position)
            if found < 0:
                return False
            position = found + len(text)
        return True

    def _read(self) -> None:
        assert self.process.stdout
        for line in iter(self.process.stdout.readline, b""):
            with self._changed:
                self.output += line.decode(errors="replace")
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def wait_until(condition: Callable[[], object], description: str, seconds: float = 30) -> None:
    """Wait until the condition holds. A timeout reports the description."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {description}"
        time.sleep(0.1)
