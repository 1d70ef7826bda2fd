"""Rename a running service twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from pulumi.automation import OpType

from live.verify import check_stack
from tests.engine.conftest import Rehearsal

FIRST = "bert-intent-detection"


@pytest.fixture(scope="module", autouse=True)
def running(rehearsal: Rehearsal) -> Iterator[None]:
    """The service under its first name, with an HPA named after it."""
    rename(rehearsal, FIRST)
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


def rename(rehearsal: Rehearsal, name: str, **formerly: str) -> None:
    [service] = rehearsal.setting("services")
    autoscaler = {key: value for key, value in service["autoscaler"].items() if key != "name"}
    service = {key: value for key, value in service.items() if key != "formerly"}
    rehearsal.edit(services=[{**service, "name": name, **formerly, "autoscaler": autoscaler}])


def live_objects(rehearsal: Rehearsal) -> dict[tuple[str, str], Any]:
    """Return the UIDs of the service's objects by kind and name, and the address."""
    core, apps = client.CoreV1Api(rehearsal.api), client.AppsV1Api(rehearsal.api)
    scaling, policy = client.AutoscalingV2Api(rehearsal.api), client.PolicyV1Api(rehearsal.api)
    listed = {
        "Pod": core.list_namespaced_pod("default"),
        "Service": core.list_namespaced_service("default", field_selector="metadata.name!=kubernetes"),
        "Deployment": apps.list_namespaced_deployment("default"),
        "HorizontalPodAutoscaler": scaling.list_namespaced_horizontal_pod_autoscaler("default"),
        "PodDisruptionBudget": policy.list_namespaced_pod_disruption_budget("default"),
    }
    found = {(kind, obj.metadata.name): obj.metadata.uid for kind, objects in listed.items() for obj in objects.items}
    [service] = listed["Service"].items
    return found | {("address", service.metadata.name): service.status.load_balancer.ingress[0].ip}


@pytest.mark.case("G5")
def test_a_rename_with_the_former_name_deletes_and_creates_nothing(rehearsal: Rehearsal) -> None:
    before = live_objects(rehearsal)
    assert {name for kind, name in before if kind != "Pod"} == {FIRST, f"{FIRST}-svc", f"{FIRST}-hpa"}
    for name in ("intents", "intentions"):
        rename(rehearsal, name, formerly=FIRST)
        changes = rehearsal.up().summary.resource_changes
        assert changes is not None and set(changes) == {OpType.SAME}
        assert live_objects(rehearsal) == before
        outputs = rehearsal.outputs()
        assert [service.name for service in outputs.services] == [name]
        assert not [step for step in check_stack(outputs, rehearsal.client) if not step.ok]


@pytest.mark.case("G5")
def test_without_the_former_name_the_preview_deletes_every_resource(rehearsal: Rehearsal) -> None:
    rename(rehearsal, "another")
    summary = rehearsal.stack.preview(color="never").change_summary
    # Two components, Deployment, disruption budget, Service and HPA.
    assert (summary[OpType.DELETE], summary[OpType.CREATE]) == (6, 6)
