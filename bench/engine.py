"""The two programs before the real engine, on one rehearsal cloud."""

from __future__ import annotations

import json
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pulumi import automation

from bench.adoption import without_components
from rehearsal.automation import engine_options, operation
from rehearsal.layout import STACK, Layout

_USAGE_VARIABLE = "ACKGPU_BENCH_USAGE"


@dataclass(frozen=True)
class Usage:
    """What the process of a program used for one preview."""

    cpu_seconds: float
    peak_mib: float


class Contender:
    """A program with its stack, whose commands are timed.

    Args:
        layout: the cloud.
        project: folder of the program.
        backend: folder of its state; the two programs' stacks have the same name.
    """

    def __init__(self, layout: Layout, project: Path, backend: Path) -> None:
        backend.mkdir(exist_ok=True)
        options = engine_options(layout)
        # Users let Python keep its bytecode.
        mine = {"PULUMI_BACKEND_URL": f"file://{backend}", "PYTHONDONTWRITEBYTECODE": ""}
        options.env_vars = {**(options.env_vars or {}), **mine}
        self._stack = automation.create_or_select_stack(STACK, work_dir=str(project), opts=options)
        self._temporary = layout.temporary

    def preview(self) -> float:
        """Seconds of `pulumi preview`."""
        return self._timed("preview")

    def up_unchanged(self) -> float:
        """Seconds of a `pulumi up` that must find nothing to do."""
        return self._timed("up", "--yes", "--skip-preview", "--expect-no-changes")

    def usage_of_preview(self) -> Usage:
        """What the program's own process used for a preview."""
        noted, python = self._temporary / "usage.json", self._temporary / "python"
        script = shlex.quote(str(Path(__file__).with_name("program_usage.py")))
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P {script} "$@"\n')
        python.chmod(0o755)
        noted.unlink(missing_ok=True)
        self._timed("preview", PULUMI_PYTHON_CMD=str(python), **{_USAGE_VARIABLE: str(noted)})
        return Usage(**json.loads(noted.read_text()))

    def up(self) -> None:
        """Make the stack as its settings say."""
        with operation("up"):
            self._stack.up(color="never")

    def adopt(self, other: Contender) -> None:
        """Take over what the other's program has made, which stays the other's too."""
        exported = other._stack.export_stack()
        flat = without_components(exported.deployment or {})
        self._stack.import_stack(automation.Deployment(version=exported.version, deployment=flat))

    def _timed(self, command: str, *arguments: str, **variables: str) -> float:
        workspace = self._stack.workspace
        start = time.perf_counter()
        with operation(command):
            # Not the stack's own methods: after each they ask for outputs and history.
            workspace.pulumi_command.run(
                [command, "--stack", STACK, "--color", "never", *arguments],
                workspace.work_dir,
                {**workspace.env_vars, **variables},
            )
        return time.perf_counter() - start
