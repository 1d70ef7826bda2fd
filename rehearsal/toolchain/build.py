"""Takes, downloads or builds the tools of a rehearsal, each once, into the user's cache folder.

`python -m rehearsal.toolchain.build` makes the missing tools ready; its last line is the folder of the executables.
"""

from __future__ import annotations

import fcntl
import itertools
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from rehearsal.command import exit_code_of
from rehearsal.errors import RehearsalError
from rehearsal.layout import cache_folder
from rehearsal.toolchain import archive
from rehearsal.toolchain.archive_source import install_archive
from rehearsal.toolchain.estimate import build_estimate
from rehearsal.toolchain.go import GoBuilder, require_go
from rehearsal.toolchain.groups import Group, pins_hash, read_groups
from rehearsal.toolchain.plugin import PROVIDER, install_plugin, installed_plugin, user_pulumi_home
from rehearsal.toolchain.released import ENGINE, Found, chosen_folder, find_released, may_take, path_folders
from rehearsal.toolchain.sources import TakenTools, read_sources, write_sources


def ensure_tools(
    progress: TextIO | None = None, *, groups: Sequence[Group] | None = None, cache: Path | None = None
) -> Path:
    """Make the tools ready that the cache does not contain yet.

    A missing tool comes from the folder that `ACKGPU_TOOLS` names, from the archive that `ACKGPU_TOOLS_URL` names, from
    PATH or the user's Pulumi plugins, or is built. Two processes take turns, and checkouts with other pins have folders
    of their own. The next run continues an interrupted one: it keeps finished executables and the Go caches.

    Returns:
        The folder `bin` with every executable and the files that they read from their own folder.

    Raises:
        RehearsalError: a variable is wrong, the archive can't be used, Go is missing or too old, a build failed, or the
            cache folder can't be written.
    """
    return _with_cache(_Toolchain.ensure, progress, groups, cache)


def pack_tools(
    folder: Path, progress: TextIO | None = None, *, groups: Sequence[Group] | None = None, cache: Path | None = None
) -> Path:
    """Build the tools that are not built yet, and return an archive of all of them for `ACKGPU_TOOLS_URL`."""
    return _with_cache(lambda toolchain: toolchain.pack(folder), progress, groups, cache)


def tool_sources(tools: Path, groups: Sequence[Group] | None = None) -> dict[str, str]:
    """Return where each executable in the folder of `ensure_tools` comes from."""
    recorded = read_sources(tools.parent)
    return {
        name: recorded.get(name, f"built from tools/{group.source.name}")
        for group in (read_groups() if groups is None else groups)
        for name in group.binaries
    }


def _with_cache(
    action: Callable[[_Toolchain], Path], progress: TextIO | None, groups: Sequence[Group] | None, cache: Path | None
) -> Path:
    cache = cache or cache_folder()
    try:
        return action(_Toolchain(read_groups() if groups is None else groups, cache, progress or sys.stdout))
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
        self._tried_to_install = False
        # Tools that are all built have a folder of their own: it may not replace a folder that a cloud is using.
        self._bin = self._tools / f"{'together' if may_take() else 'built'}-{pins_hash(groups)}" / "bin"
        self._taken = TakenTools(self._tools / f"taken-{pins_hash(groups)}")

    def ensure(self) -> Path:
        built = 0
        started = time.monotonic()
        if not self._complete():
            with self._turn():
                self._take_released()
                built = self._build(self._missing, may_take())
                self._link()
                # The groups share the standard library and many modules, so the caches stay until all are built.
                shutil.rmtree(self._work, ignore_errors=True)
        total = f" ({built} built in {_duration(time.monotonic() - started)})" if built else ""
        self._say(f"tools: ready{total}\n")
        return self._bin

    def pack(self, folder: Path) -> Path:
        with self._turn():
            self._build(self._not_built, may_install=False)
            shutil.rmtree(self._work, ignore_errors=True)
            self._say(f"tools: packing {archive.archive_name(self._groups)}\n")
            try:
                return archive.pack(self._groups, self._tools, folder)
            except OSError as error:
                reason = error.strerror or error
                raise RehearsalError(
                    f"The archive can't be written into {folder} ({reason}). Free disk space or name another folder."
                ) from None

    def _complete(self) -> bool:
        recorded = read_sources(self._bin.parent)
        return all((self._bin / name).is_file() for group in self._groups for name in _needed(group, recorded))

    def _folder(self, group: Group) -> Path:
        return self._tools / group.key / "bin"

    def _turn(self) -> TextIO:
        """Wait for the lock, which is held until the returned file is closed."""
        self._tools.mkdir(parents=True, exist_ok=True)
        lock = (self._tools / "lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._say(f"tools: waiting for another process, which is building into {self._tools}\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def _not_built(self, group: Group) -> list[str]:
        return [name for name in group.binaries if not (self._folder(group) / name).is_file()]

    def _missing(self, group: Group) -> list[str]:
        taken = self._taken_sources()
        return [name for name in self._not_built(group) if name not in taken]

    def _all_missing(self) -> set[str]:
        return {name for group in self._groups for name in self._missing(group)}

    def _taken_sources(self) -> dict[str, str]:
        return self._taken.sources() if may_take() else {}

    def _scratch(self) -> TemporaryDirectory[str]:
        """An empty folder on the file system of the cache."""
        self._work.mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(dir=self._work)

    def _take_released(self) -> None:
        """Take released tools, and print each with its source."""
        if folder := chosen_folder():
            self._take_from([folder])
        if self._all_missing():
            with self._scratch() as scratch:
                install_archive(self._groups, self._tools, Path(scratch), self._say)
        if may_take():
            self._take_from(path_folders())
            self._take_provider()
        names = {name for group in self._groups for name in group.binaries}
        for name, source in self._taken_sources().items():
            if name in names:
                self._report(f"{name} {source}")

    def _take_from(self, folders: Sequence[Path]) -> None:
        with self._scratch() as home:
            for found in find_released(self._all_missing(), folders, Path(home), self._report):
                self._taken.take(found.files, found.source)

    def _take_provider(self) -> None:
        """Take the Kubernetes provider if it is missing: installed by the user, or by a `pulumi` that is ready."""
        for group in self._groups:
            if PROVIDER in self._missing(group):
                with self._scratch() as home:
                    if found := self._find_provider(group.version, Path(home)):
                        self._taken.take(found.files, found.source)

    def _find_provider(self, version: str, home: Path) -> Found | None:
        if found := installed_plugin(user_pulumi_home(), version, home, self._report):
            return found
        built = [self._folder(group) / ENGINE for group in self._groups if ENGINE in group.binaries]
        pulumi = next((path for path in [self._taken.path(ENGINE), *built] if path.is_file()), None)
        if pulumi is None or self._tried_to_install:
            return None
        self._tried_to_install = True
        return install_plugin(pulumi, version, home, self._report)

    def _build(self, missing_of: Callable[[Group], list[str]], may_install: bool) -> int:
        """Build the missing executables; return their number.

        Args:
            missing_of: Returns the executables of a group that are to be built.
            may_install: Whether to install the provider instead of building it, once `pulumi` is built.
        """
        missing = {group.key: names for group in self._groups if (names := missing_of(group))}
        groups = [group for group in self._groups if group.key in missing]
        total = sum(map(len, missing.values()))
        if not groups:
            return 0
        require_go(max(group.go_version for group in groups), self._work)
        estimate = build_estimate([group.source.name for group in groups])
        self._say(f"tools: building {total} from source, once, into {self._tools} ({estimate})\n")
        numbers = itertools.count(1)
        for group in groups:
            if may_install and PROVIDER in missing[group.key]:
                self._take_provider()
                if PROVIDER in self._taken_sources():
                    self._report(f"{PROVIDER} {self._taken_sources()[PROVIDER]}")
                    total -= 1
                    continue
            builder = GoBuilder(group, self._folder(group), self._work)
            builder.copy_files_beside()
            for name in missing[group.key]:
                self._say(f"[{next(numbers)}/{total}] {name} ... ")
                self._build_executable(builder, name)
        return total

    def _build_executable(self, builder: GoBuilder, name: str) -> None:
        started = time.monotonic()
        try:
            builder.build(name)
        except BaseException:
            self._say("not built\n")
            raise
        self._say(f"built in {_duration(time.monotonic() - started)}\n")

    def _link(self) -> None:
        if self._complete():
            return
        scratch = self._bin.parent.with_suffix(".new")
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "bin").mkdir(parents=True)
        taken, sources = self._taken_sources(), {}
        for group in self._groups:
            recorded = read_sources(self._tools / group.key)
            for name in _needed(group, taken):
                # No symbolic links: the engine resolves them, and looks for its language host in its own folder.
                original = self._taken.path(name) if name in taken else self._folder(group) / name
                (scratch / "bin" / name).hardlink_to(original)
                if source := taken.get(name) or recorded.get(name):
                    sources[name] = source
        if sources:
            write_sources(scratch, sources)
        shutil.rmtree(self._bin.parent, ignore_errors=True)
        scratch.rename(self._bin.parent)

    def _report(self, line: str) -> None:
        self._say(f"tools: {line}\n")

    def _say(self, text: str) -> None:
        self._progress.write(text)
        self._progress.flush()


def _needed(group: Group, sources: Mapping[str, str]) -> list[str]:
    """Return the files of a group that a rehearsal needs: a released tool may come without the files beside it."""
    if all(name in sources for name in group.binaries):
        return [name for name in group.files if name in sources]
    return group.files


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def main() -> int:
    """Make the tools ready and print their folder."""
    print(ensure_tools())
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
