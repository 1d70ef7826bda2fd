"""The report, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.pairs import Pairs, Spread
from commands.docs.reference import replaced

_BEGIN, _END = "<!-- what make bench measured -->", "<!-- the end of it -->"


@dataclass(frozen=True)
class Unit:
    """How values are shown: times `factor`, with so many decimals."""

    name: str
    factor: float = 1
    decimals: int = 0


SECONDS = Unit("s", decimals=2)
MILLISECONDS = Unit("ms", factor=1000)
MEBIBYTES = Unit("MiB")
_RATIO = Unit("", decimals=2)


@dataclass(frozen=True)
class Comparison:
    """One row of ours against flat."""

    what: str
    services: str
    pairs: Pairs
    unit: Unit
    goal: str = ""


@dataclass(frozen=True)
class Figure:
    """One row of ours alone."""

    what: str
    spread: Spread
    unit: Unit
    goal: str = ""


def shown(spread: Spread, unit: Unit) -> str:
    """Such as `2.91 s (2.80..3.10)`: the median, and the lowest and highest."""
    median, low, high = (
        f"{value * unit.factor:.{unit.decimals}f}" for value in (spread.median, spread.low, spread.high)
    )
    return f"{median}{f' {unit.name}' if unit.name else ''} ({low}..{high})"


def rendered(machine: str, comparisons: Sequence[Comparison], figures: Sequence[Figure]) -> str:
    """Both tables, after a line about the machine."""
    against_flat = [
        (
            row.what,
            row.services,
            shown(Spread.of(row.pairs.ours), row.unit),
            shown(Spread.of(row.pairs.flat), row.unit),
            shown(row.pairs.ratio, _RATIO),
            row.goal,
        )
        for row in comparisons
    ]
    alone = [(row.what, shown(row.spread, row.unit), row.goal) for row in figures]
    return "\n".join(
        [
            machine,
            "",
            *_table(("", "services", "ours", "flat", "ours / flat", "goal"), against_flat),
            "",
            *_table(("", "ours", "goal"), alone),
        ]
    )


def put_into(page: Path, report: str) -> None:
    """Replace the part of a page that the last run wrote.

    Raises:
        ValueError: the page has no such part.
    """
    try:
        text = replaced(page.read_text(), _BEGIN, report, _END)
    except ValueError:
        raise ValueError(f"{page.name} has no part between {_BEGIN} and {_END}: put the two lines in.") from None
    page.write_text(text)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
