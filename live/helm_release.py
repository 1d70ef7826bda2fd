"""Helm's record of a release: the Secret `sh.helm.release.v1.<name>.v<revision>` in the release's namespace.

https://helm.sh/docs/topics/advanced/#storage-backends; the record is gzipped JSON in base64, and a Secret's data is
in base64 again.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


class HelmReleaseError(Exception):
    """A Secret is not a record of a release. The message does not quote its content."""


@dataclass(frozen=True)
class HelmRelease:
    """One revision of a release."""

    name: str
    namespace: str
    chart: str
    version: str
    """Chart version."""
    status: str
    """A status of Helm, such as `deployed`, `failed`, `pending-upgrade` or `superseded`."""
    revision: int
    """Number of the revision; 1 is the installation."""
    values: Mapping[str, Any] = field(repr=False)
    """User-supplied values, without the chart's defaults. They may hold secrets, such as the Prometheus address."""
    changed: datetime
    """When Helm started this revision."""
    manifest: str = field(repr=False)
    """The release's objects as YAML documents, in installation order."""


def secret_selector(name: str) -> str:
    """Return the label selector of a release's Secrets. Helm keeps a Secret for each revision."""
    return f"owner=helm,name={name}"


def decode(secret: Mapping[str, Any]) -> HelmRelease:
    """Decode the release in a Secret's `data.release`.

    Raises:
        HelmReleaseError: the data is missing or has another format.
    """
    try:
        record = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
        return HelmRelease(
            name=str(record["name"]),
            namespace=str(record["namespace"]),
            chart=str(record["chart"]["metadata"]["name"]),
            version=str(record["chart"]["metadata"]["version"]),
            status=str(record["info"]["status"]),
            revision=int(record["version"]),
            values=dict(record.get("config") or {}),
            changed=datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", record["info"]["last_deployed"])),
            manifest=str(record["manifest"]),
        )
    # A Secret may hold anything, and the error's text may quote it.
    except Exception:
        raise HelmReleaseError("a Helm Secret is not a readable release record") from None


def latest(secrets: Iterable[Mapping[str, Any]]) -> HelmRelease | None:
    """Return the newest revision among a release's Secrets in any status; None without Secrets.

    Raises:
        HelmReleaseError: see `decode`.
    """
    return max((decode(secret) for secret in secrets), key=lambda release: release.revision, default=None)
