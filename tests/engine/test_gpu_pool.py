"""A tainted pool that keeps a GPU warm: what comes to its nodes, who is pushed out, and who owns its size.

The tests follow one stack from its first `up` on.
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
from rehearsal.alicloud.store import NODE_POOL
from rehearsal.environment import engine_variables
from rehearsal.processes import child_environment
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal

SERVICE, WARM = "app=bert-intent-detection", "ackgpu/warm-capacity=gpu-warm"
EXPORTER = "k8s-app=ack-prometheus-gpu-exporter"
TAINT = "team=ml:NoSchedule"
MOST = 4


@pytest.fixture(scope="module", autouse=True)
def stack(rehearsal: Rehearsal) -> Iterator[None]:
    pool = {
        "instanceTypes": ["ecs.gn6v-c8g1.2xlarge", "ecs.gn6i-c4g1.xlarge"],
        "vswitchIds": ["vsw-zone-a", "vsw-zone-b"],
        "autoscaling": {"min": 1, "max": MOST},
        "taints": [{"key": "team", "value": "ml"}],
        "driverVersion": "550.144.03",
        "spot": {},
        "warmGpus": 1,
    }
    rehearsal.edit(gpuNodePool=pool, waitForMetrics="0s")
    replicas(rehearsal, 1)
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


def replicas(rehearsal: Rehearsal, fewest: int) -> None:
    [service] = rehearsal.setting("services")
    autoscaler = {**service["autoscaler"], "minReplicas": fewest, "maxReplicas": MOST}
    rehearsal.edit(services=[{**service, "autoscaler": autoscaler}])


def running(rehearsal: Rehearsal, label: str) -> dict[str, str]:
    """The node of each pod that is Ready, by its name."""
    pods = client.CoreV1Api(rehearsal.api).list_pod_for_all_namespaces(label_selector=label).items
    return {
        pod.metadata.name: pod.spec.node_name
        for pod in pods
        if pod.metadata.deletion_timestamp is None
        and any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or [])
    }


def nodes(rehearsal: Rehearsal) -> list[client.V1Node]:
    [pool] = node_pools(rehearsal.store.read())
    label = f"alibabacloud.com/nodepool-id={pool.id}"
    return list(client.CoreV1Api(rehearsal.api).list_node(label_selector=label).items)


def told_size(rehearsal: Rehearsal) -> str:
    """What the vendor's API says of the pool's size."""
    [pool] = [one for one in rehearsal.store.read().resources.values() if one.type == NODE_POOL]
    return str(pool.outputs["desiredSize"])


def exporter_step(rehearsal: Rehearsal) -> Any:
    [step] = [one for one in check_stack(rehearsal.outputs(), rehearsal.client) if one.name == "GPU exporter"]
    return step


@pytest.mark.case("E1")
def test_the_pool_is_made_of_all_its_types_and_zones_and_of_no_size(rehearsal: Rehearsal) -> None:
    [pool] = [one for one in rehearsal.store.read().resources.values() if one.type == NODE_POOL]
    assert pool.inputs["instanceTypes"] == ["ecs.gn6v-c8g1.2xlarge", "ecs.gn6i-c4g1.xlarge"]
    assert pool.inputs["vswitchIds"] == ["vsw-zone-a", "vsw-zone-b"]
    assert pool.inputs["spotStrategy"] == "SpotAsPriceGo"
    assert NodePool.from_resource(pool).labels["ack.aliyun.com/nvidia-driver-version"] == "550.144.03"
    assert "desiredSize" not in pool.inputs


def test_replicas_and_placeholders_come_to_the_tainted_nodes(rehearsal: Rehearsal) -> None:
    def each_on_its_own_node() -> bool:
        own, warm = running(rehearsal, SERVICE), running(rehearsal, WARM)
        return len(own) == len(warm) == 1 and not set(own.values()) & set(warm.values())

    wait_until(each_on_its_own_node, "a replica and a placeholder run, on a node each")
    taints = {f"{one.key}={one.value}:{one.effect}" for node in nodes(rehearsal) for one in node.spec.taints}
    assert taints == {TAINT}


def test_the_taint_that_keeps_the_exporter_off_is_named_and_the_command_lets_it_in(rehearsal: Rehearsal) -> None:
    assert running(rehearsal, EXPORTER) == {}
    step = exporter_step(rehearsal)
    names = sorted(node.metadata.name for node in nodes(rehearsal))
    assert not step.ok
    assert f"no exporter runs on {', '.join(names)}: DaemonSet arms-prom/ack-prometheus" in step.observed
    assert f"does not tolerate the taint {TAINT}; `kubectl patch daemonset" in step.observed
    rehearsal.edit(waitForMetrics="1s")
    with pytest.raises(automation.CommandError) as failure:
        rehearsal.up()
    # Which check fails first depends on the series that Prometheus still has of earlier pods.
    assert "after 1 s the metrics cannot be read. " in str(failure.value)
    assert f"does not tolerate the taint {TAINT}; `kubectl patch daemonset" in str(failure.value)

    [command] = re.findall("`(kubectl patch [^`]+)`", step.observed)
    environment = child_environment(rehearsal.layout, engine_variables(rehearsal.layout))
    subprocess.run(["sh", "-c", command], env=environment, check=True, timeout=60, capture_output=True)
    rehearsal.edit(waitForMetrics="2m")
    rehearsal.up()
    assert exporter_step(rehearsal).ok
    assert sorted(running(rehearsal, EXPORTER).values()) == names


def test_a_new_replica_pushes_a_placeholder_out_and_the_autoscaler_brings_it_a_node(rehearsal: Rehearsal) -> None:
    [(placeholder, warm_node)] = running(rehearsal, WARM).items()
    before = {node.metadata.name for node in nodes(rehearsal)}
    first = running(rehearsal, SERVICE)
    replicas(rehearsal, 2)
    rehearsal.up()
    wait_until(lambda: len(running(rehearsal, SERVICE)) == 2, "two replicas run")
    [second] = running(rehearsal, SERVICE).keys() - first.keys()
    assert running(rehearsal, SERVICE)[second] == warm_node, "on the node that was kept warm"
    events = client.CoreV1Api(rehearsal.api).list_namespaced_event("default").items
    assert placeholder in [one.involved_object.name for one in events if one.reason == "Preempted"]

    wait_until(lambda: len(running(rehearsal, WARM)) == 1, "another placeholder runs")
    [node] = running(rehearsal, WARM).values()
    assert node not in before
    assert len(nodes(rehearsal)) == 3


def test_the_size_that_the_autoscaler_chose_is_left_alone(rehearsal: Rehearsal) -> None:
    wait_until(lambda: told_size(rehearsal) == "3", "the vendor's API tells the size")
    rehearsal.stack.refresh(color="never")
    changes = rehearsal.stack.preview(color="never").change_summary
    assert set(changes) == {automation.OpType.SAME}
    assert told_size(rehearsal) == "3"
    assert len(nodes(rehearsal)) == 3


def test_a_preview_tells_what_living_nodes_keep(rehearsal: Rehearsal) -> None:
    pool = rehearsal.setting("gpuNodePool")
    rehearsal.edit(gpuNodePool={**pool, "driverVersion": "570.133.20", "taints": []})
    told = rehearsal.stack.preview(color="never").stdout
    rehearsal.edit(gpuNodePool=pool)
    assert "gpuNodePool: changes of driverVersion, taints apply to new nodes only. Drain and remove" in told
    assert "gpuNodePool.taints: the provider cannot empty the list" in told


def test_placeholders_without_a_gpu_hold_up_nothing(rehearsal: Rehearsal) -> None:
    rehearsal.edit(gpuNodePool={**rehearsal.setting("gpuNodePool"), "warmGpus": 2})
    replicas(rehearsal, MOST)
    changes = rehearsal.up().summary.resource_changes or {}
    assert changes[automation.OpType.UPDATE] == 2, "HPA and placeholders, and not the pool that was refreshed"
    wait_until(lambda: len(running(rehearsal, SERVICE)) == MOST, "every GPU of the pool is a replica's")
    assert running(rehearsal, WARM) == {}
    assert len(nodes(rehearsal)) == MOST
