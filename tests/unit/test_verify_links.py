"""Each broken link between a stack and its metric is reported by its step."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaling.ack.versions import ADAPTER_SERVICE as ADAPTER_SERVICE_NAME
from autoscaling.metrics.exposed_name import exposed_name
from autoscaling.metrics.rule_drift import fingerprints
from live.cluster_client import UnreachableError
from live.verify import StackOutputs, Step, broken_link, check_stack
from tests.unit.fake_cluster import (
    ADAPTER_PODS,
    ADAPTER_RULES,
    ADAPTER_SERVICE,
    CUSTOM,
    DEPLOYMENT,
    HPA,
    METRIC,
    POD_LIST,
    PREDICT,
    REGISTRATION,
    RULE,
    VALUES,
    adapter_pod,
    config_map,
    deployment,
    healthy,
    hpa,
    pod,
    query,
    registration,
    running,
    series,
)

PODS_OF, VALUES_OF = "pods of default/bert", f"{METRIC} of default/bert"
FAMILY = '{__name__=~"DCGM_.+"}'
ANSWER, AUTOSCALER = "predict", "HPA default/gpu-hpa"


def steps(**broken: Any) -> list[Step]:
    with running({**healthy(), **broken}) as cluster:
        return list(check_stack(cluster.outputs, cluster.client))


def pending(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod("bert-2", ready=False, conditions=[condition])


def pulling() -> dict[str, Any]:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    return pod("bert-2", ready=False, containerStatuses=[container])


def hpa_with_ambiguous_selector() -> dict[str, Any]:
    # The message of Kubernetes 1.36.
    message = "pods by selector app=bert are controlled by multiple HPAs: [default/bert-cpu default/gpu-hpa]"
    condition = {"type": "ScalingActive", "status": "False", "reason": "AmbiguousSelector", "message": message}
    ambiguous = hpa(None, 1)
    ambiguous["status"]["conditions"] = [condition]
    return ambiguous


def test_the_steps_follow_the_order_of_the_guide() -> None:
    observed = steps()
    assert [step for step in observed if not step.ok] == []
    names = [step.name for step in observed]
    assert names[:4] == ["custom metrics API", "metrics listed", PODS_OF, VALUES_OF]
    assert PREDICT in names[4]
    assert names[5:] == [AUTOSCALER]


@pytest.mark.parametrize(
    ("broken", "observed"),
    [
        ({}, "the same rules"),
        (
            {ADAPTER_RULES: config_map({**RULE, "metricsQuery": "q"})},
            f"the rule for {METRIC} has changed: `pulumi up --replace '**::adapter-release'` restores them",
        ),
        ({ADAPTER_PODS: {"items": [adapter_pod(ready=False)]}}, "the same rules"),
        (
            {ADAPTER_PODS: {"items": []}},
            f"the adapter is down: Service {ADAPTER_SERVICE_NAME} has no pods; check the adapter's Deployment",
        ),
        (
            {ADAPTER_RULES: {"data": {}}},
            "the configuration of the adapter's pod adapter-1 can't be read: the pod needs an argument "
            "--prometheus-url=... and a ConfigMap with rules",
        ),
    ],
)
def test_compares_the_adapters_rules_with_the_stacks(broken: dict[str, Any], observed: str) -> None:
    with running({**healthy(), **broken}) as cluster:
        outputs = StackOutputs.of("dev", {**cluster.raw_outputs, "adapterRules": fingerprints([RULE])})
        [step] = [step for step in check_stack(outputs, cluster.client) if step.name == "adapter rules"]
    assert (step.ok, step.observed) == (observed == "the same rules", observed)


@pytest.mark.parametrize(
    ("path", "answer", "name", "sentence"),
    [
        (REGISTRATION, None, "custom metrics API", "not found (404): no such object"),
        (
            REGISTRATION,
            registration(status="False", reason="MissingEndpoints", message="no addresses"),
            "custom metrics API",
            "custom-service is not available (MissingEndpoints: no addresses)",
        ),
        (REGISTRATION, {**registration(status="True"), "status": None}, "custom metrics API", "no condition yet"),
        (
            REGISTRATION,
            {**registration(status="True"), "spec": {"groupPriorityMinimum": 1, "versionPriority": 1}},
            "custom metrics API",
            "the APIService belongs to the API server itself",
        ),
        (CUSTOM, (503, "service unavailable"), "metrics listed", "the adapter does not respond (503)"),
        (CUSTOM, (500, {"message": "unable to fetch metrics"}), "metrics listed", "(500): unable to fetch metrics"),
        (
            CUSTOM,
            (403, {"message": "no access"}),
            "metrics listed",
            "the API server responds with Forbidden (403): no access",
        ),
        (DEPLOYMENT, None, PODS_OF, "not found (404)"),
        (DEPLOYMENT, deployment(2), PODS_OF, "1 of 2 Ready"),
        (
            DEPLOYMENT,
            deployment(0),
            PODS_OF,
            "does not scale up from 0. Run `kubectl scale -n default deployment bert --replicas=1`",
        ),
        (
            POD_LIST,
            {"items": [pending("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")]},
            PODS_OF,
            "bert-2 is not Ready (Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)",
        ),
        (POD_LIST, {"items": [pulling()]}, PODS_OF, "(ImagePullBackOff: Back-off pulling image)"),
        (
            POD_LIST,
            {"items": [pod("bert-1"), pod("bert-2")]},
            VALUES_OF,
            "no value for bert-2; Prometheus responds with status 404 to the query",
        ),
        (VALUES, (404, {"message": "could not find the metric"}), VALUES_OF, "not found (404): could not find"),
        (PREDICT, (500, "PlayMusic"), ANSWER, "500 PlayMusic"),
        (HPA, None, AUTOSCALER, "not found (404)"),
        (HPA, hpa("0", 1, metric="cpu"), AUTOSCALER, f"the HPA has no averageValue target for the pod metric {METRIC}"),
        (
            HPA,
            hpa_with_ambiguous_selector(),
            AUTOSCALER,
            "[default/bert-cpu default/gpu-hpa]): delete the other HPA; a Deployment with two HPAs is not scaled",
        ),
    ],
)
def test_a_step_reports_its_broken_link(path: str, answer: Any, name: str, sentence: str) -> None:
    [step] = [step for step in steps(**{path: answer}) if name in step.name]
    assert not step.ok
    assert sentence in step.observed


DISCOVERY = "failing or missing response from https://10.0.0.9:443/apis/custom.metrics.k8s.io/v1beta1: "
ALLOWED = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


@pytest.mark.case("F3")
@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            DISCOVERY + "context deadline exceeded",
            "can't reach the adapter: open its port (443 with the vendor's chart",
        ),
        (
            DISCOVERY + 'Get "https://10.0.0.9:443/apis": net/http: request canceled while waiting for connection '
            "(Client.Timeout exceeded while awaiting headers)",
            "can't reach the adapter",
        ),
        (DISCOVERY + "dial tcp 10.0.0.9:443: connect: no route to host", "can't reach the adapter"),
        (
            "bad status from https://10.0.0.9:443: 403",
            "a proxy or RBAC refuses the control plane: add the cluster's Services to no_proxy",
        ),
        (
            DISCOVERY + "bad status from https://10.0.0.9:443/apis/custom.metrics.k8s.io/v1beta1: 401",
            "client certificate: let the adapter trust the authority in ConfigMap "
            "kube-system/extension-apiserver-authentication, and accept the CN front-proxy-client or aggregator",
        ),
        (
            DISCOVERY + "dial tcp 10.0.0.9:403: connect: connection refused",
            "nothing listens on the port: the APIService",
        ),
        ('service/s in "kube-system" is not listening on port 443', "nothing listens on the port"),
        (
            DISCOVERY + "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "needs a caBundle",
        ),
        (DISCOVERY + "something new from https://10.0.0.9:401/apis", None),
    ],
)
def test_reports_the_likely_cause_of_an_unreachable_adapter(message: str, cause: str | None) -> None:
    answers = {
        REGISTRATION: registration(status="False", reason="FailedDiscoveryCheck", message=message),
        ALLOWED: {"data": {"requestheader-allowed-names": '["front-proxy-client","aggregator"]'}},
    }
    observed = steps(**answers)[0].observed
    assert f"is not available (FailedDiscoveryCheck: {message})" in observed
    assert cause in observed if cause else observed.endswith(f"{message})")


@pytest.mark.case("F3")
def test_an_unavailable_api_is_a_broken_link() -> None:
    answer = registration(status="False", reason="FailedDiscoveryCheck", message="context deadline exceeded")
    with running({**healthy(), REGISTRATION: answer}) as cluster:
        link = broken_link(cluster.outputs, cluster.client)
    assert link and link.name == "custom metrics API"


def test_terminating_pods_are_ignored() -> None:
    terminating = pod("bert-0")
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert [step for step in steps(**{POD_LIST: {"items": [terminating, pod("bert-1")]}}) if not step.ok] == []


def test_queries_values_with_the_deployments_selector() -> None:
    with running(healthy()) as cluster:
        list(check_stack(cluster.outputs, cluster.client))
    assert f"{VALUES}?labelSelector=app%3Dbert" in cluster.requests


def test_compares_a_long_answer_completely() -> None:
    with running({**healthy(), PREDICT: "x" * 100 + "\n"}) as cluster:
        [service] = cluster.raw_outputs["services"]
        outputs = cluster.outputs.model_copy(
            update={"services": [cluster.service.model_copy(update={"answer": "x" * 100})]}
        )
        steps = list(check_stack(outputs, cluster.client))
    assert service["predictUrl"] in steps[4].name
    assert steps[4].ok


def test_an_unreachable_service_is_a_failed_step() -> None:
    with running(healthy()) as cluster:
        unreachable = cluster.service.model_copy(update={"predict_url": "http://127.0.0.1:1/predict"})
        steps = list(check_stack(cluster.outputs.model_copy(update={"services": [unreachable]}), cluster.client))
    assert [step.ok for step in steps] == [True, True, True, True, False, True]
    assert "no response (" in steps[4].observed


def test_an_unreachable_cluster_is_an_error() -> None:
    with running(healthy()) as cluster:
        outputs, client = cluster.outputs, cluster.client
    with pytest.raises(UnreachableError, match=rf"^at {cluster.host} can't be reached \(.*refused\)$"):
        next(check_stack(outputs, client))


def test_a_refused_credential_is_an_error() -> None:
    with pytest.raises(UnreachableError, match=r"refuses the credential \(401\): get a new kubeconfig"):
        steps(**{REGISTRATION: (401, {"message": "Unauthorized"})})


def without_adapter(**broken: Any) -> dict[str, Any]:
    return {REGISTRATION: registration(status="False", reason="MissingEndpoints", message="no addresses"), **broken}


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (
            {ADAPTER_PODS: {"items": []}},
            f"the adapter is down: Service {ADAPTER_SERVICE_NAME} has no pods; check the adapter's Deployment",
        ),
        (
            {ADAPTER_PODS: {"items": [adapter_pod(ready=False)]}},
            "the adapter is down: its pod adapter-1 is not Ready (Pending); `kubectl describe pod adapter-1 -n "
            "kube-system` shows why",
        ),
        ({ADAPTER_SERVICE: None}, "not found (404)"),
    ],
)
def test_reports_why_the_adapter_is_down(broken: dict[str, Any], sentence: str) -> None:
    [step] = [step for step in steps(**without_adapter(**broken)) if step.name == "custom metrics API"]
    assert not step.ok
    assert step.observed == sentence if "404" not in sentence else sentence in step.observed


LABELS = {"NamespaceName": "default", "PodName": "bert-1"}


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (
            {ADAPTER_RULES: config_map({**RULE, "name": {"as": "other"}})},
            f"no adapter rule exposes {METRIC} (exposed: other). If the adapter's ConfigMap was changed by hand",
        ),
        ({ADAPTER_RULES: config_map()}, f"no adapter rule exposes {METRIC} (exposed: none)"),
        (
            {query(RULE["seriesQuery"]): series(), query(METRIC): series(), query(FAMILY): series()},
            "no exporter: Prometheus has no series DCGM_*: turn on GPU monitoring for the cluster",
        ),
        (
            {
                query(RULE["seriesQuery"]): series(),
                query(METRIC): series(),
                query(FAMILY): series({"__name__": "DCGM_FI_DEV_GPU_UTIL"}),
            },
            f"no series: the exporter has no {METRIC}, because no process uses a GPU (the exporter has "
            "DCGM_FI_DEV_GPU_UTIL)",
        ),
        (
            {
                query(RULE["seriesQuery"]): series(),
                query(METRIC): series({"pod": "bert-1", "namespace": "default", "gpu": "0"}),
            },
            f"wrong labels: the rule finds pods by NamespaceName and PodName, but the series of {METRIC} do not have "
            "that. Their labels are gpu, namespace, pod: ",
        ),
        (
            {query(RULE["seriesQuery"]): series({**LABELS, "PodName": "bert-9"})},
            f"no series: {METRIC} has no series with PodName bert-1, because no process uses the pod's GPU",
        ),
        ({query(RULE["seriesQuery"]): series(LABELS)}, "the adapter has not found it yet"),
        (
            {query(RULE["seriesQuery"]): (500, "no")},
            f"Prometheus responds with status 500 to the query {RULE['seriesQuery']}: run it from inside the cluster's "
            "VPC",
        ),
        (
            {query(RULE["seriesQuery"]): (401, "no")},
            "Prometheus refuses queries without credentials (401): set prometheus.auth.",
        ),
        (
            {ADAPTER_PODS: {"items": [adapter_pod("--prometheus-url=http://127.0.0.1:1/secret-token")]}},
            "Prometheus can't be reached from this machine (NewConnectionError): query",
        ),
        (
            {ADAPTER_PODS: {"items": [adapter_pod("--no-url")]}},
            "the configuration of the adapter's pod adapter-1 can't be read",
        ),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_a_metric_without_values_is_traced_to_the_exporter(broken: dict[str, Any], sentence: str, listed: bool) -> None:
    without_values: dict[str, Any] = {VALUES: {"items": []}} if listed else {CUSTOM: {"resources": []}}
    name = VALUES_OF if listed else "metrics listed"
    [step] = [step for step in steps(**{**without_values, **broken}) if step.name == name]
    assert not step.ok
    if not listed and "bert-1," in sentence:
        # Without a pod name, the series of another pod counts.
        sentence = "the adapter has not found it yet"
    assert sentence in step.observed
    assert "/token" not in step.observed
    assert "secret-token" not in step.observed


def test_an_answer_that_is_not_json_is_a_broken_link() -> None:
    [step] = [step for step in steps(**{VALUES: "<html>"}) if step.name == VALUES_OF]
    assert not step.ok
    assert step.observed.endswith("is not a JSON object")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            series(),
            "no series: Prometheus has no series named vllm:num_requests_waiting. Check that the pods expose it, and "
            "that a ServiceMonitor or PodMonitor lets Prometheus scrape them",
        ),
        (
            series({"namespace": "default", "pod": "bert-9"}),
            "has no series with pod bert-1, because Prometheus does not scrape the pod",
        ),
        (series({"job": "engine"}), "use the same label names in the rule and in the scrape configuration"),
    ],
)
def test_a_series_exposed_by_pods_has_other_causes(found: dict[str, Any], sentence: str) -> None:
    name = "vllm:num_requests_waiting"
    rule = {
        **RULE,
        "seriesQuery": name,
        "name": {"as": METRIC},
        "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
    }
    broken = {VALUES: {"items": []}, ADAPTER_RULES: config_map(rule), query(name): found}
    [step] = [step for step in steps(**broken) if step.name == VALUES_OF]
    assert sentence in step.observed


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ({"seriesQuery": "a_total{x='y'}"}, "a_total"),
        ({"seriesQuery": "a_total", "name": {"matches": "^(.*)_total$"}}, "a"),
        ({"seriesQuery": "a_total", "name": {"matches": "^(.*)_total$", "as": "${1}_rate"}}, "a_rate"),
        ({"seriesQuery": "a_total", "name": {"matches": "b"}}, None),
        ({"seriesQuery": '{__name__=~"^a.*"}', "name": {"as": "c"}}, "c"),
        ({"seriesQuery": '{__name__=~"^a.*"}'}, None),
    ],
)
def test_returns_the_name_that_the_adapter_exposes(rule: dict[str, Any], name: str | None) -> None:
    assert exposed_name(rule) == name


def broken_links(**broken: Any) -> str | None:
    with running({**healthy(), **broken}) as cluster:
        link = broken_link(cluster.outputs, cluster.client)
    return link.name if link else None


def test_the_first_broken_link_is_the_cause_and_not_a_consequence() -> None:
    nothing_listed = {CUSTOM: {"resources": []}, VALUES: {"items": []}, HPA: hpa(None, 1)}
    assert broken_links() is None
    assert broken_links(**{HPA: hpa(None, 1)}) == AUTOSCALER
    assert broken_links(**{VALUES: {"items": []}, HPA: hpa(None, 1)}) == VALUES_OF
    assert broken_links(**nothing_listed) == "metrics listed"
    assert broken_links(**nothing_listed, **{POD_LIST: {"items": [pulling()]}}) == PODS_OF
    assert broken_links(**without_adapter(), **nothing_listed) == "custom metrics API"


def test_an_unreachable_service_is_not_a_broken_link() -> None:
    assert broken_links(**{PREDICT: (500, "no")}) is None
