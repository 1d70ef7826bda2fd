"""Helm's record of a release: the Secret `sh.helm.release.v1.<name>.v<revision>` in the release's namespace.

https://helm.sh/docs/topics/advanced/#storage-backends; the record is JSON, gzipped and in base64, and a Secret's data
is in base64 once more.
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
    """A Secret is not a record of a release. The message has nothing of its content."""


@dataclass(frozen=True)
class HelmRelease:
    """One revision of a release."""

    name: str
    namespace: str
    chart: str
    version: str
    """The chart's."""
    status: str
    """Such as `deployed`, `failed`, `pending-upgrade` or `superseded`."""
    revision: int
    """1 for the installation."""
    values: Mapping[str, Any] = field(repr=False)
    """The user's values beside the chart's defaults. They may hold secrets, such as the Prometheus address."""
    changed: datetime
    """When Helm began this revision."""
    manifest: str = field(repr=False)
    """The release's objects, as YAML documents in the order of their creation."""


def secret_selector(name: str) -> str:
    """Return the label selector of a release's Secrets, one for each revision that Helm keeps."""
    return f"owner=helm,name={name}"


def decode(secret: Mapping[str, Any]) -> HelmRelease:
    """Return the release in a Secret, `data.release`, as the API server answers it.

    Raises:
        HelmReleaseError: it does not have such data, or the data has another form.
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
        raise HelmReleaseError("a Secret of Helm can't be read as a record of a release") from None


def latest(secrets: Iterable[Mapping[str, Any]]) -> HelmRelease | None:
    """Return the newest revision among a release's Secrets, whatever its status; None where there are none.

    Raises:
        HelmReleaseError: as `decode`.
    """
    return max((decode(secret) for secret in secrets), key=lambda release: release.revision, default=None)
