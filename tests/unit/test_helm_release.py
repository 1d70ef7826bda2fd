"""Helm's record of a release, in the format of its storage driver (pkg/storage/driver/util.go: encodeRelease)."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from live.helm_release import HelmRelease, HelmReleaseError, decode, latest


def secret(packed: bytes) -> dict[str, Any]:
    """Return a Secret as the API server does: Helm's base64 within the base64 of its data."""
    return {"data": {"release": base64.b64encode(base64.b64encode(packed)).decode()}}


def record(revision: int = 2, **changes: Any) -> dict[str, Any]:
    return {
        "name": "adapter",
        "namespace": "kube-system",
        "version": revision,
        "info": {"status": "deployed", "last_deployed": "2026-11-30T13:00:00.123456789+01:00"},
        "manifest": "---\nkind: Service\n",
        "chart": {"metadata": {"name": "the-chart", "version": "1.3.2"}, "values": {"replicas": 1}},
        "config": {"prometheus": {"url": "http://prometheus/a-token"}},
        **changes,
    }


def zipped(content: Any) -> bytes:
    return gzip.compress(json.dumps(content).encode())


def test_decodes_a_record() -> None:
    assert decode(secret(zipped(record()))) == HelmRelease(
        name="adapter",
        namespace="kube-system",
        chart="the-chart",
        version="1.3.2",
        status="deployed",
        revision=2,
        values={"prometheus": {"url": "http://prometheus/a-token"}},
        changed=datetime(2026, 11, 30, 12, 0, 0, 123456, UTC),
        manifest="---\nkind: Service\n",
    )


def test_a_release_without_user_values_has_empty_values() -> None:
    assert decode(secret(zipped(record(config=None)))).values == {}


def test_repr_hides_the_values() -> None:
    assert "a-token" not in repr(decode(secret(zipped(record()))))


def test_compares_revisions_as_numbers() -> None:
    found = latest(secret(zipped(record(revision))) for revision in (9, 10, 2))
    assert found and found.revision == 10
    assert latest([]) is None


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"data": None},
        {"data": {"release": "not base64"}},
        secret(b"neither gzip nor JSON"),
        secret(zipped(record())[:40]),
        secret(zipped(["a", "list"])),
        secret(zipped(record(chart={}))),
        secret(zipped(record(config="a text of a-token"))),
    ],
)
def test_refuses_an_invalid_record_without_quoting_it(broken: dict[str, Any]) -> None:
    with pytest.raises(HelmReleaseError) as error:
        decode(broken)
    assert "token" not in str(error.value)
    assert error.value.__cause__ is None
