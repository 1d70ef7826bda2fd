"""Integers as Go has them on amd64: they decide what an absurd sample does.

A proposal beyond 2**31 - 1 becomes the least number, so that a sample of 9.2e18 removes replicas instead of adding
them.
"""

from __future__ import annotations


def wrapped(number: int, bits: int) -> int:
    """A signed integer of so many bits, as Go adds."""
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


def int32(number: float) -> int:
    """As Go converts on amd64: towards 0, and the least number where it does not fit."""
    whole = int(number)
    return whole if whole == wrapped(whole, 32) else -(1 << 31)
