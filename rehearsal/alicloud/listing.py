"""What the vendor's queries have in common: filters, and the shape of an answer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any


def passes(entry: dict[str, Any], arguments: dict[str, Any], filters: Sequence[str], name: str) -> bool:
    """Whether an entry of an answer is one that the query asks for.

    Args:
        entry: of the answer.
        arguments: of the query.
        filters: arguments that the entry has under the same name.
        name: of the entry, for `nameRegex`.
    """
    ids, pattern = arguments.get("ids"), arguments.get("nameRegex")
    if ids and entry["id"] not in ids:
        return False
    if pattern and not re.search(pattern, name):
        return False
    return all(entry[one] == arguments[one] for one in filters if arguments.get(one))


def listing(arguments: dict[str, Any], key: str, found: list[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """The answer of a query whose entries stand under `key`."""
    ids = [entry["id"] for entry in found]
    # The real id is a hash of the ids too: a random one would be a change at each run.
    identity = hashlib.sha256(",".join(ids).encode()).hexdigest()[:16]
    return {**arguments, "id": identity, "ids": ids, "names": list(names), key: found}
