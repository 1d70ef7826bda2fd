"""Searches files, processes and texts for secrets, in every form in which one leaks."""

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
"""Of a part, in bytes: more than is found by chance."""


@dataclass(frozen=True)
class Secret:
    """A secret, by the parts whose sight alone gives it away.

    A part is short enough to stand in one piece wherever the secret is wrapped into lines or escaped.
    """

    name: str
    parts: tuple[bytes, ...] = field(repr=False)

    @staticmethod
    def of_kubeconfig(content: str) -> Secret:
        """The client's key: as the kubeconfig has it, as PEM, and as the bytes in that."""
        encoded = yaml.safe_load(content)["users"][0]["user"]["client-key-data"]
        # The last line may be short enough to be found by chance.
        lines = [line for line in base64.b64decode(encoded).splitlines()[1:-1] if len(line) >= _LENGTH]
        return Secret("key", (_middle(encoded.encode()), *lines, *(_middle(base64.b64decode(line)) for line in lines)))

    @staticmethod
    def of_prometheus_address(address: str) -> Secret:
        """The token in the path of the HTTP API's address."""
        return Secret("token", (address.split("/api/v1/prometheus/")[1].split("/")[0].encode(),))

    def is_in(self, content: bytes) -> bool:
        """Whether the content has a part, as it is or in base64."""
        return any(form in content for part in self.parts for form in (part, *_base64_forms(part)))


def secrets_of(layout: Layout) -> list[Secret]:
    """Those of the cloud that is up."""
    return [
        Secret.of_kubeconfig(layout.kubeconfig.read_text()),
        Secret.of_prometheus_address(layout.prometheus_api_url.read_text()),
    ]


def _middle(content: bytes) -> bytes:
    start = max(len(content) - _LENGTH, 0) // 2
    return content[start : start + _LENGTH]


def _base64_forms(part: bytes) -> Iterator[bytes]:
    """What the part looks like inside of base64: it depends on where its first byte falls in a group of three."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + part)
        # Without the characters that depend on what is before and behind.
        yield encoded[(0, 2, 3)[before] : len(encoded) - (0, 3, 2)[(before + len(part)) % 3]]


def in_files(folder: Path, secrets: list[Secret]) -> Iterator[tuple[Path, str]]:
    """The files under a folder that hold a secret, with its name; links are not followed."""
    for path in folder.rglob("*"):
        # A running cloud makes and removes files.
        with contextlib.suppress(FileNotFoundError):
            if path.is_symlink():
                content = bytes(path.readlink())
            elif path.is_file():
                content = path.read_bytes()
            else:
                continue
            yield from ((path, secret.name) for secret in secrets if secret.is_in(content + bytes(path)))


def in_processes(secrets: list[Secret]) -> Iterator[tuple[str, str]]:
    """What shows a secret in its arguments or its environment, of all processes of this machine that can be read."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            name = process.name()
            shown = {"arguments": process.cmdline(), "environment": process.environ().values()}
            for kind, values in shown.items():
                content = "\0".join(values).encode(errors="surrogateescape")
                yield from ((f"{kind} of {name}", secret.name) for secret in secrets if secret.is_in(content))
