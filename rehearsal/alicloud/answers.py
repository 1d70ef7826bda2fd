"""What the answers of the vendor's servers have in common: refusals, and the shape of a list."""

from __future__ import annotations

import hashlib
from typing import Any


class Refused(Exception):
    """A request that the vendor's servers refuse; the message starts with their error code."""


def listing(arguments: dict[str, Any], key: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer of a query: list all entries under `key`, or those with the `ids` that it asks for.

    Entries have the fields that somebody reads. The SDK reads a missing field as None.
    """
    wanted = arguments.get("ids")
    found = [entry for entry in entries if not wanted or entry["id"] in wanted]
    ids = [entry["id"] for entry in found]
    # The vendor's id is a hash of the ids too. A random id would be a change at each run.
    identity = hashlib.sha256(",".join(ids).encode()).hexdigest()[:16]
    return {**arguments, "id": identity, "ids": ids, key: found}
