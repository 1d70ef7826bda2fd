"""The guide's checks, from the API registration to the HPA, in the order in which one rests on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from urllib.parse import quote

import httpx
from kubernetes import client

from verify.cluster import BrokenLinkError, Cluster, decimal, selector
from verify.outputs import ServiceOutputs, StackOutputs
from verify.steps import Step

_ADAPTER_SERVICE = "kube-system/ack-alibaba-cloud-metrics-adapter-custom-service"
_ANSWER_SECONDS = 30


def check_stack(outputs: StackOutputs, api: client.ApiClient) -> Iterator[Step]:
    """Check everything once. A part that can't be reached is a failed step, not an error.

    Raises:
        ClusterError: the cluster itself can't be reached, or refuses the credential.
    """
    cluster = Cluster(api)
    yield _guarded("custom metrics API", "available", lambda: _registration(outputs, cluster))
    yield _guarded("metrics listed", ", ".join(outputs.metric_resources), lambda: _listed(outputs, cluster))
    for service in outputs.services:
        yield from _service(service, outputs, cluster)


def _service(service: ServiceOutputs, outputs: StackOutputs, cluster: Cluster) -> Iterator[Step]:
    name = f"{service.namespace}/{service.name}"
    yield _guarded(f"pods of {name}", "each replica Ready", lambda: _pods(service, cluster))
    path = f"{outputs.custom_metrics_path}/namespaces/{service.namespace}/pods/*/{service.metric}"
    yield _guarded(f"{service.metric} of {name}", "a value for each Ready pod", lambda: _values(service, path, cluster))
    yield _answer(service)
    expected = f"a target of {service.target}, ScalingActive"
    yield _guarded(f"HPA {service.namespace}/{service.hpa}", expected, lambda: _hpa(service, cluster))


def _guarded(name: str, expected: str, check: Callable[[], tuple[bool, str]]) -> Step:
    try:
        ok, observed = check()
    except BrokenLinkError as error:
        return Step(name, expected, str(error), False)
    return Step(name, expected, observed, ok)


def _registration(outputs: StackOutputs, cluster: Cluster) -> tuple[bool, str]:
    group, version = outputs.custom_metrics_path.removeprefix("/apis/").split("/")
    registration = cluster.api_service(f"{version}.{group}")
    service = registration.spec.service
    owner = f"{service.namespace}/{service.name}" if service else "the API server itself"
    if owner != _ADAPTER_SERVICE:
        return False, f"it belongs to {owner}, not to {_ADAPTER_SERVICE}: only one adapter can serve it"
    conditions = registration.status.conditions or [] if registration.status else []
    available = next((condition for condition in conditions if condition.type == "Available"), None)
    if available is None or available.status != "True":
        reason = f"{available.reason}: {available.message}" if available else "no condition yet"
        return False, f"{owner} is not available ({reason})"
    return True, f"available, served by {owner}"


def _listed(outputs: StackOutputs, cluster: Cluster) -> tuple[bool, str]:
    listed = {resource["name"] for resource in cluster.get(outputs.custom_metrics_path)["resources"]}
    missing = [name for name in outputs.metric_resources if name not in listed]
    if missing:
        return False, f"not listed: {', '.join(missing)} (no series in Prometheus, labels of other names, or no rule)"
    return True, f"all {len(outputs.metric_resources)} listed"


def _pods(service: ServiceOutputs, cluster: Cluster) -> tuple[bool, str]:
    deployment = cluster.deployment(service.deployment, service.namespace)
    pods = cluster.pods(deployment)
    ready = sum(pod.ready for pod in pods)
    wanted = 1 if deployment.spec.replicas is None else deployment.spec.replicas
    observed = f"{ready} Ready of {wanted}"
    waiting = next((pod for pod in pods if not pod.ready), None)
    if waiting:
        observed += f"; {waiting.name} is not ({waiting.reason})"
    return ready > 0 and ready == wanted, observed


def _values(service: ServiceOutputs, path: str, cluster: Cluster) -> tuple[bool, str]:
    deployment = cluster.deployment(service.deployment, service.namespace)
    ready = [pod.name for pod in cluster.pods(deployment) if pod.ready]
    items = cluster.get(f"{path}?labelSelector={quote(selector(deployment))}")["items"]
    values = {item["describedObject"]["name"]: decimal(item["value"]) for item in items}
    missing = [pod for pod in ready if pod not in values]
    if missing:
        return False, f"no value for {', '.join(missing)} (no series: no GPU process, or labels of other names)"
    return bool(ready), ", ".join(f"{pod}={values[pod]}" for pod in ready) or "no pod is Ready"


def _answer(service: ServiceOutputs) -> Step:
    name, expected = f"GET {service.predict_url}", f"200 {service.answer}"
    try:
        response = httpx.get(service.predict_url, timeout=_ANSWER_SECONDS, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Step(name, expected, f"no answer ({str(error) or type(error).__name__})", False)
    answer = response.text.strip()
    ok = response.status_code == 200 and answer == service.answer
    return Step(name, expected, f"{response.status_code} {answer if ok else answer[:80]}", ok)


def _hpa(service: ServiceOutputs, cluster: Cluster) -> tuple[bool, str]:
    status = cluster.hpa(service.hpa, service.namespace, service.metric)
    if not status.scaling_active:
        return False, f"{status}, not active ({status.reason})"
    return status.target == Decimal(service.target), f"{status} at {status.desired} replica(s), ScalingActive"
