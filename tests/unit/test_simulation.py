"""The simulated GPU exporter, exporter agent, scaling groups, service and adapter."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes import client
from prometheus_client.core import Metric

from autoscaling.ack.node_labels import POOL_LABEL
from rehearsal.alicloud.node_pools import NodePool
from rehearsal.alicloud.store import PROMETHEUS, CloudResource, CloudStore
from rehearsal.simulation import inference
from rehearsal.simulation.adapter_agent import vendor_configuration
from rehearsal.simulation.cluster_copy import ClusterCopy
from rehearsal.simulation.exporter_agent import ExporterAgent
from rehearsal.simulation.gpu_exporter import GpuCollector
from rehearsal.simulation.inference import InferenceServer, InferenceServers
from rehearsal.simulation.scaling_groups import ScalingGroups

REGION = "cn-hangzhou"
READY = [{"type": "Ready", "status": "True"}]
TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}
TOLERATED = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}


def cluster(**objects: Any) -> ClusterCopy:
    return cast(ClusterCopy, SimpleNamespace(**objects))


def node(name: str) -> dict[str, Any]:
    labels = {"aliyun.accelerator/nvidia_mem": "16384MiB"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "status": {"capacity": {"nvidia.com/gpu": "1"}},
    }


def pod(name: str, node: str, image: str = "registry.example/bert:1") -> dict[str, Any]:
    container = {"name": "c", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"conditions": READY},
    }


def exporter(node: str, *, ready: bool = True) -> dict[str, Any]:
    labels = {"k8s-app": "ack-prometheus-gpu-exporter"}
    return {
        "metadata": {"name": f"e-{node}", "namespace": "arms-prom", "uid": f"e-{node}", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "e", "image": "e"}]},
        "status": {"conditions": READY if ready else []},
    }


def series(*pods: dict[str, Any]) -> dict[str, list[str]]:
    """Return the pod labels of each metric's series; the label is empty for an unused card."""
    nodes = [node("n1"), node("n2")]
    found: list[Metric] = list(GpuCollector(cluster(nodes=nodes, pods=list(pods)), InferenceServers()).collect())
    return {metric.name: [sample.labels.get("PodName", "") for sample in metric.samples] for metric in found}


def test_a_node_has_series_only_while_its_exporter_is_ready() -> None:
    both = [pod("bert-1", "n1"), pod("bert-2", "n2")]
    assert series(*both, exporter("n1"))["DCGM_CUSTOM_PROCESS_SM_UTIL"] == ["bert-1"]
    assert series(*both, exporter("n1"), exporter("n2", ready=False))["DCGM_FI_DEV_GPU_UTIL"] == ["bert-1"]
    assert not any(pods for name, pods in series(*both).items() if name.startswith("DCGM_"))


def test_a_placeholder_allocates_a_card_but_has_no_gpu_process() -> None:
    placeholder = pod("gpu-warm-1", "n1", image="registry-cn-hangzhou-vpc.ack.aliyuncs.com/acs/pause:3.9")
    found = series(placeholder, exporter("n1"))
    assert found["DCGM_CUSTOM_PROCESS_SM_UTIL"] == found["DCGM_CUSTOM_PROCESS_MEM_USED"] == []
    assert found["DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"] == ["gpu-warm-1"]


class Calls:
    """A Kubernetes API that records the names of the calls."""

    def __init__(self, status: int | None = None) -> None:
        self.made: list[str] = []
        self._status = status

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> None:
            self.made.append(name)
            if self._status:
                raise client.ApiException(status=self._status)

        return call


def agent(tmp_path: Any, calls: Calls) -> tuple[ExporterAgent, CloudStore]:
    store = CloudStore(tmp_path / "cloud.json")
    store.create(cluster_id="c1", region=REGION, version="1.36.3-aliyun.1")
    return ExporterAgent(cluster(core=calls, apps=calls), store), store


def test_the_exporter_is_installed_and_removed_with_prometheus(tmp_path: Any) -> None:
    calls = Calls()
    monitoring, store = agent(tmp_path, calls)
    asyncio.run(monitoring.reconcile())
    assert calls.made == []
    with store.transaction() as cloud:
        cloud.resources["c1"] = CloudResource(type=PROMETHEUS, inputs={}, outputs={})
    for _ in range(2):
        asyncio.run(monitoring.reconcile())
    assert calls.made == ["create_namespace", "create_namespaced_daemon_set"]
    with store.transaction() as cloud:
        cloud.resources.clear()
    asyncio.run(monitoring.reconcile())
    assert calls.made[2:] == ["delete_namespaced_daemon_set"]


def test_installing_over_leftovers_of_an_earlier_instance_works(tmp_path: Any) -> None:
    calls = Calls(409)
    monitoring, store = agent(tmp_path, calls)
    with store.transaction() as cloud:
        cloud.resources["c1"] = CloudResource(type=PROMETHEUS, inputs={}, outputs={})
    asyncio.run(monitoring.reconcile())
    assert calls.made == ["create_namespace", "create_namespaced_daemon_set"]


def pending_pod(**spec: Any) -> dict[str, Any]:
    status = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("pod", "adds_node"),
    [
        (pending_pod(tolerations=[TOLERATED]), True),
        (pending_pod(tolerations=[TOLERATED], nodeSelector={POOL_LABEL: "np1"}), True),
        (pending_pod(tolerations=[TOLERATED], nodeSelector={POOL_LABEL: "np2"}), False),
        (pending_pod(), False),
        (pending_pod(tolerations=[TOLERATED], nodeName="n1"), False),
        (
            {**pending_pod(tolerations=[TOLERATED]), "status": {**pending_pod()["status"], "nominatedNodeName": "n1"}},
            False,
        ),
    ],
    ids=["tolerates", "of the pool", "of another pool", "does not tolerate", "has a node", "preempts another"],
)
def test_a_pool_adds_nodes_only_for_pods_that_would_fit(pod: dict[str, Any], adds_node: bool) -> None:
    pool = NodePool(
        id="np1", name="gpu", instance_types=["ecs.gn6v-c8g1.2xlarge"], labels={}, taints=[TAINT],
        autoscaling=True, min_size=0, max_size=2, desired_size=0,
    )  # fmt: skip
    pools = ScalingGroups(cluster(pods=[pod]), cast(CloudStore, None), REGION)
    assert (pools.unplaced(pool) == [pod]) is adds_node


@pytest.mark.parametrize(("in_flight", "replicas", "reading"), [(200, 1, 23.0), (200, 2, 11.5), (0, 1, 0.0)])
def test_the_guides_load_gives_the_guides_reading(in_flight: int, replicas: int, reading: float) -> None:
    seconds = iter(range(1000))
    server = InferenceServer(clock=lambda: float(next(seconds)))
    for _ in range(in_flight // replicas):
        server.begin()
    readings = [server.sm_percent() for _ in range(10)]
    assert readings[-1] == pytest.approx(reading)


def test_gpu_use_never_exceeds_100_percent() -> None:
    seconds = iter(range(10_000))
    server = InferenceServer(clock=lambda: float(next(seconds)))
    for _ in range(2000):
        server.begin()
    assert [server.sm_percent() for _ in range(10)][-1] == 100


def test_a_music_query_returns_the_guides_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "SERVICE_SECONDS", 0)
    assert asyncio.run(InferenceServer().answer("Music")) == "PlayMusic"


@pytest.mark.parametrize(
    ("configuration", "unchanged"),
    [("rules: [}", True), ("{}", True), ("", True), ("rules: [{seriesQuery: a}]", False)],
)
def test_invalid_rules_are_passed_to_the_adapter_unchanged(configuration: str, unchanged: bool) -> None:
    assert (vendor_configuration(configuration) == configuration) is unchanged
