"""Released tools on this machine: which versions a rehearsal accepts, and what a folder holds."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.children import run_child

FOLDER_VARIABLE = "ACKGPU_TOOLS"
ENGINE = "pulumi"
LANGUAGE_HOST = ("pulumi-language-python", "pulumi-language-python-exec")
"""The executable, and the file that it reads from its own folder."""

_VERSION_SECONDS = 20
"""Time limit of a version query: enough for a cold disk on a busy machine."""


class NotUsableError(Exception):
    """Why a program is not used."""


@dataclass(frozen=True)
class Release:
    """How a tool reports its version, and the accepted minor versions."""

    arguments: Sequence[str]
    pattern: str
    oldest: tuple[int, int]
    newest: tuple[int, int]

    @property
    def accepted(self) -> str:
        """The accepted versions, for messages."""
        oldest, newest = (".".join(map(str, version)) for version in (self.oldest, self.newest))
        return f"{oldest}.x" if oldest == newest else f"{oldest}.x to {newest}.x"

    def version_in(self, output: str) -> str:
        """Return the version in the tool's output; raise `NotUsableError` if it is not accepted."""
        found = re.search(rf"{self.pattern}v?((\d+)\.(\d+)\.\d+)(\S*)", output, re.MULTILINE)
        if found is None:
            raise NotUsableError("it did not report a version")
        # A suffix marks a pre-release or a wrapper.
        if found[4] or not self.oldest <= (int(found[2]), int(found[3])) <= self.newest:
            raise NotUsableError(f"its version is {found[1]}{found[4]}; accepted: {self.accepted}")
        return found[1]


_KUBERNETES = Release(("--version",), r"^Kubernetes ", (1, 36), (1, 36))
RELEASES = {
    # From the minor version of the Python SDK to the tested engine's.
    ENGINE: Release(("version",), r"^", (3, 272), (3, 274)),
    # Kubernetes supports a kubectl that is one minor version older or newer than the API server.
    "kubectl": Release(("version", "--client"), r"^Client Version: ", (1, 35), (1, 37)),
    "etcd": Release(("--version",), r"^etcd Version: ", (3, 6), (3, 6)),
    # Tests compare the HPA arithmetic with this minor version.
    "kube-apiserver": _KUBERNETES,
    "kube-controller-manager": _KUBERNETES,
    "kube-scheduler": _KUBERNETES,
    # 0.8 changes its defaults for pods and nodes.
    "kwok": Release(("--version",), r"^kwok version ", (0, 7), (0, 7)),
    "prometheus": Release(("--version",), r"^prometheus, version ", (3, 16), (3, 16)),
}
"""The tools that can be taken. The pinned version of each is accepted."""


@dataclass(frozen=True)
class Found:
    """An accepted tool, with the files that belong to it."""

    files: dict[str, Path]
    source: str
    """Version and origin, for people."""


def chosen_folder() -> Path | None:
    """Return the folder that `ACKGPU_TOOLS` names, or None."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if not chosen or not may_take():
        return None
    folder = Path(chosen).expanduser().absolute()
    if not folder.is_dir():
        raise RehearsalError(
            f"{FOLDER_VARIABLE}: {folder} is not a folder. Name a folder of executables, or unset the variable."
        )
    return folder


def may_take() -> bool:
    """Return whether released tools may be taken: `ACKGPU_TOOLS=none` forbids it."""
    return os.environ.get(FOLDER_VARIABLE) != "none"


def path_folders() -> list[Path]:
    """Return the folders of PATH."""
    return [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]


def find_released(
    missing: Collection[str], folders: Sequence[Path], home: Path, report: Callable[[str], None]
) -> Iterator[Found]:
    """Find accepted tools in folders, and report each tool that is not used.

    Args:
        missing: Names of the missing tools.
        folders: Where to look, in this order.
        home: An empty folder: some tools write into their home when they report their version.
        report: Takes one line.
    """
    for name in RELEASES:
        asked = set()
        for folder in folders if name in missing else ():
            path = folder / name
            if not path.is_file() or not os.access(path, os.X_OK) or path.resolve() in asked:
                continue
            asked.add(path.resolve())
            try:
                yield _found(name, path.resolve(), missing, home, report)
                break
            except NotUsableError as error:
                report(f"{path} is not used: {error}")


def _found(name: str, program: Path, missing: Collection[str], home: Path, report: Callable[[str], None]) -> Found:
    release = RELEASES[name]
    version = release.version_in(output_of(program, release.arguments, home))
    files = {name: program}
    if name == ENGINE and LANGUAGE_HOST[0] in missing:
        host = program.with_name(LANGUAGE_HOST[0])
        try:
            check_usage(host, home)
            if not program.with_name(LANGUAGE_HOST[1]).is_file():
                raise NotUsableError(f"{LANGUAGE_HOST[1]} is not beside it")
            files |= {file: program.with_name(file) for file in LANGUAGE_HOST}
        except NotUsableError as error:
            report(f"{host} is not used: {error}")
    return Found(files, f"{version} from {program.parent}")


def check_usage(program: Path, home: Path) -> None:
    """Check a program that has no version flag: it must print its usage."""
    if "Usage" not in output_of(program, ["-help"], home):
        raise NotUsableError("it did not print its usage")


def output_of(program: Path, arguments: Sequence[str], home: Path) -> str:
    """Return what a program prints; raise `NotUsableError` if it can't run or hangs."""
    if not program.is_file() or not os.access(program, os.R_OK):
        raise NotUsableError("it does not exist, or it is not readable")
    environment = {**os.environ, "HOME": str(home), "PULUMI_HOME": str(home), "PULUMI_SKIP_UPDATE_CHECK": "1"}
    try:
        result = run_child([program, *arguments], cwd=home, environment=environment, seconds=_VERSION_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotUsableError(f"it did not answer within {_VERSION_SECONDS} s") from None
    except OSError as error:
        raise NotUsableError(f"it does not run ({error.strerror})") from None
    if result.returncode != 0:
        raise NotUsableError(f"`{program.name} {' '.join(arguments)}` failed with exit code {result.returncode}")
    return result.stdout + result.stderr
