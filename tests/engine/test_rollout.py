"""Update a service while no GPU is free."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client

from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal

NAME = "bert-intent-detection"


@pytest.fixture(scope="module", autouse=True)
def single_gpu(rehearsal: Rehearsal) -> Any:
    """The stack on a pool with at most one GPU."""
    rehearsal.edit(gpuNodePool={**rehearsal.setting("gpuNodePool"), "autoscaling": {"min": 1, "max": 1}})
    _edit_service(rehearsal, image="example.com/bert:1", maxReplicas=1)
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


def _edit_service(rehearsal: Rehearsal, *, image: str, **autoscaler: Any) -> None:
    [service] = rehearsal.setting("services")
    changed = {**service, "image": image, "autoscaler": {**service["autoscaler"], **autoscaler}}
    rehearsal.edit(services=[changed])


def _pods(rehearsal: Rehearsal) -> dict[str, str]:
    """Return the phase by image of the service's pods that are not terminating."""
    pods = client.CoreV1Api(rehearsal.api).list_namespaced_pod("default", label_selector=f"app={NAME}").items
    return {pod.spec.containers[0].image: pod.status.phase for pod in pods if pod.metadata.deletion_timestamp is None}


@pytest.mark.case("D3")
@pytest.mark.case("C7")
def test_a_new_image_reuses_the_gpu_of_the_old_pod_and_adds_no_replica(rehearsal: Rehearsal) -> None:
    _edit_service(rehearsal, image="example.com/bert:2")
    rehearsal.up()
    assert _pods(rehearsal) == {"example.com/bert:2": "Running"}
    hpa = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler("gpu-hpa", "default")
    assert hpa.status.desired_replicas == 1


@pytest.mark.case("D3")
def test_with_the_default_strategy_the_new_pod_waits_for_the_gpu_of_the_old_pod(
    rehearsal: Rehearsal,
) -> None:
    apps = client.AppsV1Api(rehearsal.api)
    container = apps.read_namespaced_deployment(NAME, "default").spec.template.spec.containers[0].name
    template = {"spec": {"containers": [{"name": container, "image": "example.com/bert:3"}]}}
    strategy = {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    apps.patch_namespaced_deployment(NAME, "default", {"spec": {"strategy": strategy, "template": template}})
    stuck = {"example.com/bert:2": "Running", "example.com/bert:3": "Pending"}
    wait_until(lambda: _pods(rehearsal) == stuck, "the new pod is pending while the old pod runs")

    def reported() -> bool:
        events = client.CoreV1Api(rehearsal.api).list_namespaced_event("default").items
        return any("Insufficient nvidia.com/gpu" in (event.message or "") for event in events)

    wait_until(reported, "the scheduler reports that no GPU is free")
    assert _pods(rehearsal) == stuck
