"""Reports of GPU nodes without ACK's exporter, in the exporter step and in the diagnosis of missing values."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from live.verify import StackOutputs, Step, check_stack
from tests.unit.fake_cluster import CUSTOM, METRIC, POD_LIST, VALUES, FakeCluster, healthy, pod, running

POOL = "np1"
NODES = "/api/v1/nodes?labelSelector=alibabacloud.com%2Fnodepool-id%3Dnp1"
DAEMON_SET = "/apis/apps/v1/namespaces/arms-prom/daemonsets/ack-prometheus-gpu-exporter"
EXPORTERS = "/api/v1/namespaces/arms-prom/pods"
TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}
OWN = {"key": "dedicated", "operator": "Exists"}


def node(name: str, *taints: dict[str, str], ready: str = "True", gpus: str = "nvidia.com/gpu") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": "8", gpus: "1"}, "conditions": [{"type": "Ready", "status": ready}]},
    }


def on(name: str, pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "spec": {"nodeName": name, "containers": [{"name": "c"}]}}


def daemon_set(*tolerations: dict[str, str]) -> dict[str, Any]:
    spec = {"containers": [{"name": "c"}], "tolerations": list(tolerations)}
    return {
        "metadata": {"name": "ack-prometheus-gpu-exporter", "namespace": "arms-prom"},
        "spec": {"selector": {"matchLabels": {"k8s-app": "e"}}, "template": {"spec": spec}},
    }


def healthy_with_exporters() -> dict[str, Any]:
    """Return the answers for a healthy stack on two GPU nodes with an exporter each."""
    return {
        **healthy(),
        NODES: {"items": [node("n1"), node("n2")]},
        DAEMON_SET: daemon_set(),
        EXPORTERS: {"items": [on("n1", pod("e1")), on("n2", pod("e2"))]},
        POD_LIST: {"items": [on("n1", pod("bert-1"))]},
    }


def steps(broken: dict[str, Any]) -> list[Step]:
    def outputs(cluster: FakeCluster) -> StackOutputs:
        return StackOutputs.of("dev", {**cluster.raw_outputs, "monitoredNodePoolId": POOL})

    with running({**healthy_with_exporters(), **broken}) as cluster:
        return list(check_stack(outputs(cluster), cluster.client))


def exporter_step(broken: dict[str, Any]) -> Step:
    [step] = [step for step in steps(broken) if step.name == "GPU exporter"]
    return step


def test_the_second_step_checks_for_an_exporter_on_each_node() -> None:
    names = [step.name for step in steps({}) if step.ok]
    assert names[:3] == ["custom metrics API", "GPU exporter", "metrics listed"]
    assert exporter_step({}).observed == "on 2 of 2 node(s)"


def test_a_stack_with_another_exporter_skips_the_exporter_step() -> None:
    with running(healthy()) as cluster:
        assert "GPU exporter" not in [step.name for step in check_stack(cluster.outputs, cluster.client)]


@pytest.mark.parametrize(
    "nodes",
    [[], [node("n3", ready="False")], [node("n3", gpus="memory")]],
    ids=["none", "not ready", "without a GPU"],
)
def test_only_ready_nodes_with_gpus_need_an_exporter(nodes: list[dict[str, Any]]) -> None:
    step = exporter_step({NODES: {"items": nodes}})
    assert step.ok
    assert step.observed == "the pool has no GPU nodes now"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "aliyun.com/gpu-mem", "nvidia.com/mig-1g.10gb"])
def test_a_node_with_any_gpu_resource_needs_an_exporter(resource: str) -> None:
    assert not exporter_step({NODES: {"items": [node("n3", gpus=resource)]}}).ok


def test_the_command_for_a_taint_keeps_existing_tolerations() -> None:
    broken = {
        NODES: {
            "items": [node("n1"), node("n2", TAINT), node("n3", TAINT, {"key": "dedicated", "effect": "NoExecute"})]
        },
        DAEMON_SET: daemon_set(OWN),
        EXPORTERS: {"items": [on("n1", pod("e1"))]},
    }
    step = exporter_step(broken)
    assert not step.ok
    assert step.observed.startswith(
        "no exporter runs on n2, n3: DaemonSet arms-prom/ack-prometheus-gpu-exporter does not tolerate the taint "
        "team=ml:NoSchedule; to add the toleration, run `kubectl patch daemonset -n arms-prom "
        "ack-prometheus-gpu-exporter -p "
    )
    [command] = re.findall("`(.+)`", step.observed)
    patch = json.loads(shlex.split(command)[-1])
    wanted = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
    assert patch == {"spec": {"template": {"spec": {"tolerations": [OWN, wanted]}}}}


def test_a_pod_that_does_not_start_is_not_blamed_on_a_taint() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "DCGM"}}
    status = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 9, "state": waiting}
    broken = pod("e2", ready=False, containerStatuses=[status])
    step = exporter_step({EXPORTERS: {"items": [on("n1", pod("e1")), on("n2", broken)]}})
    assert step.observed == (
        "no exporter runs on n2: the exporter's pod arms-prom/e2 is not Ready (CrashLoopBackOff: DCGM); `kubectl "
        "describe pod e2 -n arms-prom` shows why"
    )
    absent = exporter_step({EXPORTERS: {"items": []}, NODES: {"items": [node(f"n{number}") for number in range(5)]}})
    assert absent.observed.startswith("no exporter runs on n0, n1, n2 and 2 more: DaemonSet arms-prom/")
    assert "has no pod on" in absent.observed


def test_reports_a_missing_daemon_set() -> None:
    step = exporter_step({DAEMON_SET: None})
    assert not step.ok
    assert step.observed.startswith("no exporter: DaemonSet arms-prom/ack-prometheus-gpu-exporter was not found")


@pytest.mark.parametrize(
    ("without_values", "name"),
    [({VALUES: {"items": []}}, f"{METRIC} of default/bert"), ({CUSTOM: {"resources": []}}, "metrics listed")],
)
def test_a_metric_without_values_is_traced_to_the_taint(without_values: dict[str, Any], name: str) -> None:
    # The check does not query Prometheus, which the fake cluster lacks.
    broken = {**without_values, NODES: {"items": [node("n1", TAINT)]}, EXPORTERS: {"items": []}}
    [step] = [step for step in steps(broken) if step.name == name]
    assert (
        "; no exporter runs on n1: DaemonSet arms-prom/ack-prometheus-gpu-exporter does not tolerate" in step.observed
    )


def test_a_pod_without_values_is_not_blamed_on_another_node() -> None:
    broken = {VALUES: {"items": []}, NODES: {"items": [node("n1"), node("n2", TAINT)]}}
    broken[EXPORTERS] = {"items": [on("n1", pod("e1"))]}
    [step] = [step for step in steps(broken) if step.name == f"{METRIC} of default/bert"]
    assert not step.ok
    assert "no exporter runs" not in step.observed
