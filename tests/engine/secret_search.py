"""Search files, processes and texts for secrets, in plain text and in base64."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import yaml

from rehearsal.layout import Layout

_LENGTH = 40
"""Bytes in a part: too many for a match by chance."""


@dataclass(frozen=True)
class Secret:
    """A secret and the parts of it to search for.

    A part is short, so that line breaks and escapes in a leaked secret do not split it.
    """

    name: str
    parts: tuple[bytes, ...] = field(repr=False)

    @staticmethod
    def of_kubeconfig(content: str) -> Secret:
        """Return the client key as base64 from the kubeconfig, as PEM and as DER bytes."""
        encoded = yaml.safe_load(content)["users"][0]["user"]["client-key-data"]
        # A short last line could match by chance.
        lines = [line for line in base64.b64decode(encoded).splitlines()[1:-1] if len(line) >= _LENGTH]
        return Secret("key", (_middle(encoded.encode()), *lines, *(_middle(base64.b64decode(line)) for line in lines)))

    @staticmethod
    def of_prometheus_address(address: str) -> Secret:
        """Return the token in the path of the HTTP API's address."""
        return Secret("token", (address.split("/api/v1/prometheus/")[1].split("/")[0].encode(),))

    def is_in(self, content: bytes) -> bool:
        """Return whether the content has a part in plain text or in base64."""
        return any(form in content for part in self.parts for form in (part, *_base64_forms(part)))


def secrets_of(layout: Layout) -> list[Secret]:
    """Return the secrets of the running cloud."""
    return [
        Secret.of_kubeconfig(layout.kubeconfig.read_text()),
        Secret.of_prometheus_address(layout.prometheus_api_url.read_text()),
    ]


def _middle(content: bytes) -> bytes:
    start = max(len(content) - _LENGTH, 0) // 2
    return content[start : start + _LENGTH]


def _base64_forms(part: bytes) -> Iterator[bytes]:
    """Yield the three base64 forms of a part, one for each offset of its first byte modulo 3."""
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + part)
        # Without the characters that depend on the neighboring bytes.
        yield encoded[(0, 2, 3)[offset] : len(encoded) - (0, 3, 2)[(offset + len(part)) % 3]]


def in_files(folder: Path, secrets: list[Secret]) -> Iterator[tuple[Path, str]]:
    """Yield each file under a folder that holds a secret, and the secret's name; do not follow links."""
    for path in folder.rglob("*"):
        # A running cloud creates and deletes files.
        with contextlib.suppress(FileNotFoundError):
            if path.is_symlink():
                content = bytes(path.readlink())
            elif path.is_file():
                content = path.read_bytes()
            else:
                continue
            yield from ((path, secret.name) for secret in secrets if secret.is_in(content + bytes(path)))


def in_processes(secrets: list[Secret]) -> Iterator[tuple[str, str]]:
    """Yield each readable process whose arguments or environment hold a secret, and the secret's name."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            name = process.name()
            visible = {"arguments": process.cmdline(), "environment": process.environ().values()}
            for kind, values in visible.items():
                content = "\0".join(values).encode(errors="surrogateescape")
                yield from ((f"{kind} of {name}", secret.name) for secret in secrets if secret.is_in(content))
