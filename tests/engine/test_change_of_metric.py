"""Change a service's metric: its HPA has readings throughout, and a later `up` removes the unused rule."""

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
from tests.engine.service_watch import ServiceWatch

BEFORE, AFTER = "DCGM_CUSTOM_PROCESS_SM_UTIL_MAX", "DCGM_CUSTOM_PROCESS_SM_UTIL"


def set_aggregation(rehearsal: Rehearsal, **aggregation: str) -> None:
    [service] = rehearsal.setting("services")
    metric = {"name": AFTER, "target": 20, **aggregation}
    rehearsal.edit(services=[{**service, "autoscaler": {**service["autoscaler"], "metrics": [metric]}}])


def exposed_metrics(rehearsal: Rehearsal) -> set[str | None]:
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
    set_aggregation(rehearsal, aggregation="max")
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


def test_up_keeps_a_rule_while_an_hpa_reads_it_and_removes_it_afterwards(rehearsal: Rehearsal) -> None:
    [service] = rehearsal.outputs().services
    assert [metric.name for metric in service.metrics] == [BEFORE]
    autoscaling = client.AutoscalingV2Api(rehearsal.api)
    autoscaling.create_namespaced_horizontal_pod_autoscaler("default", hpa_on_old_metric("of-another-team"))

    set_aggregation(rehearsal)
    message = (
        f"The adapter keeps its rule for {BEFORE}, although the rule is no longer in the settings, because these HPAs "
        "still read the metric"
    )
    with ServiceWatch(rehearsal.api, service) as service_watch:
        result = rehearsal.up()
    assert f"{message}: default/gpu-hpa, default/of-another-team." in result.stdout
    assert {*service_watch.scaling_active} == {"True"}
    assert {BEFORE, AFTER} <= exposed_metrics(rehearsal)

    previewed = rehearsal.stack.preview(color="never")
    assert f"{message}: default/of-another-team." in previewed.stdout
    assert set(previewed.change_summary) == {OpType.SAME}

    autoscaling.delete_namespaced_horizontal_pod_autoscaler("of-another-team", "default")
    assert message not in rehearsal.up().stdout
    assert exposed_metrics(rehearsal) >= {AFTER}
    assert BEFORE not in exposed_metrics(rehearsal)
    assert [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok] == []
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}
