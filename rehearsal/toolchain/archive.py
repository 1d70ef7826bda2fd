"""Archives of built tools for one platform and one set of pins."""

from __future__ import annotations

import gzip
import hashlib
import platform
import re
import shutil
import sys
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from rehearsal.toolchain.groups import Group, pins_hash
from rehearsal.toolchain.sources import write_sources


class ArchiveError(Exception):
    """Why an archive is not used."""


def archive_name(groups: Sequence[Group]) -> str:
    """Return the archive's name: an archive of other pins or for another platform has another name."""
    return f"ackgpu-tools-{sys.platform}-{platform.machine()}-{pins_hash(groups)}.tar.gz"


def pack(groups: Sequence[Group], tools: Path, folder: Path) -> Path:
    """Write the archive and its checksum file into a folder. The same tools give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / archive_name(groups)
    partial = target.with_suffix(".new")
    try:
        with (
            partial.open("wb") as file,
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for member in _members(groups):
                tar.add(tools / member, member, recursive=False, filter=_anonymous)
        checksum = checksum_of(partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    target.with_name(f"{target.name}.sha256").write_text(f"{checksum}  {target.name}\n")
    return target


def _members(groups: Sequence[Group]) -> list[str]:
    return [f"{group.key}/bin/{name}" for group in groups for name in group.files]


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode &= 0o755
    return member


def checksum_of(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def checksum_in(text: str) -> str:
    """Return the checksum in a file that `sha256sum` has written."""
    found = re.match(r"([0-9a-fA-F]{64})(\s|$)", text)
    if found is None:
        raise ArchiveError("the .sha256 file beside it does not begin with a SHA-256")
    return found[1].lower()


def unpack(archive: Path, checksum: str, groups: Sequence[Group], tools: Path, *, scratch: Path, source: str) -> None:
    """Check an archive, and put its groups into the folder of tools, each in one step.

    Args:
        archive: The archive.
        checksum: Its expected SHA-256.
        groups: All groups of the toolchain.
        tools: The folder of tools. A group that is complete there stays.
        scratch: An empty folder on the same file system.
        source: Where the archive comes from, for the record.
    """
    actual = checksum_of(archive)
    if actual != checksum:
        raise ArchiveError(f"wrong checksum: its SHA-256 is {actual}, and the .sha256 file beside it has {checksum}")
    try:
        with tarfile.open(archive, "r:gz") as tar:
            _extract(tar, _members(groups), scratch)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile):
        raise ArchiveError("it is not a .tar.gz archive, or it is damaged") from None
    for group in groups:
        target = tools / group.key
        if not all((target / "bin" / name).is_file() for name in group.files):
            shutil.rmtree(target, ignore_errors=True)
            write_sources(scratch / group.key, dict.fromkeys(group.files, source))
            (scratch / group.key).rename(target)


def _extract(tar: tarfile.TarFile, members: Sequence[str], folder: Path) -> None:
    """Extract the expected files and nothing else. Each must be a regular file."""
    absent = list(members)
    for member in tar:
        content = tar.extractfile(member) if member.isreg() and member.name in absent else None
        if content is not None:
            absent.remove(member.name)
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with content, target.open("wb") as file:
                shutil.copyfileobj(content, file)
            target.chmod(member.mode & 0o755 | 0o600)
    if absent:
        raise ArchiveError(f"it does not contain {absent[0]}")
