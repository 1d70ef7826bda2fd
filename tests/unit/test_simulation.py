"""The simulation: the GPU exporter, its agent, the scaling groups, the service and the adapter."""

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
    """The pods of each metric's series; empty for a card's own."""
    nodes = [node("n1"), node("n2")]
    found: list[Metric] = list(GpuCollector(cluster(nodes=nodes, pods=list(pods)), InferenceServers()).collect())
    return {one.name: [sample.labels.get("PodName", "") for sample in one.samples] for one in found}


def test_a_node_has_series_only_where_its_exporter_is_ready() -> None:
    both = [pod("bert-1", "n1"), pod("bert-2", "n2")]
    assert series(*both, exporter("n1"))["DCGM_CUSTOM_PROCESS_SM_UTIL"] == ["bert-1"]
    assert series(*both, exporter("n1"), exporter("n2", ready=False))["DCGM_FI_DEV_GPU_UTIL"] == ["bert-1"]
    assert not any(pods for name, pods in series(*both).items() if name.startswith("DCGM_"))


def test_a_placeholder_has_a_card_and_runs_nothing_on_it() -> None:
    placeholder = pod("gpu-warm-1", "n1", image="registry-cn-hangzhou-vpc.ack.aliyuncs.com/acs/pause:3.9")
    found = series(placeholder, exporter("n1"))
    assert found["DCGM_CUSTOM_PROCESS_SM_UTIL"] == found["DCGM_CUSTOM_PROCESS_MEM_USED"] == []
    assert found["DCGM_CUSTOM_CONTAINER_MEM_ALLOCATED"] == ["gpu-warm-1"]


class Calls:
    """A Kubernetes API that notes what it is asked to do."""

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


def test_the_exporter_comes_with_prometheus_and_goes_with_it(tmp_path: Any) -> None:
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


def test_what_the_last_instance_left_is_no_fault(tmp_path: Any) -> None:
    calls = Calls(409)
    monitoring, store = agent(tmp_path, calls)
    with store.transaction() as cloud:
        cloud.resources["c1"] = CloudResource(type=PROMETHEUS, inputs={}, outputs={})
    asyncio.run(monitoring.reconcile())
    assert calls.made == ["create_namespace", "create_namespaced_daemon_set"]


def pending(**spec: Any) -> dict[str, Any]:
    waits = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": spec, "status": waits}


@pytest.mark.parametrize(
    ("waiting", "comes"),
    [
        (pending(tolerations=[TOLERATED]), True),
        (pending(tolerations=[TOLERATED], nodeSelector={POOL_LABEL: "np1"}), True),
        (pending(tolerations=[TOLERATED], nodeSelector={POOL_LABEL: "np2"}), False),
        (pending(), False),
        (pending(tolerations=[TOLERATED], nodeName="n1"), False),
        ({**pending(tolerations=[TOLERATED]), "status": {**pending()["status"], "nominatedNodeName": "n1"}}, False),
    ],
    ids=["tolerates", "of the pool", "of another pool", "does not tolerate", "has a node", "pushes another out"],
)
def test_a_node_comes_for_a_pod_that_would_fit_on_it(waiting: dict[str, Any], comes: bool) -> None:
    pool = NodePool(
        id="np1", name="gpu", instance_types=["ecs.gn6v-c8g1.2xlarge"], labels={}, taints=[TAINT],
        autoscaling=True, min_size=0, max_size=2, desired_size=0,
    )  # fmt: skip
    pools = ScalingGroups(cluster(pods=[waiting]), cast(CloudStore, None), REGION)
    assert (pools.unplaced(pool) == [waiting]) is comes


@pytest.mark.parametrize(("in_flight", "replicas", "reading"), [(200, 1, 23.0), (200, 2, 11.5), (0, 1, 0.0)])
def test_the_guides_load_reads_what_the_guide_says(in_flight: int, replicas: int, reading: float) -> None:
    seconds = iter(range(1000))
    server = InferenceServer(clock=lambda: float(next(seconds)))
    for _ in range(in_flight // replicas):
        server.begin()
    readings = [server.sm_percent() for _ in range(10)]
    assert readings[-1] == pytest.approx(reading)


def test_a_gpu_is_never_used_by_more_than_all_of_it() -> None:
    seconds = iter(range(10_000))
    server = InferenceServer(clock=lambda: float(next(seconds)))
    for _ in range(2000):
        server.begin()
    assert [server.sm_percent() for _ in range(10)][-1] == 100


def test_a_music_query_is_answered_as_in_the_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "SERVICE_SECONDS", 0)
    assert asyncio.run(InferenceServer().answer("Music")) == "PlayMusic"


@pytest.mark.parametrize(
    ("configuration", "kept"), [("rules: [}", True), ("{}", True), ("", True), ("rules: [{seriesQuery: a}]", False)]
)
def test_rules_that_cannot_be_read_are_left_to_the_adapter(configuration: str, kept: bool) -> None:
    assert (vendor_configuration(configuration) == configuration) is kept
