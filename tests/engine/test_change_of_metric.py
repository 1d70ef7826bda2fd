"""A service changes its metric: its HPA reads without a gap, and a later `up` removes the unused rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from pulumi.automation import OpType

from autoscaling.metrics.exposed_name import exposed_name
from live.verify import check_stack
from live.verify.adapter import mounted_rules
from live.verify.cluster_reader import ClusterReader
from tests.engine.conftest import Rehearsal
from tests.engine.watching import Watching

BEFORE, AFTER = "DCGM_CUSTOM_PROCESS_SM_UTIL_MAX", "DCGM_CUSTOM_PROCESS_SM_UTIL"


def aggregate(rehearsal: Rehearsal, **aggregation: str) -> None:
    [service] = rehearsal.setting("services")
    metric = {"name": AFTER, "target": 20, **aggregation}
    rehearsal.edit(services=[{**service, "autoscaler": {**service["autoscaler"], "metrics": [metric]}}])


def exposed(rehearsal: Rehearsal) -> set[str | None]:
    cluster = ClusterReader(rehearsal.client)
    rules = mounted_rules(cluster, cluster.api_service("v1beta1.custom.metrics.k8s.io"))
    return {exposed_name(rule) for rule in rules}


def hpa_on_old_metric(name: str) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "of-another-team"}
    pods = {"metric": {"name": BEFORE}, "target": {"type": "AverageValue", "averageValue": "20"}}
    return {
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "maxReplicas": 2, "metrics": [{"type": "Pods", "pods": pods}]},
    }


@pytest.fixture(scope="module", autouse=True)
def live(rehearsal: Rehearsal) -> Iterator[None]:
    aggregate(rehearsal, aggregation="max")
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


def test_a_rule_stays_while_an_hpa_reads_it_and_the_next_up_removes_it(rehearsal: Rehearsal) -> None:
    [service] = rehearsal.outputs().services
    assert [metric.name for metric in service.metrics] == [BEFORE]
    autoscaling = client.AutoscalingV2Api(rehearsal.api)
    autoscaling.create_namespaced_horizontal_pod_autoscaler("default", hpa_on_old_metric("of-another-team"))

    aggregate(rehearsal)
    keeps = f"The adapter keeps its rule for {BEFORE}, which the settings no longer have: an HPA still reads it"
    with Watching(rehearsal.api, service) as seen:
        result = rehearsal.up()
    assert f"{keeps} (default/gpu-hpa, default/of-another-team)" in result.stdout
    assert {*seen.scaling_active} == {"True"}
    assert {BEFORE, AFTER} <= exposed(rehearsal)

    previewed = rehearsal.stack.preview(color="never")
    assert f"{keeps} (default/of-another-team)" in previewed.stdout
    assert set(previewed.change_summary) == {OpType.SAME}

    autoscaling.delete_namespaced_horizontal_pod_autoscaler("of-another-team", "default")
    assert keeps not in rehearsal.up().stdout
    assert exposed(rehearsal) >= {AFTER}
    assert BEFORE not in exposed(rehearsal)
    assert [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok] == []
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}
