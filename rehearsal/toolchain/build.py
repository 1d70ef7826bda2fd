"""Builds the pinned Go tools of a rehearsal from `tools/*` into the user's cache folder, each only once.

`python -m rehearsal.toolchain.build` builds what is missing; its last line is the folder of the executables.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from rehearsal.errors import RehearsalError
from rehearsal.layout import cache_folder
from rehearsal.processes import end_with_parent
from rehearsal.toolchain.groups import Group, numbers, read_groups


def ensure_tools(
    progress: TextIO | None = None, *, groups: Sequence[Group] | None = None, cache: Path | None = None
) -> Path:
    """Build the tools that the cache does not hold yet.

    Two processes take turns, and checkouts with other pins have folders of their own. A build that was
    interrupted goes on: executables that are finished stay, so do the Go caches.

    Args:
        progress: where to say what is being built, by default standard output.
        groups: what to build, by default the groups of `tools.toml`.
        cache: where to keep it, by default `cache_folder()`.

    Returns:
        The folder, named `bin`, that holds every executable and the files they read from beside them.

    Raises:
        RehearsalError: Go is missing or too old, a build failed, or the cache folder can't be written.
    """
    cache = cache or cache_folder()
    toolchain = _Toolchain(read_groups() if groups is None else groups, cache, progress or sys.stdout)
    try:
        return toolchain.ensure()
    except OSError as error:
        raise RehearsalError(
            f"The tools can't be kept in {cache} ({error.strerror or error}): make room or give the right to "
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
            with self._lock() as lock:
                self._wait_for_turn(lock)
                built = self._build_missing()
                self._link()
                self._drop_caches()
        elif self._work.exists():
            # Either left by a build that was killed, or in use by another checkout's.
            with self._lock() as lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._drop_caches()
        total = f" ({built} built in {_duration(time.monotonic() - started)})" if built else ""
        self._say(f"tools: ready{total}\n")
        return self._bin

    def _complete(self) -> bool:
        return all((self._bin / name).is_file() for group in self._groups for name in group.files)

    def _folder(self, group: Group) -> Path:
        return self._tools / group.key / "bin"

    def _missing(self, group: Group) -> list[str]:
        return [name for name in group.binaries if not (self._folder(group) / name).is_file()]

    def _lock(self) -> TextIO:
        return (self._tools / "lock").open("a+")

    def _wait_for_turn(self, lock: TextIO) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            self._say(f"tools: waiting for process {lock.read()}, which is building into {self._tools}\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()

    def _build_missing(self) -> int:
        missing = {group.key: self._missing(group) for group in self._groups}
        total = sum(map(len, missing.values()))
        if total:
            unbuilt = [group for group in self._groups if missing[group.key]]
            _require_go(max(group.go_version for group in unbuilt), _go_environment(self._work))
            self._say(
                f"tools: building {total} from source, once, into {self._tools} "
                "(half an hour on 2 cores where none is there yet)\n"
            )
        built = 0
        for group in self._groups:
            if missing[group.key]:
                builder = _Builder(group, self._folder(group), self._work)
                builder.copy_files_beside()
                for name in missing[group.key]:
                    built += 1
                    self._say(f"[{built}/{total}] {name} ... ")
                    self._build(builder, name)
        return built

    def _drop_caches(self) -> None:
        # Only when all is built: the groups share the standard library and many modules.
        shutil.rmtree(self._work, ignore_errors=True)

    def _build(self, builder: _Builder, name: str) -> None:
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
                # No symbolic links: the engine looks for its language host where it is itself, links resolved.
                (scratch / "bin" / name).hardlink_to(self._folder(group) / name)
        scratch.rename(self._bin.parent)

    def _say(self, text: str) -> None:
        self._progress.write(text)
        self._progress.flush()


class _Builder:
    """Runs `go` for one group, with caches that go when all groups are complete."""

    def __init__(self, group: Group, folder: Path, work: Path) -> None:
        self._group = group
        self._folder = folder
        self._work = work
        # What an interrupted build has left here is of no use to the next one, unlike its caches.
        shutil.rmtree(work / "tmp", ignore_errors=True)
        for needed in (folder, work / "tmp"):
            needed.mkdir(parents=True, exist_ok=True)
        self._environment = _go_environment(work)

    def build(self, name: str) -> None:
        partial = self._work / "tmp" / name
        try:
            self._run(name, "build", *self._group.flags, "-o", str(partial), self._group.binaries[name])
            partial.replace(self._folder / name)
        except BaseException:
            shutil.rmtree(self._work / "tmp", ignore_errors=True)
            raise

    def copy_files_beside(self) -> None:
        for file in self._group.beside:
            target = self._folder / file.name
            if target.is_file():
                continue
            self._run(file.name, "mod", "download", file.module)
            module = self._run(file.name, "list", "-m", "-f", "{{.Dir}}", file.module).strip()
            content = Path(module, file.path).read_bytes()
            if file.set_version:
                content = json.dumps({**json.loads(content), "version": self._group.version}).encode()
            partial = self._work / "tmp" / file.name
            partial.write_bytes(content)
            partial.chmod(0o755 if content.startswith(b"#!") else 0o644)
            partial.replace(target)

    def _run(self, name: str, *arguments: str) -> str:
        child = subprocess.Popen(
            ["go", *arguments],
            cwd=self._group.source,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        try:
            answer, complaint = child.communicate()
        except BaseException:
            # The compilers that `go` has started are in its process group, and in no other one.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        if child.returncode != 0:
            log = self._work / f"{name}.log"
            log.write_text(complaint)
            last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
            raise RehearsalError(
                f"{name} could not be built (go {arguments[0]}, exit code {child.returncode}: {last[:300]}): "
                f"all that Go said is in {log}; the next run goes on from here."
            )
        return answer


def _go_environment(work: Path) -> dict[str, str]:
    """The user's environment and Go settings (proxies, checksums, credentials), but for where Go writes."""
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        **os.environ,
        "GOENV": os.environ.get("GOENV") or str(configuration / "go" / "env"),
        # Go keeps its telemetry there, and nothing else that a build needs.
        "XDG_CONFIG_HOME": str(work / "config"),
        "GOPATH": str(work / "go"),
        "GOMODCACHE": str(work / "go" / "pkg" / "mod"),
        "GOCACHE": str(work / "cache"),
        "GOTMPDIR": str(work / "tmp"),
        "TMPDIR": str(work / "tmp"),
        # Not empty, because an empty one is looked up in GOENV; with it the module cache can be removed.
        "GOFLAGS": "-modcacherw",
        "GO111MODULE": "on",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        # Compilers that collect less often take more memory (2 GB at most) and a fifth less time.
        "GOGC": os.environ.get("GOGC") or "400",
        "CGO_ENABLED": "0",
    }


def _require_go(needed: tuple[int, ...], environment: Mapping[str, str]) -> None:
    found = "none"
    if go := shutil.which("go"):
        try:
            answer = subprocess.run(
                [go, "version"],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise RehearsalError(
                f"{go} can't be run ({error.strerror or error}): install Go from go.dev for this machine and put it "
                "on PATH."
            ) from None
        version = re.search(r"\bgo(\d+(?:\.\d+)+)", answer.stdout)
        if version and numbers(version[1]) >= needed:
            return
        found = version[1] if version else f"{go}, which does not tell its version"
    raise RehearsalError(
        f"Go {'.'.join(map(str, needed))} or newer is needed (found {found}): "
        "install it from go.dev and put it on PATH."
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def main() -> int:
    """Build, print the folder; exit code 1 with a sentence on standard error where that fails."""
    # As Ctrl-C, so that the compilers end as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(ensure_tools())
    except RehearsalError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; `make tools` goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
