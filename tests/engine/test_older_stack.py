"""A stack from before the platform component: `up` moves its resources below it and changes nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pulumi import automation
from pulumi.automation import OpType

from rehearsal.leftovers import cluster_leftovers
from tests.engine.conftest import Rehearsal
from tests.engine.test_drift import run_command

PLATFORM = "ackgpu:index:Platform"

pytestmark = pytest.mark.usefixtures("deployed")


def without_platform(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state without the platform component and without outputs of components."""
    # Resources, parents, dependencies and provider references contain URNs.
    state: dict[str, Any] = json.loads(json.dumps(deployment).replace(f"{PLATFORM}$", ""))
    [stack] = [resource["urn"] for resource in state["resources"] if resource["type"] == "pulumi:pulumi:Stack"]
    state["resources"] = [resource for resource in state["resources"] if resource["type"] != PLATFORM]
    for resource in state["resources"]:
        if PLATFORM in resource.get("parent", ""):
            resource["parent"] = stack
        if resource["type"].startswith("ackgpu:index:"):
            resource.pop("outputs", None)
    assert PLATFORM not in json.dumps(state)
    return state


def import_older_state(rehearsal: Rehearsal) -> int:
    """Import the older state and return its number of resources."""
    current = rehearsal.stack.export_stack()
    assert current.deployment is not None
    older = without_platform(current.deployment)
    rehearsal.stack.import_stack(automation.Deployment(version=current.version, deployment=older))
    return len(older["resources"])


def urns(rehearsal: Rehearsal) -> set[str]:
    return {resource["urn"] for resource in (rehearsal.stack.export_stack().deployment or {})["resources"]}


def test_an_older_stack_gets_the_platform_and_keeps_every_resource(rehearsal: Rehearsal) -> None:
    before = urns(rehearsal)
    number = import_older_state(rehearsal)
    assert urns(rehearsal) != before
    expected = {OpType.SAME: number, OpType.CREATE: 1}
    assert rehearsal.stack.preview(color="never").change_summary == expected
    assert rehearsal.up().summary.resource_changes == expected
    assert urns(rehearsal) == before
    assert set(rehearsal.stack.preview(color="never").change_summary) == {OpType.SAME}


def test_an_older_stack_can_be_refreshed_and_destroyed_before_an_up(rehearsal: Rehearsal) -> None:
    number = import_older_state(rehearsal)
    run_command(rehearsal, "refresh")
    assert len(urns(rehearsal)) >= number
    assert set(rehearsal.stack.preview(color="never").change_summary) <= {OpType.SAME, OpType.CREATE}
    run_command(rehearsal, "destroy")
    assert cluster_leftovers(rehearsal.layout) == []
