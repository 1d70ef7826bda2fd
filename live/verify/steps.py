"""A check: the expected and the observed result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """The outcome of a check. If it failed, `observed` names the broken link."""

    name: str
    expected: str
    observed: str
    ok: bool


def print_step(index: int, step: Step) -> None:
    """Print a step as three lines that read the same on a terminal and in a log."""
    verdict = "ok    " if step.ok else "FAILED"
    print(f"{verdict} {index:2}. {step.name}", flush=True)
    print(f"           expected: {step.expected}\n           observed: {step.observed}", flush=True)
