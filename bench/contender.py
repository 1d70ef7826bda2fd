"""A program before the real engine, and its state."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi import automation

from bench.figures import seconds
from rehearsal.automation import engine_options, operation
from rehearsal.layout import STACK, Layout

_COMPONENT = "ackgpu:index:"
_STACK_TYPE = "pulumi:pulumi:Stack"


class Contender:
    """A program with a stack of its own, whose commands are timed.

    Args:
        layout: the cloud.
        project: folder of the program.
        backend: folder of its state; the stacks of all contenders have the same name.
    """

    def __init__(self, layout: Layout, project: Path, backend: Path) -> None:
        backend.mkdir()
        options = engine_options(layout)
        # Users let Python keep its bytecode.
        variables = {"PULUMI_BACKEND_URL": f"file://{backend}", "PYTHONDONTWRITEBYTECODE": ""}
        options.env_vars = {**(options.env_vars or {}), **variables}
        self._stack = automation.create_or_select_stack(STACK, work_dir=str(project), opts=options)

    def seconds(self, command: str, *arguments: str) -> float:
        """Run a command of pulumi and return how long it takes."""
        workspace = self._stack.workspace
        line = [command, "--stack", STACK, "--color", "never", *arguments]
        with operation(command):
            # The stack's own methods ask for outputs and history after each command.
            return seconds(lambda: workspace.pulumi_command.run(line, workspace.work_dir, workspace.env_vars))

    def take_over(self, other: Contender, *, flat: bool) -> None:
        """Use what the other program has created; the other program keeps using it too."""
        exported = other._stack.export_stack()
        deployment = exported.deployment or {}
        if flat:
            deployment = without_components(deployment)
        self._stack.import_stack(automation.Deployment(version=exported.version, deployment=deployment))


def without_components(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Return an exported state as if the flat program had created it: the components' children become the stack's.

    Then both programs run on the same live objects, and an input that differs shows as a change.
    """
    # In a URN, `parentType$type` names the parents.
    flat: dict[str, Any] = json.loads(re.sub(rf"{_COMPONENT}\w+\$", "", json.dumps(deployment)))
    components = {resource["urn"] for resource in flat["resources"] if resource["type"].startswith(_COMPONENT)}
    [stack] = [resource["urn"] for resource in flat["resources"] if resource["type"] == _STACK_TYPE]
    flat["resources"] = [resource for resource in flat["resources"] if resource["urn"] not in components]
    for resource in flat["resources"]:
        if resource.get("parent") in components:
            resource["parent"] = stack
    return flat
