"""The archive that `ACKGPU_TOOLS_URL` names: in a folder, or at an HTTP address."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.toolchain.archive import ArchiveError, archive_name, checksum_in, unpack
from rehearsal.toolchain.download import Location
from rehearsal.toolchain.groups import Group

URL_VARIABLE = "ACKGPU_TOOLS_URL"


def install_archive(groups: Sequence[Group], tools: Path, scratch: Path, say: Callable[[str], None]) -> bool:
    """Install the tools of the archive; return False if the variable is not set.

    Args:
        groups: All groups of the toolchain.
        tools: The folder of tools.
        scratch: An empty folder on the same file system.
        say: Prints a text.
    """
    chosen = os.environ.get(URL_VARIABLE)
    if not chosen:
        return False
    name = archive_name(groups)
    try:
        if "://" in chosen:
            archive, checksum, source = _download(Location(chosen), name, scratch, say)
        else:
            archive, checksum, source = _find(Path(chosen).expanduser().absolute(), name)
        say(f"tools: unpacking {name} from {source}\n")
        unpack(archive, checksum, groups, tools, scratch=scratch, source=f"from the archive in {source}")
    except ArchiveError as error:
        raise RehearsalError(
            f"{URL_VARIABLE}: {error}. Fix the variable or the archive, or unset it to build the tools from source."
        ) from None
    return True


def _find(folder: Path, name: str) -> tuple[Path, str, str]:
    archive = folder / name
    try:
        checksum = checksum_in(archive.with_name(f"{name}.sha256").read_text(errors="replace"))
        archive.open("rb").close()
    except OSError as error:
        raise ArchiveError(f"{error.filename} can't be read ({error.strerror})") from None
    return archive, checksum, str(folder)


def _download(location: Location, name: str, scratch: Path, say: Callable[[str], None]) -> tuple[Path, str, str]:
    checksum = checksum_in(location.text(f"{name}.sha256"))
    archive = scratch / name
    say(f"tools: downloading {name} from {location.shown} ...")
    try:
        location.download(name, archive, lambda percent: say(f" {percent} %"))
    finally:
        say("\n")
    return archive, checksum, location.shown
