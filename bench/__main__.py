"""`python -m bench`: compare the program with the flat program and write the results to docs/bench.md."""

from __future__ import annotations

import argparse
import functools
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import psutil
import yaml

from autoscaling.metrics.adapter_rules import RuleSet
from autoscaling.settings import parse
from bench.contender import Contender
from bench.figures import FLAT, OURS, UNREGISTERED, comparison, in_turn, report, seconds, write_into
from bench.projects import make_projects, with_services, write_settings
from rehearsal.cloud import running_cloud
from rehearsal.command import exit_code_of
from rehearsal.layout import CHECKOUT, STACK, Layout
from rehearsal.toolchain.build import ensure_tools

GOALS = {OURS: 1.25, UNREGISTERED: 1.15}
"""Highest accepted ratios for the first preview of up to 10 services."""

_PAGE = CHECKOUT / "docs" / "bench.md"
_FIRST_PREVIEW = "first `pulumi preview`"
_UP = ("up", "--yes", "--skip-preview")
_DESTROY = ("destroy", "--yes", "--skip-preview")
_NO_CHANGES = "--expect-no-changes"


def bench(sizes: Sequence[int], pairs: int) -> int:
    """Measure and write the report. Return 0 even if a goal is missed."""
    machine = (
        f"{os.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB of memory, "
        f"Python {platform.python_version()}; load average before the start {os.getloadavg()[1]:.1f}. "
        f"Rounds of each command: {pairs}; of the first `up`: 1."
    )
    tools = ensure_tools()
    projects = make_projects(CHECKOUT / "build" / "bench")
    layout = Layout(projects[OURS])
    pure = pure_parts(200, pairs)
    rows = []
    with running_cloud(layout, tools):
        for size in sizes:
            write_settings(projects, size)
            contenders = {
                side: Contender(layout, project, layout.cloud / f"state-{side}-{size}")
                for side, project in projects.items()
            }
            for command, values in _measured(contenders, pairs):
                goals = GOALS if command == _FIRST_PREVIEW and size <= 10 else {}
                rows.append(comparison(command, size, values, goals))
                print(f"bench: {' | '.join(rows[-1])}", flush=True)
    text = report(machine, rows, pure)
    write_into(_PAGE, text)
    print(f"\n{text}\nwritten to {_PAGE.relative_to(CHECKOUT)}")
    return 0


def pure_parts(services: int, rounds: int) -> dict[str, list[float]]:
    """Measure the parts of the program that need neither engine nor cloud, in seconds."""
    content = yaml.safe_load((CHECKOUT / f"Pulumi.{STACK}.yaml").read_text())
    config = with_services(content["config"], services)
    settings = {key.removeprefix("ackgpu:"): value for key, value in config.items() if key.startswith("ackgpu:")}
    parts: dict[str, Callable[[], object]] = {
        f"settings of {services} services read and checked": lambda: parse(settings),
        "rules of the adapter": lambda: RuleSet().rules(),
    }
    return {part: [seconds(action) for _ in range(rounds)] for part, action in parts.items()}


def _measured(contenders: Mapping[str, Contender], pairs: int) -> Iterator[tuple[str, dict[str, list[float]]]]:
    def rounds(*command: str) -> dict[str, list[float]]:
        timed = {side: functools.partial(contender.seconds, *command) for side, contender in contenders.items()}
        return in_turn(timed, pairs)

    yield _FIRST_PREVIEW, rounds("preview")
    created = {}
    # Keep the resources of the last program, for the commands without changes.
    for side in (FLAT, UNREGISTERED, OURS):
        created[side] = [contenders[side].seconds(*_UP)]
        if side != OURS:
            contenders[side].seconds(*_DESTROY)
    yield "first `pulumi up`", created
    ours = contenders[OURS]
    contenders[UNREGISTERED].take_over(ours, flat=False)
    contenders[FLAT].take_over(ours, flat=True)
    yield "no-change `pulumi up`", rounds(*_UP, _NO_CHANGES)
    yield "no-change `pulumi preview`", rounds("preview", _NO_CHANGES)
    ours.seconds(*_DESTROY)


def main(arguments: Sequence[str]) -> int:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--services", type=int, nargs="+", default=[1, 10, 50], help="stack sizes to measure")
    parser.add_argument("--pairs", type=int, default=5, help="rounds per command")
    options = parser.parse_args(arguments)
    return exit_code_of(lambda: bench(options.services, options.pairs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
