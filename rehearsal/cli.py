"""The commands of the rehearsal: what `make rehearse`, `make rehearse-up` and `make rehearse-down` call."""

from __future__ import annotations

import argparse
import io
import logging
import os
import signal
import sys
from pathlib import Path

from rehearsal import cloud
from rehearsal.command import exit_code_of, sigterm_as_ctrl_c
from rehearsal.environment import own_variables, temporary_files_in
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout
from rehearsal.processes import end_with_parent


def _run(layout: Layout) -> int:
    from rehearsal.main_job import rehearse

    # Whoever kills make means the rehearsal.
    if "MAKELEVEL" in os.environ:
        end_with_parent(signal.SIGKILL)
    return rehearse(layout)


def _up(layout: Layout) -> int:
    from rehearsal.automation import select_stack
    from rehearsal.environment import engine_variables
    from rehearsal.stack_file import rehearsed_settings
    from rehearsal.toolchain.build import ensure_tools

    rehearsed_settings(layout.checkout)
    tools = ensure_tools()
    cloud.keep_up(layout, tools)
    try:
        with temporary_files_in(layout.temporary):
            select_stack(layout)
    except RehearsalError:
        cloud.take_down(layout)
        raise
    print("The rehearsal cloud is up; `make rehearse-down` ends it. The environment it needs:\n")
    for name, value in engine_variables(layout).items():
        print(f"  {name}={value}")
    relative = layout.environment_file.relative_to(layout.checkout)
    print(f"\nThe same as a file:  source {relative}\nThen:                pulumi preview; pulumi up; pulumi destroy")
    return 0


def _down(layout: Layout) -> int:
    print("The rehearsal cloud is down." if cloud.take_down(layout) else "No rehearsal cloud was up.")
    return 0


def _serve(layout: Layout, tools: Path) -> int:
    from rehearsal.supervisor import serve

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    serve(layout, tools)
    return 0


def main() -> int:
    """Run one command; a `RehearsalError` becomes its sentence and exit code 1."""
    parser = argparse.ArgumentParser(prog="python -m rehearsal")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="rehearse the main job on a cloud that lives as long as the job")
    commands.add_parser("up", help="start a cloud and keep it up")
    commands.add_parser("down", help="end the cloud that is kept up")
    serve = commands.add_parser("serve", help="be the cloud, until SIGTERM (what the others start)")
    serve.add_argument("--tools", type=Path, required=True)
    arguments = parser.parse_args()
    layout = Layout()
    # Each line when it is written, into a pipe too.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    sigterm_as_ctrl_c()
    os.environ.update(own_variables(layout))
    if arguments.command == "serve":
        return exit_code_of(lambda: _serve(layout, arguments.tools))
    return exit_code_of(lambda: {"run": _run, "up": _up, "down": _down}[arguments.command](layout))
