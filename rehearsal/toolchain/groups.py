"""The groups of tools in `tools.toml`, with the versions that `tools/*/go.mod` pins."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path

from rehearsal.errors import RehearsalError
from rehearsal.layout import CHECKOUT

MANIFEST = Path(__file__).with_name("tools.toml")
SOURCES = CHECKOUT / "tools"

# The linker strips debugging information, which takes a fifth of the compilers' time.
_COMPILER_FLAGS = "-dwarf=false"
_BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false", f"-gcflags=all={_COMPILER_FLAGS}")


@dataclass(frozen=True)
class ModuleFile:
    """A file of a Go module that an executable reads from its own folder."""

    module: str
    path: str
    set_version: bool = False

    @property
    def name(self) -> str:
        """Name of the file beside the executable."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Group:
    """Executables that are built from the same Go module, and so with the same dependencies."""

    source: Path
    binaries: Mapping[str, str]
    tags: Sequence[str] = ()
    version_of: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    beside: Sequence[ModuleFile] = ()
    unoptimised: Sequence[str] = ()

    @property
    def files(self) -> list[str]:
        """Names of the files in the folder of a complete group."""
        return [*(file.name for file in self.beside), *self.binaries]

    @cached_property
    def key(self) -> str:
        """Name of the group's folder in the cache. It contains a hash of everything that affects the build."""
        digest = hashlib.sha256()
        for path in sorted([self.source / "go.mod", self.source / "go.sum", *self.source.rglob("*.go")]):
            digest.update(f"{path.relative_to(self.source)}\0".encode() + path.read_bytes() + b"\0")
        digest.update(repr((sorted(self.binaries.items()), self.flags, self.beside, self.version)).encode())
        digest.update(f"{sys.platform} {platform.machine()}".encode())
        return f"{self.source.name}-{digest.hexdigest()[:16]}"

    @cached_property
    def flags(self) -> list[str]:
        """Flags of `go build`."""
        major, _, rest = self.version.removeprefix("v").partition(".")
        facts = {"version": self.version, "major": major, "minor": rest.partition(".")[0]}
        variables = [f"-X {name}={value.format(**facts)}" for name, value in sorted(self.variables.items())]
        unoptimised = [f"-gcflags={packages}={_COMPILER_FLAGS} -N -l" for packages in self.unoptimised]
        return [
            *_BUILD_FLAGS,
            *unoptimised,
            f"-tags={','.join(self.tags)}",
            f"-ldflags={' '.join(['-s -w', *variables])}",
        ]

    @cached_property
    def version(self) -> str:
        """The version that `version_of` refers to, or an empty text."""
        if self.version_of is None:
            return ""
        kind, _, name = self.version_of.partition(":")
        return metadata.version(name) if kind == "python" else self._from_go_mod(rf"(?:require )?{re.escape(name)}")

    @property
    def go_version(self) -> tuple[int, ...]:
        """The oldest Go that builds the group."""
        return numbers(self._from_go_mod("go"))

    def _from_go_mod(self, directive: str) -> str:
        path = self.source / "go.mod"
        found = re.search(rf"^\s*{directive} (\S+)", path.read_text(), re.MULTILINE)
        if found is None:
            raise RehearsalError(f"{path} has no line {directive!r}: restore it from the repository.")
        return found[1]


def pins_hash(groups: Sequence[Group]) -> str:
    """Return a hash of everything that the groups are built from, and of the platform."""
    return hashlib.sha256("\n".join(group.key for group in groups).encode()).hexdigest()[:16]


def read_groups(manifest: Path = MANIFEST, sources: Path = SOURCES) -> list[Group]:
    """Return the groups of `tools.toml`, whose head explains its keys."""
    return [
        Group(
            source=sources / name,
            **{**table, "beside": tuple(ModuleFile(**file) for file in table.get("beside", ()))},
        )
        for name, table in tomllib.loads(manifest.read_text()).items()
    ]


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, which can be compared."""
    return tuple(int(number) for number in version.split("."))
