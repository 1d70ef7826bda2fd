"""`python -m bench`: measures, prints the tables, and writes them into docs/bench.md; what `make bench` calls."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping

import psutil

from bench.engine import Contender
from bench.pairs import Pairs, Spread, in_turn
from bench.projects import Projects
from bench.pure import SERVICES, in_fresh_process
from bench.table import MEBIBYTES, MILLISECONDS, SECONDS, Comparison, Figure, put_into, rendered
from rehearsal.cloud import running_cloud
from rehearsal.command import exit_code_of, sigterm_as_ctrl_c
from rehearsal.errors import RehearsalError
from rehearsal.layout import CHECKOUT, Layout
from rehearsal.main_job import rehearse
from rehearsal.toolchain.build import ensure_tools

SIZES = (1, 10, 50)
"""Services of a stack."""
PAIRS = 5
"""Of each timed command at each size."""
USAGE_PAIRS = 3
"""Of the program's own process, which varies little."""
REHEARSALS = 3

_FOLDER = CHECKOUT / "build" / "bench"
_PAGE = CHECKOUT / "docs" / "bench.md"
_GOAL = "at most 1.25"


def bench() -> int:
    """Run all measurements, about 20 minutes; the exit code is 0 also where a goal was missed."""
    machine = _machine()
    tools = ensure_tools()
    projects = Projects(_FOLDER)
    layout = Layout(projects.ours)
    figures = [*_pure_parts(), *_rehearsals(layout)]
    _say("starting the control plane")
    with running_cloud(layout, tools):
        comparisons = _comparisons(layout, projects)
    report = rendered(machine, comparisons, figures)
    put_into(_PAGE, report)
    print(f"\n{report}\n\nwritten into {_PAGE.relative_to(CHECKOUT)}")
    return 0


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, Python {platform.python_version()}; load average before "
        f"the start {os.getloadavg()[1]:.1f}. {PAIRS} pairs of each command, {USAGE_PAIRS} of memory and CPU."
    )


def _pure_parts() -> list[Figure]:
    _say("rules and settings")
    rules, settings = (Spread.of([in_fresh_process(part) for _ in range(PAIRS)]) for part in ("rules", "settings"))
    return [
        Figure(f"rules for {SERVICES} services", rules, MILLISECONDS, "at most 50 ms"),
        Figure(f"settings of {SERVICES} services read and checked", settings, MILLISECONDS),
    ]


def _rehearsals(layout: Layout) -> list[Figure]:
    runs: list[dict[str, float]] = []
    for number in range(1, REHEARSALS + 1):
        _say(f"rehearsal {number} of {REHEARSALS}")
        log = _FOLDER / f"rehearsal-{number}.log"
        start = time.perf_counter()
        with log.open("w") as file, contextlib.redirect_stdout(file):
            failed = rehearse(layout)
        if failed:
            raise RehearsalError(f"A step of the rehearsal failed: see {log.relative_to(CHECKOUT)}.")
        stages = json.loads((layout.output / "result.json").read_text())["seconds"]
        runs.append({**stages, "whole": time.perf_counter() - start})
    return [
        Figure(f"warm rehearsal: {stage.replace('_', ' ')}", Spread.of([run[stage] for run in runs]), SECONDS)
        for stage in runs[0]
        if stage != "tools"
    ]


def _comparisons(layout: Layout, projects: Projects) -> list[Comparison]:
    ours = Contender(layout, projects.ours, layout.backend)
    proven = Contender(layout, projects.proven, layout.backend)
    flat = Contender(layout, projects.flat, layout.cloud / "flat")
    previews: dict[int, Pairs] = {}
    usage: list[Comparison] = []
    for size in SIZES:
        projects.set_services(size)
        what = f"preview of {size} services"
        previews[size] = Pairs(*_timed({f"{what}, ours": ours.preview, f"{what}, flat": flat.preview}))
        usage += _usage(size, ours, flat)
    ups: dict[int, Pairs] = {}
    proven_ups: dict[int, Pairs] = {}
    for size in SIZES:
        projects.set_services(size)
        _say(f"pulumi up of {size} services")
        proven.up()
        flat.adopt(ours)
        what = f"no-change up of {size} services"
        sides = {
            f"{what}, ours": ours.up_unchanged,
            f"{what}, flat": flat.up_unchanged,
            f"{what}, with the proof": proven.up_unchanged,
        }
        seconds, flat_seconds, proven_seconds = _timed(sides)
        ups[size] = Pairs(seconds, flat_seconds)
        proven_ups[size] = Pairs(proven_seconds, flat_seconds)
    return [
        *_rows("first `pulumi preview`", previews, _GOAL),
        *_rows("no-change `pulumi up`", ups, _GOAL),
        *_rows("the same, ended by the proof that each HPA reads", proven_ups),
        *usage,
    ]


def _timed(sides: Mapping[str, Callable[[], float]]) -> list[tuple[float, ...]]:
    def told(name: str, action: Callable[[], float]) -> Callable[[], float]:
        def run() -> float:
            seconds = action()
            _say(f"{name}: {seconds:.2f} s")
            return seconds

        return run

    return in_turn([told(name, action) for name, action in sides.items()], PAIRS)


def _usage(size: int, ours: Contender, flat: Contender) -> list[Comparison]:
    _say(f"memory and CPU of a preview of {size} services")
    used = [(ours.usage_of_preview(), flat.usage_of_preview()) for _ in range(USAGE_PAIRS)]
    memory = Pairs(tuple(one.peak_mib for one, _ in used), tuple(other.peak_mib for _, other in used))
    cpu = Pairs(tuple(one.cpu_seconds for one, _ in used), tuple(other.cpu_seconds for _, other in used))
    return [
        Comparison("peak memory of the program's process, at preview", str(size), memory, MEBIBYTES),
        Comparison("its CPU time", str(size), cpu, SECONDS),
    ]


def _rows(what: str, by_size: dict[int, Pairs], goal: str = "") -> list[Comparison]:
    smallest, largest = min(by_size), max(by_size)
    further = by_size[largest].per_service(by_size[smallest], largest - smallest)
    return [
        *(Comparison(what, str(size), pairs, SECONDS, goal) for size, pairs in by_size.items()),
        Comparison(f"{what}, each further service", f"{smallest} to {largest}", further, MILLISECONDS),
    ]


def _say(line: str) -> None:
    print(f"bench: {line}", flush=True)


if __name__ == "__main__":
    sigterm_as_ctrl_c()
    sys.exit(exit_code_of(bench))
