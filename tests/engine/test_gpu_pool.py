"""A tainted pool with a warm GPU: scheduling, preemption and the owner of its size.

The tests depend on their order: they share a stack.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from pulumi import automation

from live.verify import check_stack
from rehearsal.alicloud.node_pools import NodePool, node_pools
from rehearsal.alicloud.store import NODE_POOL, CloudResource
from rehearsal.environment import engine_variables
from rehearsal.processes import child_environment
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal

SERVICE, WARM = "app=bert-intent-detection", "ackgpu/warm-capacity=gpu-warm"
EXPORTER = "k8s-app=ack-prometheus-gpu-exporter"
TAINT = "team=ml:NoSchedule"
MAX_REPLICAS = 4


@pytest.fixture(scope="module", autouse=True)
def stack(rehearsal: Rehearsal) -> Iterator[None]:
    pool = {
        "instanceTypes": ["ecs.gn6v-c8g1.2xlarge", "ecs.gn6i-c4g1.xlarge"],
        "vswitchIds": ["vsw-zone-a", "vsw-zone-b"],
        "autoscaling": {"min": 1, "max": MAX_REPLICAS},
        "taints": [{"key": "team", "value": "ml"}],
        "driverVersion": "550.144.03",
        "spot": {},
        "warmGpus": 1,
    }
    rehearsal.edit(gpuNodePool=pool, waitForMetrics="0s")
    set_min_replicas(rehearsal, 1)
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


def set_min_replicas(rehearsal: Rehearsal, number: int) -> None:
    [service] = rehearsal.setting("services")
    autoscaler = {**service["autoscaler"], "minReplicas": number, "maxReplicas": MAX_REPLICAS}
    rehearsal.edit(services=[{**service, "autoscaler": autoscaler}])


def ready_pods(rehearsal: Rehearsal, label: str) -> dict[str, str]:
    """Return the node of each Ready pod by pod name."""
    pods = client.CoreV1Api(rehearsal.api).list_pod_for_all_namespaces(label_selector=label).items
    return {
        pod.metadata.name: pod.spec.node_name
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or [])
    }


def nodes(rehearsal: Rehearsal) -> list[client.V1Node]:
    [pool] = node_pools(rehearsal.store.read())
    label = f"alibabacloud.com/nodepool-id={pool.id}"
    return list(client.CoreV1Api(rehearsal.api).list_node(label_selector=label).items)


def pool_resource(rehearsal: Rehearsal) -> CloudResource:
    [pool] = [resource for resource in rehearsal.store.read().resources.values() if resource.type == NODE_POOL]
    return pool


def reported_size(rehearsal: Rehearsal) -> str:
    """Return the pool's size from the vendor's API."""
    return str(pool_resource(rehearsal).outputs["desiredSize"])


def exporter_step(rehearsal: Rehearsal) -> Any:
    [step] = [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if step.name == "GPU exporter"]
    return step


@pytest.mark.case("E1")
def test_the_pool_is_created_with_all_types_and_zones_and_without_a_size(rehearsal: Rehearsal) -> None:
    pool = pool_resource(rehearsal)
    assert pool.inputs["instanceTypes"] == ["ecs.gn6v-c8g1.2xlarge", "ecs.gn6i-c4g1.xlarge"]
    assert pool.inputs["vswitchIds"] == ["vsw-zone-a", "vsw-zone-b"]
    assert pool.inputs["spotStrategy"] == "SpotAsPriceGo"
    assert NodePool.from_resource(pool).labels["ack.aliyun.com/nvidia-driver-version"] == "550.144.03"
    assert "desiredSize" not in pool.inputs


def test_replicas_and_placeholders_run_on_the_tainted_nodes(rehearsal: Rehearsal) -> None:
    def each_on_its_own_node() -> bool:
        replicas, warm = ready_pods(rehearsal, SERVICE), ready_pods(rehearsal, WARM)
        return len(replicas) == len(warm) == 1 and not set(replicas.values()) & set(warm.values())

    wait_until(each_on_its_own_node, "a replica and a placeholder run on different nodes")
    taints = {f"{taint.key}={taint.value}:{taint.effect}" for node in nodes(rehearsal) for taint in node.spec.taints}
    assert taints == {TAINT}


def test_verify_reports_the_taint_that_blocks_the_exporter_and_its_command_adds_the_toleration(
    rehearsal: Rehearsal,
) -> None:
    assert ready_pods(rehearsal, EXPORTER) == {}
    step = exporter_step(rehearsal)
    names = sorted(node.metadata.name for node in nodes(rehearsal))
    assert not step.ok
    assert f"no exporter runs on {', '.join(names)}: DaemonSet arms-prom/ack-prometheus" in step.observed
    assert f"does not tolerate the taint {TAINT}; to add the toleration, run `kubectl patch daemonset" in step.observed
    rehearsal.edit(waitForMetrics="1s")
    with pytest.raises(automation.CommandError) as failure:
        rehearsal.up()
    # Which check fails first depends on old series in Prometheus.
    assert "the metrics still can't be read after 1 s. " in str(failure.value)
    assert f"does not tolerate the taint {TAINT}; to add the toleration, run `kubectl patch daemonset" in str(
        failure.value
    )

    [command] = re.findall("`(kubectl patch [^`]+)`", step.observed)
    environment = child_environment(rehearsal.layout, engine_variables(rehearsal.layout))
    subprocess.run(["sh", "-c", command], env=environment, check=True, timeout=60, capture_output=True)
    rehearsal.edit(waitForMetrics="2m")
    rehearsal.up()
    assert exporter_step(rehearsal).ok
    assert sorted(ready_pods(rehearsal, EXPORTER).values()) == names


def test_a_new_replica_preempts_a_placeholder_and_the_autoscaler_adds_a_node_for_it(rehearsal: Rehearsal) -> None:
    [(placeholder, warm_node)] = ready_pods(rehearsal, WARM).items()
    before = {node.metadata.name for node in nodes(rehearsal)}
    first = ready_pods(rehearsal, SERVICE)
    set_min_replicas(rehearsal, 2)
    rehearsal.up()
    wait_until(lambda: len(ready_pods(rehearsal, SERVICE)) == 2, "two replicas run")
    [second] = ready_pods(rehearsal, SERVICE).keys() - first.keys()
    assert ready_pods(rehearsal, SERVICE)[second] == warm_node, "on the warm node"
    events = client.CoreV1Api(rehearsal.api).list_namespaced_event("default").items
    assert placeholder in [event.involved_object.name for event in events if event.reason == "Preempted"]

    wait_until(lambda: len(ready_pods(rehearsal, WARM)) == 1, "another placeholder runs")
    [node] = ready_pods(rehearsal, WARM).values()
    assert node not in before
    assert len(nodes(rehearsal)) == 3


def test_the_program_does_not_change_the_size_set_by_the_autoscaler(rehearsal: Rehearsal) -> None:
    wait_until(lambda: reported_size(rehearsal) == "3", "the vendor's API reports the size")
    rehearsal.stack.refresh(color="never")
    changes = rehearsal.stack.preview(color="never").change_summary
    assert set(changes) == {automation.OpType.SAME}
    assert reported_size(rehearsal) == "3"
    assert len(nodes(rehearsal)) == 3


def test_a_preview_warns_about_changes_that_existing_nodes_ignore(rehearsal: Rehearsal) -> None:
    pool = rehearsal.setting("gpuNodePool")
    rehearsal.edit(gpuNodePool={**pool, "driverVersion": "570.133.20", "taints": []})
    output = rehearsal.stack.preview(color="never").stdout
    rehearsal.edit(gpuNodePool=pool)
    assert "gpuNodePool: changes to driverVersion, taints apply to new nodes only. To change the" in output
    assert "gpuNodePool.taints: the provider can't clear the list of taints" in output


def test_placeholders_without_a_gpu_do_not_block_up(rehearsal: Rehearsal) -> None:
    rehearsal.edit(gpuNodePool={**rehearsal.setting("gpuNodePool"), "warmGpus": 2})
    set_min_replicas(rehearsal, MAX_REPLICAS)
    changes = rehearsal.up().summary.resource_changes or {}
    assert changes[automation.OpType.UPDATE] == 2, "only the HPA and the placeholders"
    wait_until(lambda: len(ready_pods(rehearsal, SERVICE)) == MAX_REPLICAS, "replicas use every GPU of the pool")
    assert ready_pods(rehearsal, WARM) == {}
    assert len(nodes(rehearsal)) == MAX_REPLICAS
