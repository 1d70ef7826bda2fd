"""Edit a stack's list of services, and use two components in another project's program."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from pulumi import automation
from pulumi.automation import OpType

from live.verify.cluster_reader import ClusterReader
from rehearsal.automation import engine_options
from rehearsal.layout import CHECKOUT, PORTS
from rehearsal.leftovers import cluster_leftovers
from rehearsal.simulation.cards import COUNT_LABEL
from rehearsal.simulation.scaling_groups import kwok_node
from tests.engine import guide_by_hand
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal

NAMES = ("first", "second", "third")


def service(name: str) -> dict[str, Any]:
    return {"name": name, "image": "example.com/model:1", "port": 8080, "autoscaler": {"maxReplicas": 2}}


@pytest.fixture
def three_services(rehearsal: Rehearsal) -> Iterator[None]:
    rehearsal.edit(services=[service(name) for name in NAMES])
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


@pytest.mark.usefixtures("three_services")
def test_reordering_services_changes_nothing_and_removing_a_service_deletes_only_its_resources(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.edit(services=[service(name) for name in reversed(NAMES)])
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}

    changed: list[tuple[OpType, str]] = []

    def note(event: automation.EngineEvent) -> None:
        if event.resource_pre_event and event.resource_pre_event.metadata.op != OpType.SAME:
            metadata = event.resource_pre_event.metadata
            changed.append((metadata.op, metadata.urn.rpartition("::")[2]))

    rehearsal.edit(services=[service(name) for name in NAMES[1:]])
    rehearsal.stack.up(color="never", on_event=note)
    assert {op for op, _ in changed} == {OpType.DELETE}
    assert sorted(name for _, name in changed) == [
        "first",
        "first",
        "first-deployment",
        "first-disruption-budget",
        "first-hpa",
        "first-service",
    ]


@pytest.fixture
def deployment(rehearsal: Rehearsal) -> Iterator[None]:
    """A Deployment outside any stack, on a GPU node of a cluster with monitoring."""
    core, apps = client.CoreV1Api(rehearsal.api), client.AppsV1Api(rehearsal.api)
    guide_by_hand.prometheus(rehearsal)
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "1"}
    node = kwok_node("elsewhere.10.9.0.1", {COUNT_LABEL: "1"}, capacity)
    core.create_node(node)
    labels = {"app": "own"}
    container = {"name": "c", "image": "example.com/model:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    apps.create_namespaced_deployment("default", {"metadata": {"name": "own"}, "spec": spec})
    yield
    apps.delete_namespaced_deployment("own", "default")
    core.delete_node(node["metadata"]["name"])
    with rehearsal.store.transaction() as cloud:
        cloud.resources.clear()


@pytest.mark.usefixtures("deployment")
def test_another_projects_program_uses_only_the_adapter_and_an_autoscaler(rehearsal: Rehearsal) -> None:
    folder = rehearsal.layout.checkout.parent / "foreign"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CHECKOUT / "tests" / "engine" / "foreign", folder)
    options = engine_options(rehearsal.layout)
    options.env_vars = {**(options.env_vars or {}), "PYTHONPATH": str(rehearsal.layout.checkout)}
    stack = automation.create_stack("foreign", work_dir=str(folder), opts=options)
    kubeconfig = rehearsal.layout.kubeconfig.read_text()
    prometheus = f"http://{rehearsal.layout.address}:{PORTS.prometheus}"
    stack.set_config("kubeconfig", automation.ConfigValue(kubeconfig, secret=True))
    stack.set_config("prometheusUrl", automation.ConfigValue(prometheus, secret=True))
    stack.set_config("chart", automation.ConfigValue(str(rehearsal.layout.checkout / "rehearsal" / "chart")))
    stack.up(color="never")
    cluster = ClusterReader(rehearsal.client)
    wait_until(
        lambda: cluster.hpa("own-hpa", "default", ["DCGM_CUSTOM_PROCESS_MEM_USED"]).scaling_active,
        "the HPA reads its metric",
        seconds=60,
    )
    assert set(stack.preview().change_summary) == {OpType.SAME}
    stack.destroy(color="never")
    leftovers = cluster_leftovers(rehearsal.layout)
    [monitoring] = rehearsal.store.read().resources
    assert leftovers == ["Deployment own", f"cloud resource {monitoring}"], "existing resources stay"
