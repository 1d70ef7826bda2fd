"""Errors and query results of the simulated vendor API."""

from __future__ import annotations

import hashlib
from typing import Any


class VendorError(Exception):
    """A request that the vendor API refuses; the message starts with its error code."""


def query_result(arguments: dict[str, Any], key: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the result of a query: all entries under `key`, or only those in `ids` of the arguments.

    Entries hold only the fields that are used. The SDK reads a missing field as None.
    """
    requested_ids = arguments.get("ids")
    found = [entry for entry in entries if not requested_ids or entry["id"] in requested_ids]
    ids = [entry["id"] for entry in found]
    # A hash of the ids, as at the vendor. A random id would change in each run.
    identity = hashlib.sha256(",".join(ids).encode()).hexdigest()[:16]
    return {**arguments, "id": identity, "ids": ids, key: found}
