"""A program to measure, with its own state."""

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
    """A program with its own stack.

    Args:
        layout: layout of the rehearsal cloud.
        project: folder of the program.
        backend: folder of its state. All contenders use the same stack name.
    """

    def __init__(self, layout: Layout, project: Path, backend: Path) -> None:
        backend.mkdir()
        options = engine_options(layout)
        # Keep bytecode, as users do.
        variables = {"PULUMI_BACKEND_URL": f"file://{backend}", "PYTHONDONTWRITEBYTECODE": ""}
        options.env_vars = {**(options.env_vars or {}), **variables}
        self._stack = automation.create_or_select_stack(STACK, work_dir=str(project), opts=options)

    def seconds(self, command: str, *arguments: str) -> float:
        """Run a pulumi command and return its duration."""
        workspace = self._stack.workspace
        line = [command, "--stack", STACK, "--color", "never", *arguments]
        with operation(command):
            # The methods of Stack also read outputs and history after each command.
            return seconds(lambda: workspace.pulumi_command.run(line, workspace.work_dir, workspace.env_vars))

    def take_over(self, other: Contender, *, flat: bool) -> None:
        """Use the resources that another program created; both programs then share them."""
        exported = other._stack.export_stack()
        deployment = exported.deployment or {}
        if flat:
            deployment = without_components(deployment)
        self._stack.import_stack(automation.Deployment(version=exported.version, deployment=deployment))


def without_components(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an exported state to that of the flat program: the stack becomes the parent of all resources.

    Both programs then share the live objects, so any difference in inputs shows as a change.
    """
    # A URN has the types of the parents: `parentType$type`.
    flat: dict[str, Any] = json.loads(re.sub(rf"{_COMPONENT}\w+\$", "", json.dumps(deployment)))
    components = {resource["urn"] for resource in flat["resources"] if resource["type"].startswith(_COMPONENT)}
    [stack] = [resource["urn"] for resource in flat["resources"] if resource["type"] == _STACK_TYPE]
    flat["resources"] = [resource for resource in flat["resources"] if resource["urn"] not in components]
    for resource in flat["resources"]:
        if resource.get("parent") in components:
            resource["parent"] = stack
    return flat
