"""What the answers of the vendor's servers have in common: refusals, filters, and the shape of a list."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any


class Refused(Exception):
    """A request that the vendor's servers refuse; the message starts with their error code."""


def passes(entry: dict[str, Any], arguments: dict[str, Any], filters: Sequence[str], name: str) -> bool:
    """Return whether an entry passes the filters of a query.

    Args:
        entry: one entry of the answer.
        arguments: the arguments of the query.
        filters: arguments that are compared with the entry's value of the same name.
        name: the entry's name, for `nameRegex`.
    """
    ids, pattern = arguments.get("ids"), arguments.get("nameRegex")
    if ids and entry["id"] not in ids:
        return False
    if pattern and not re.search(pattern, name):
        return False
    return all(entry[key] == arguments[key] for key in filters if arguments.get(key))


def listing(arguments: dict[str, Any], key: str, found: list[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return the answer of a query that lists its entries under `key`."""
    ids = [entry["id"] for entry in found]
    # The vendor's id is a hash of the ids too. A random id would be a change at each run.
    identity = hashlib.sha256(",".join(ids).encode()).hexdigest()[:16]
    return {**arguments, "id": identity, "ids": ids, "names": list(names), key: found}
