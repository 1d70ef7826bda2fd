"""Whether ACK's exporter runs on each GPU node: what is said where it does not, by the step and by the diagnosis."""

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


def watched() -> dict[str, Any]:
    """A stack that works, on two GPU nodes with an exporter each."""
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

    with running({**watched(), **broken}) as cluster:
        return list(check_stack(outputs(cluster), cluster.client))


def exporter_step(broken: dict[str, Any]) -> Step:
    [step] = [one for one in steps(broken) if one.name == "GPU exporter"]
    return step


def test_an_exporter_on_each_node_is_the_second_step() -> None:
    names = [step.name for step in steps({}) if step.ok]
    assert names[:3] == ["custom metrics API", "GPU exporter", "metrics listed"]
    assert exporter_step({}).observed == "on 2 of 2 node(s)"


def test_a_stack_with_another_exporter_has_no_such_step() -> None:
    with running(healthy()) as cluster:
        assert "GPU exporter" not in [step.name for step in check_stack(cluster.outputs, cluster.client)]


@pytest.mark.parametrize(
    "nodes",
    [[], [node("n3", ready="False")], [node("n3", gpus="memory")]],
    ids=["none", "not ready", "without a GPU"],
)
def test_only_ready_nodes_with_gpus_need_one(nodes: list[dict[str, Any]]) -> None:
    step = exporter_step({NODES: {"items": nodes}})
    assert step.ok
    assert step.observed == "the pool has no GPU nodes now"


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "aliyun.com/gpu-mem", "nvidia.com/mig-1g.10gb"])
def test_a_node_that_offers_gpus_in_any_way_needs_one(resource: str) -> None:
    assert not exporter_step({NODES: {"items": [node("n3", gpus=resource)]}}).ok


def test_the_taint_is_named_with_a_command_that_keeps_what_was_tolerated() -> None:
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
        "team=ml:NoSchedule; `kubectl patch daemonset -n arms-prom ack-prometheus-gpu-exporter -p "
    )
    [command] = re.findall("`(.+)`", step.observed)
    patch = json.loads(shlex.split(command)[-1])
    wanted = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
    assert patch == {"spec": {"template": {"spec": {"tolerations": [OWN, wanted]}}}}


def test_no_taint_is_blamed_for_a_pod_that_does_not_start() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "DCGM"}}
    status = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 9, "state": waiting}
    broken = pod("e2", ready=False, containerStatuses=[status])
    step = exporter_step({EXPORTERS: {"items": [on("n1", pod("e1")), on("n2", broken)]}})
    assert step.observed == "no exporter runs on n2: its pod arms-prom/e2 is not Ready (CrashLoopBackOff: DCGM)"
    absent = exporter_step({EXPORTERS: {"items": []}, NODES: {"items": [node(f"n{number}") for number in range(5)]}})
    assert absent.observed.startswith("no exporter runs on n0, n1, n2 and 2 more: DaemonSet arms-prom/")
    assert "has no pod on" in absent.observed


def test_a_cluster_without_the_daemon_set() -> None:
    step = exporter_step({DAEMON_SET: None})
    assert not step.ok
    assert step.observed.startswith("no exporter: the cluster has no DaemonSet arms-prom/ack-prometheus-gpu-exporter")


@pytest.mark.parametrize(
    ("silent", "name"),
    [({VALUES: {"items": []}}, f"{METRIC} of default/bert"), ({CUSTOM: {"resources": []}}, "metrics listed")],
)
def test_a_metric_without_values_is_followed_to_the_taint(silent: dict[str, Any], name: str) -> None:
    # Nothing is asked of Prometheus, which the fake cluster has not.
    broken = {**silent, NODES: {"items": [node("n1", TAINT)]}, EXPORTERS: {"items": []}}
    [step] = [one for one in steps(broken) if one.name == name]
    assert (
        "; no exporter runs on n1: DaemonSet arms-prom/ack-prometheus-gpu-exporter does not tolerate" in step.observed
    )


def test_a_node_without_an_exporter_is_not_why_a_pod_elsewhere_has_no_value() -> None:
    broken = {VALUES: {"items": []}, NODES: {"items": [node("n1"), node("n2", TAINT)]}}
    broken[EXPORTERS] = {"items": [on("n1", pod("e1"))]}
    [step] = [one for one in steps(broken) if one.name == f"{METRIC} of default/bert"]
    assert not step.ok
    assert "no exporter runs" not in step.observed
