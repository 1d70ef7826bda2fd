"""A stack from before the platform was a component: `up` moves its resources below it and changes nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from pulumi import automation
from pulumi.automation import OpType

from rehearsal.leftovers import cluster_leftovers
from tests.engine.conftest import Rehearsal
from tests.engine.test_drift import made

PLATFORM = "ackgpu:index:Platform"


pytestmark = pytest.mark.usefixtures("deployed")


def as_an_older_version_had_it(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """The state without the component above the platform's parts, and without outputs of components."""
    # URNs stand in resources, parents, dependencies and references to providers.
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


def go_back(rehearsal: Rehearsal) -> int:
    """Give the stack its older state, and return the number of its resources."""
    now = rehearsal.stack.export_stack()
    assert now.deployment is not None
    older = as_an_older_version_had_it(now.deployment)
    rehearsal.stack.import_stack(automation.Deployment(version=now.version, deployment=older))
    return len(older["resources"])


def urns(rehearsal: Rehearsal) -> set[str]:
    return {resource["urn"] for resource in (rehearsal.stack.export_stack().deployment or {})["resources"]}


def test_an_older_stack_gets_the_platform_and_keeps_every_resource(rehearsal: Rehearsal) -> None:
    before = urns(rehearsal)
    number = go_back(rehearsal)
    assert urns(rehearsal) != before
    expected = {OpType.SAME: number, OpType.CREATE: 1}
    assert rehearsal.stack.preview(color="never").change_summary == expected
    assert rehearsal.up().summary.resource_changes == expected
    assert urns(rehearsal) == before
    assert set(rehearsal.stack.preview(color="never").change_summary) == {OpType.SAME}


def test_an_older_stack_can_be_refreshed_and_destroyed_first(rehearsal: Rehearsal) -> None:
    number = go_back(rehearsal)
    made(rehearsal, "refresh")
    assert len(urns(rehearsal)) >= number
    assert set(rehearsal.stack.preview(color="never").change_summary) <= {OpType.SAME, OpType.CREATE}
    made(rehearsal, "destroy")
    assert cluster_leftovers(rehearsal.layout) == []
