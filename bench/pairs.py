"""Interleaved measurements, and what they say: the middle and the extremes of each side, and the ratio pair by pair."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of some values, with the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Pairs:
    """Values of the program and of the flat program, measured in turn: one of each makes a pair."""

    ours: tuple[float, ...]
    flat: tuple[float, ...]

    @property
    def ratio(self) -> Spread:
        """Ours over flat, pair by pair: what slows the machine down for a while slows down both."""
        return Spread.of([ours / flat for ours, flat in zip(self.ours, self.flat, strict=True)])

    def per_service(self, smaller: Pairs, services: int) -> Pairs:
        """What each of `services` further ones adds to the values of `smaller`."""
        return Pairs(
            tuple((many - few) / services for many, few in zip(self.ours, smaller.ours, strict=True)),
            tuple((many - few) / services for many, few in zip(self.flat, smaller.flat, strict=True)),
        )


def in_turn(actions: Sequence[Callable[[], float]], rounds: int) -> list[tuple[float, ...]]:
    """The values of each action, measured in turn: A B C A B C.

    A round before the first is not counted: it reads files that the others find cached.
    """
    measured = [[action() for action in actions] for _ in range(rounds + 1)][1:]
    return list(zip(*measured, strict=True))
