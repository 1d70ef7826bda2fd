"""Builds the pinned Go tools of a rehearsal from `tools/*` into the user's cache folder, each only once.

`python -m rehearsal.toolchain.build` builds the missing tools; its last line is the folder of the executables.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rehearsal.command import exit_code_of
from rehearsal.errors import RehearsalError
from rehearsal.layout import cache_folder
from rehearsal.toolchain.go import GoBuilder, require_go
from rehearsal.toolchain.groups import Group, read_groups


def ensure_tools(
    progress: TextIO | None = None, *, groups: Sequence[Group] | None = None, cache: Path | None = None
) -> Path:
    """Build the tools that the cache does not contain yet.

    Two processes take turns, and checkouts with other pins have folders of their own. The next run continues an
    interrupted build: it keeps the finished executables and the Go caches.

    Returns:
        The folder `bin` with every executable and the files that they read from their own folder.

    Raises:
        RehearsalError: Go is missing or too old, a build failed, or the cache folder can't be written.
    """
    cache = cache or cache_folder()
    toolchain = _Toolchain(read_groups() if groups is None else groups, cache, progress or sys.stdout)
    try:
        return toolchain.ensure()
    except OSError as error:
        raise RehearsalError(
            f"The tools can't be kept in {cache} ({error.strerror or error}): free disk space, get permission to "
            "write there, or set ACKGPU_CACHE to another folder."
        ) from None


class _Toolchain:
    def __init__(self, groups: Sequence[Group], cache: Path, progress: TextIO) -> None:
        self._groups = groups
        self._tools = cache / "tools"
        self._work = cache / "build"
        self._progress = progress
        union = hashlib.sha256("\n".join(group.key for group in groups).encode()).hexdigest()[:16]
        self._bin = self._tools / f"together-{union}" / "bin"

    def ensure(self) -> Path:
        built = 0
        started = time.monotonic()
        if not self._complete():
            self._tools.mkdir(parents=True, exist_ok=True)
            with (self._tools / "lock").open("a") as lock:
                self._wait_for_turn(lock)
                built = self._build_missing()
                self._link()
                # The groups share the standard library and many modules, so the caches stay until all are built.
                shutil.rmtree(self._work, ignore_errors=True)
        total = f" ({built} built in {_duration(time.monotonic() - started)})" if built else ""
        self._say(f"tools: ready{total}\n")
        return self._bin

    def _complete(self) -> bool:
        return all((self._bin / name).is_file() for group in self._groups for name in group.files)

    def _folder(self, group: Group) -> Path:
        return self._tools / group.key / "bin"

    def _wait_for_turn(self, lock: TextIO) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._say(f"tools: waiting for another process, which is building into {self._tools}\n")
            fcntl.flock(lock, fcntl.LOCK_EX)

    def _build_missing(self) -> int:
        """Build the missing executables; return their number."""
        missing = {
            group.key: names
            for group in self._groups
            if (names := [name for name in group.binaries if not (self._folder(group) / name).is_file()])
        }
        groups = [group for group in self._groups if group.key in missing]
        total = sum(map(len, missing.values()))
        if not groups:
            return 0
        require_go(max(group.go_version for group in groups), self._work)
        self._say(
            f"tools: building {total} from source, once, into {self._tools} "
            "(all of them take half an hour on 2 cores)\n"
        )
        numbers = itertools.count(1)
        for group in groups:
            builder = GoBuilder(group, self._folder(group), self._work)
            builder.copy_files_beside()
            for name in missing[group.key]:
                self._say(f"[{next(numbers)}/{total}] {name} ... ")
                self._build(builder, name)
        return total

    def _build(self, builder: GoBuilder, name: str) -> None:
        started = time.monotonic()
        try:
            builder.build(name)
        except BaseException:
            self._say("not built\n")
            raise
        self._say(f"built in {_duration(time.monotonic() - started)}\n")

    def _link(self) -> None:
        if self._bin.exists():
            return
        scratch = self._bin.parent.with_suffix(".new")
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "bin").mkdir(parents=True)
        for group in self._groups:
            for name in group.files:
                # No symbolic links: the engine resolves them, and looks for its language host in its own folder.
                (scratch / "bin" / name).hardlink_to(self._folder(group) / name)
        scratch.rename(self._bin.parent)

    def _say(self, text: str) -> None:
        self._progress.write(text)
        self._progress.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def main() -> int:
    """Build the tools and print their folder."""
    print(ensure_tools())
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
