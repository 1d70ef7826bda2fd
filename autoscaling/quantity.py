"""Kubernetes quantities. The official client is not used, because its import takes over a second."""

from __future__ import annotations

import re
from decimal import Decimal

_SUFFIXES = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate(["", *"kMGTPE"])},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_quantity(quantity: str) -> Decimal:
    """Return the value of a quantity: `19600m` is 19.6, `1Ki` is 1024.

    Raises:
        ValueError: the text is not a quantity.
    """
    found = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkKMGTPE]?i?)", quantity)
    if found is None or found[2] not in _SUFFIXES:
        raise ValueError(f"{quantity!r} is not a quantity")
    return Decimal(found[1]) * _SUFFIXES[found[2]]


def decimal(quantity: str | Decimal) -> str:
    """Format a quantity as a decimal number: `19600m` is 19.6, `0` is 0."""
    value = round(parse_quantity(quantity) if isinstance(quantity, str) else quantity, 2)
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
