"""Runs `go` to build the executables of a group."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.children import run_child
from rehearsal.toolchain.groups import Group, numbers


class GoBuilder:
    """Runs `go` for one group, with caches in a folder that is deleted when all groups are complete."""

    def __init__(self, group: Group, folder: Path, work: Path) -> None:
        self._group = group
        self._folder = folder
        self._work = work
        # The next build can use the caches of an interrupted one, but not its temporary files.
        shutil.rmtree(work / "tmp", ignore_errors=True)
        for needed in (folder, work / "tmp"):
            needed.mkdir(parents=True, exist_ok=True)
        self._environment = _go_environment(work)

    def build(self, name: str) -> None:
        """Build an executable."""
        partial = self._work / "tmp" / name
        try:
            self._run(name, "build", *self._group.flags, "-o", str(partial), self._group.binaries[name])
            partial.replace(self._folder / name)
        except BaseException:
            shutil.rmtree(self._work / "tmp", ignore_errors=True)
            raise

    def copy_files_beside(self) -> None:
        """Copy the module files that the executables read from their own folder."""
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
        result = run_child(["go", *arguments], cwd=self._group.source, environment=self._environment)
        if result.returncode != 0:
            log = self._work / f"{name}.log"
            log.write_text(result.stderr)
            last = (result.stderr.strip().splitlines() or ["it reported nothing"])[-1]
            raise RehearsalError(
                f"{name} could not be built (go {arguments[0]}, exit code {result.returncode}: {last[:300]}): "
                f"see {log}. The next run continues from here."
            )
        return result.stdout


def _go_environment(work: Path) -> dict[str, str]:
    """Return the user's environment and Go settings (proxies, checksums, credentials), with Go's folders in `work`."""
    configuration = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        **os.environ,
        "GOENV": os.environ.get("GOENV") or str(configuration / "go" / "env"),
        # Go writes its telemetry there.
        "XDG_CONFIG_HOME": str(work / "config"),
        "GOPATH": str(work / "go"),
        "GOMODCACHE": str(work / "go" / "pkg" / "mod"),
        "GOCACHE": str(work / "cache"),
        "GOTMPDIR": str(work / "tmp"),
        "TMPDIR": str(work / "tmp"),
        # Go looks up an empty value in GOENV. The flag makes the module cache removable.
        "GOFLAGS": "-modcacherw",
        "GO111MODULE": "on",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        # Less frequent garbage collection takes more memory (2 GB at most) and a fifth less time.
        "GOGC": os.environ.get("GOGC") or "400",
        "CGO_ENABLED": "0",
    }


def require_go(needed: tuple[int, ...], work: Path) -> None:
    """Raise `RehearsalError` if `go` is missing or older than needed."""
    found = "none"
    if go := shutil.which("go"):
        answer = subprocess.run(
            [go, "version"], env=_go_environment(work), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        version = re.search(r"\bgo(\d+(?:\.\d+)+)", answer.stdout)
        if version and numbers(version[1]) >= needed:
            return
        found = version[1] if version else go
    raise RehearsalError(
        f"Go {'.'.join(map(str, needed))} or newer is needed (found {found}): "
        "install it from go.dev and put it on PATH."
    )
