"""Go's integer arithmetic on amd64, to reproduce the effect of absurd samples.

A proposal above 2**31 - 1 becomes the smallest integer, so a sample of 9.2e18 removes replicas instead of adding them.
"""

from __future__ import annotations


def wrapped(number: int, bits: int) -> int:
    """Wrap a number to a signed integer of `bits` bits, as Go does on overflow."""
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


def int32(number: float) -> int:
    """Convert as Go does on amd64: round towards 0; return the smallest integer if the number does not fit."""
    whole = int(number)
    return whole if whole == wrapped(whole, 32) else -(1 << 31)
