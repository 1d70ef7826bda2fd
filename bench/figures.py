"""Interleaved measurements, their spread, and the tables of the report."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

OURS, UNREGISTERED, FLAT = "ours", "unregistered", "flat"
MARK = "<!-- `make bench` writes everything below this line -->\n"


def seconds(action: Callable[[], object]) -> float:
    """Run an action and return its duration."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def in_turn(actions: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return the values of each action, measured in turn: A B C, A B C.

    An extra first round does not count, because it fills the file cache.
    """
    measured = [{name: action() for name, action in actions.items()} for _ in range(rounds + 1)][1:]
    return {name: [values[name] for values in measured] for name in actions}


def ratios(values: Mapping[str, Sequence[float]], side: str) -> list[float]:
    """Return the ratio to the flat program for each round: a slow machine affects both programs of a round."""
    return [ours / flat for ours, flat in zip(values[side], values[FLAT], strict=True)]


def spread(values: Sequence[float], unit: str = "") -> str:
    """Format median, lowest and highest value, such as `2.91 s (2.80..3.10)`."""
    return f"{statistics.median(values):.2f}{unit} ({min(values):.2f}..{max(values):.2f})"


def comparison(
    command: str, services: int, values: Mapping[str, Sequence[float]], goals: Mapping[str, float]
) -> list[str]:
    """Return the table row of a command; `goals` has the highest accepted ratio by program."""
    results = [
        f"{side} at most {goal}: {'met' if statistics.median(ratios(values, side)) <= goal else 'missed'}"
        for side, goal in goals.items()
    ]
    return [
        command,
        str(services),
        *(spread(values[side], " s") for side in (OURS, UNREGISTERED, FLAT)),
        *(spread(ratios(values, side)) for side in (OURS, UNREGISTERED)),
        ", ".join(results),
    ]


def report(machine: str, comparisons: Sequence[Sequence[str]], pure: Mapping[str, Sequence[float]]) -> str:
    """Return both tables in Markdown, after a line about the machine."""
    heads = ["command", "services", OURS, UNREGISTERED, FLAT, "ours / flat", "unregistered / flat", "goal"]
    rows = [[part, spread([1000 * seconds for seconds in values], " ms")] for part, values in pure.items()]
    tables = [(heads, comparisons), (["part of ours", "time"], rows)]
    return machine + "\n" + "".join(f"\n{_table(*table)}" for table in tables)


def write_into(page: Path, text: str) -> None:
    """Replace the text after the mark.

    Raises:
        ValueError: the page does not have the mark.
    """
    head, mark, _ = page.read_text().partition(MARK)
    if not mark:
        raise ValueError(f"{page.name} does not have the line {MARK.strip()}")
    page.write_text(head + mark + text)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, ["---"] * len(heads), *rows))
