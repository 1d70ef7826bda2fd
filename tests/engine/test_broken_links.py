"""Break each link of the real pipeline in turn: `up` and the checks report it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from kubernetes import client
from pulumi import automation

from live.verify import broken_link
from tests.engine.conftest import Rehearsal
from tests.engine.prometheus import configured

ADAPTER = "ack-alibaba-cloud-metrics-adapter"
SYSTEM = "kube-system"
SERVICE = "bert-intent-detection"
METRIC = "DCGM_CUSTOM_PROCESS_SM_UTIL"
REGISTRATION = "v1beta1.custom.metrics.k8s.io"

pytestmark = pytest.mark.usefixtures("deployed")


def reported_link(rehearsal: Rehearsal, phrase: str | None, seconds: float = 60) -> str | None:
    """Wait for a broken link whose report has the phrase (None: for no broken link); return the last report."""
    outputs, deadline = rehearsal.outputs(), time.monotonic() + seconds
    while True:
        link = broken_link(outputs, rehearsal.client)
        report = f"{link.name}: {link.observed}" if link else None
        if (report is None if phrase is None else report and phrase in report) or time.monotonic() > deadline:
            return report
        time.sleep(0.5)


@contextmanager
def adapter_down(rehearsal: Rehearsal) -> Iterator[None]:
    apps = client.AppsV1Api(rehearsal.api)
    apps.patch_namespaced_deployment_scale(ADAPTER, SYSTEM, {"spec": {"replicas": 0}})
    yield
    apps.patch_namespaced_deployment_scale(ADAPTER, SYSTEM, {"spec": {"replicas": 1}})


@contextmanager
def other_owner(rehearsal: Rehearsal) -> Iterator[None]:
    api = client.ApiregistrationV1Api(rehearsal.api)
    ours = api.read_api_service(REGISTRATION).spec.service
    other = {"namespace": "monitoring", "name": "prometheus-adapter"}
    api.patch_api_service(REGISTRATION, {"spec": {"service": other}})
    yield
    api.patch_api_service(REGISTRATION, {"spec": {"service": {"namespace": ours.namespace, "name": ours.name}}})


@contextmanager
def wrong_port(rehearsal: Rehearsal) -> Iterator[None]:
    api = client.ApiregistrationV1Api(rehearsal.api)
    port = api.read_api_service(REGISTRATION).spec.service.port
    api.patch_api_service(REGISTRATION, {"spec": {"service": {"port": port + 1}}})
    yield
    api.patch_api_service(REGISTRATION, {"spec": {"service": {"port": port}}})


@contextmanager
def second_hpa(rehearsal: Rehearsal) -> Iterator[None]:
    autoscaling = client.AutoscalingV2Api(rehearsal.api)
    spec = autoscaling.read_namespaced_horizontal_pod_autoscaler("gpu-hpa", "default").spec
    autoscaling.create_namespaced_horizontal_pod_autoscaler("default", {"metadata": {"name": "other"}, "spec": spec})
    yield
    autoscaling.delete_namespaced_horizontal_pod_autoscaler("other", "default")


@contextmanager
def no_rule(rehearsal: Rehearsal) -> Iterator[None]:
    core, name = client.CoreV1Api(rehearsal.api), f"{ADAPTER}-config"
    text = core.read_namespaced_config_map(name, SYSTEM).data["config.yaml"]
    rules = [rule for rule in yaml.safe_load(text)["rules"] if rule["name"]["as"] != METRIC]
    core.patch_namespaced_config_map(name, SYSTEM, {"data": {"config.yaml": yaml.safe_dump({"rules": rules})}})
    yield
    core.patch_namespaced_config_map(name, SYSTEM, {"data": {"config.yaml": text}})


@contextmanager
def no_ready_pod(rehearsal: Rehearsal) -> Iterator[None]:
    def set_scheduler(name: str) -> None:
        patch = {"spec": {"template": {"spec": {"schedulerName": name}}}}
        client.AppsV1Api(rehearsal.api).patch_namespaced_deployment(SERVICE, "default", patch)

    set_scheduler("nobody")
    yield
    set_scheduler("default-scheduler")


def with_scrape_config(change: Callable[[dict[str, Any]], None]) -> Callable[[Rehearsal], Any]:
    """Return a fault: the real Prometheus with another configuration."""
    return lambda rehearsal: configured(rehearsal.layout, change)


def without_exporter(content: dict[str, Any]) -> None:
    content["scrape_configs"][0]["static_configs"] = [{"targets": ["127.0.0.1:1"]}]


def relabeled(*steps: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        content["scrape_configs"][0]["metric_relabel_configs"] = list(steps)

    return change


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (adapter_down, "custom metrics API: the adapter is down: Service kube-system/"),
        (
            other_owner,
            "custom metrics API: the APIService belongs to monitoring/prometheus-adapter, not to kube-system/",
        ),
        pytest.param(
            wrong_port,
            "custom-service is not available (ServicePortError: ",
            marks=pytest.mark.case("F3"),
        ),
        pytest.param(
            second_hpa,
            "are controlled by multiple HPAs: [default/gpu-hpa default/other]): delete the other HPA",
            marks=pytest.mark.case("C5"),
        ),
        (no_rule, f"no adapter rule exposes {METRIC}"),
        (no_ready_pod, f"pods of default/{SERVICE}: 0 of 1 Ready"),
        (
            with_scrape_config(without_exporter),
            "no exporter: Prometheus has no series DCGM_*",
        ),
        (
            with_scrape_config(
                relabeled({"source_labels": ["__name__"], "regex": "DCGM_CUSTOM_.*", "action": "drop"}),
            ),
            f"no series: the exporter has no {METRIC}",
        ),
        (
            with_scrape_config(
                relabeled(
                    {"source_labels": ["PodName"], "target_label": "pod"},
                    {"source_labels": ["NamespaceName"], "target_label": "namespace"},
                    {"regex": "PodName|NamespaceName", "action": "labeldrop"},
                ),
            ),
            f"wrong labels: the rule finds pods by NamespaceName and PodName, but the series of {METRIC} do not",
        ),
    ],
    ids=[
        "adapter-down",
        "other-owner",
        "wrong-port",
        "second-hpa",
        "no-rule",
        "no-ready-pod",
        "no-exporter",
        "no-series",
        "other-labels",
    ],
)
def test_reports_a_broken_link_until_it_is_fixed(rehearsal: Rehearsal, fault: Any, sentence: str) -> None:
    with fault(rehearsal):
        assert sentence in (reported_link(rehearsal, sentence) or "")
    assert reported_link(rehearsal, None) is None


def test_an_up_without_changes_reports_a_broken_link_and_fails(rehearsal: Rehearsal) -> None:
    rehearsal.edit(waitForMetrics="1s")
    with adapter_down(rehearsal):
        assert "the adapter is down" in (reported_link(rehearsal, "the adapter is down") or "")
        with pytest.raises(automation.CommandError) as failure:
            rehearsal.up()
        rehearsal.edit(waitForMetrics="0s")
        changes = rehearsal.up().summary.resource_changes
    assert "the metrics still can't be read after 1 s. custom metrics API: the adapter is down" in str(failure.value)
    assert "Traceback" not in str(failure.value)
    assert set(changes or {}) == {automation.OpType.SAME}, "with waitForMetrics 0s, `up` ignores a broken link"
    assert reported_link(rehearsal, None) is None
