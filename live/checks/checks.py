"""The guide's checks, from the API registration to the HPA; each rests on the checks before it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import urllib3

from autoscaling.ack.versions import ADAPTER_SERVICE, REPLACE_ADAPTER
from autoscaling.metrics.rule_drift import drift
from autoscaling.quantity import decimal
from live.checks.adapter import mounted_rules, ready_pod, running_adapter
from live.checks.availability import likely_cause
from live.checks.cluster_reader import BrokenLinkError, ClusterReader, Pod, condition, selector
from live.checks.diagnosis import why_no_value
from live.checks.exporter import EXPORTER, missing_exporter
from live.checks.outputs import ServiceOutputs, StackOutputs
from live.checks.steps import Step
from live.checks.web import web
from live.cluster_client import ClusterClient, Object
from live.other_owners import owner_of

_ANSWER_SECONDS = 30


def check_stack(outputs: StackOutputs, client: ClusterClient) -> Iterator[Step]:
    """Check everything once. A part that can't be reached is a failed step, not an error.

    Raises:
        UnreachableError: the cluster itself can't be reached, or refuses the credential.
    """
    cluster = ClusterReader(client)
    yield _registered(outputs, cluster)
    if outputs.adapter_rules is not None:
        yield _rules_as_given(outputs.adapter_rules, outputs, cluster)
    if outputs.monitored_node_pool_id:
        yield _exporter_runs(outputs.monitored_node_pool_id, cluster)
    # Without a pod on a GPU there are no series of pods to list.
    if outputs.services:
        yield _metrics_listed(outputs.metric_resources, outputs, cluster)
    for service in outputs.services:
        yield _pods_ready(service, cluster)
        for metric in service.metrics:
            yield _values_served(metric.name, service, outputs, cluster)
        yield _answer(service)
        yield _autoscaler_active(service, cluster)


def broken_link(outputs: StackOutputs, client: ClusterClient) -> Step | None:
    """Return the first failed step on the way to the HPAs, causes first; None where each HPA reads its metric.

    Does not check whether the services answer: their addresses may be out of reach from here.

    Raises:
        UnreachableError: as for `check_stack`.
    """
    return next((step for step in _causes_first(outputs, ClusterReader(client)) if not step.ok), None)


def _causes_first(outputs: StackOutputs, cluster: ClusterReader) -> Iterator[Step]:
    yield _registered(outputs, cluster)
    active = {service.hpa_path: _autoscaler_active(service, cluster) for service in outputs.services}
    blind = [service for service in outputs.services if not active[service.hpa_path].ok]
    # An HPA's status is as old as its last sync, so the values of one service for each metric are read too. Reading
    # those of all would take too long: the adapter takes a second for each service.
    samples = {metric.name: service for service in outputs.services for metric in service.metrics}
    looked_at = blind or [service for service in outputs.services if service in samples.values()]
    for service in looked_at:
        yield _pods_ready(service, cluster)
    names = {metric.name for service in looked_at for metric in service.metrics}
    yield _metrics_listed(sorted(f"pods/{name}" for name in names), outputs, cluster)
    for service in looked_at:
        for metric in service.metrics:
            if blind or samples[metric.name] == service:
                yield _values_served(metric.name, service, outputs, cluster)
        yield active[service.hpa_path]


def _registered(outputs: StackOutputs, cluster: ClusterReader) -> Step:
    return _guarded("custom metrics API", "available", lambda: _registration(outputs, cluster))


def _rules_as_given(given: Mapping[str, str], outputs: StackOutputs, cluster: ClusterReader) -> Step:
    expected = f"the stack's {len(given)}"
    return _guarded("rules of the adapter", expected, lambda: _rules(given, outputs, cluster))


def _metrics_listed(wanted: Sequence[str], outputs: StackOutputs, cluster: ClusterReader) -> Step:
    return _guarded("metrics listed", ", ".join(wanted), lambda: _listed(wanted, outputs, cluster))


def _exporter_runs(node_pool: str, cluster: ClusterReader) -> Step:
    return _guarded(
        "GPU exporter", f"a Ready pod of {EXPORTER} on each GPU node", lambda: _exporter(node_pool, cluster)
    )


def _pods_ready(service: ServiceOutputs, cluster: ClusterReader) -> Step:
    name = f"pods of {service.namespace}/{service.name}"
    return _guarded(name, "each replica Ready", lambda: _pods(service, cluster))


def _values_served(metric: str, service: ServiceOutputs, outputs: StackOutputs, cluster: ClusterReader) -> Step:
    name = f"{metric} of {service.namespace}/{service.name}"
    return _guarded(name, "a value for each Ready pod", lambda: _values(metric, service, outputs, cluster))


def _autoscaler_active(service: ServiceOutputs, cluster: ClusterReader) -> Step:
    targets = " and ".join(metric.target for metric in service.metrics)
    expected = f"a target of {targets}, ScalingActive"
    return _guarded(f"HPA {service.hpa_path}", expected, lambda: _hpa(service, cluster))


def _guarded(name: str, expected: str, check: Callable[[], tuple[bool, str]]) -> Step:
    try:
        ok, observed = check()
    except BrokenLinkError as error:
        return Step(name, expected, str(error), False)
    return Step(name, expected, observed, ok)


def _registered_api(outputs: StackOutputs, cluster: ClusterReader) -> Object:
    group, version = outputs.custom_metrics_path.removeprefix("/apis/").split("/")
    return cluster.api_service(f"{version}.{group}")


def _registration(outputs: StackOutputs, cluster: ClusterReader) -> tuple[bool, str]:
    registration = _registered_api(outputs, cluster)
    owner = owner_of(registration)
    if owner != ADAPTER_SERVICE:
        return False, f"it belongs to {owner}, not to {ADAPTER_SERVICE}: a cluster can have only one adapter for it"
    available = condition(registration, "Available")
    if available.get("status") == "True":
        return True, f"available, served by {owner}"
    # Fails where the adapter is down.
    ready_pod(cluster, registration)
    if not available:
        return False, f"{owner} is not available (no condition yet)"
    message = available.get("message", "")
    cause = likely_cause(message, _allowed_names(cluster))
    observed = f"{owner} is not available ({available.get('reason')}: {message})"
    return False, f"{observed}: {cause}" if cause else observed


def _allowed_names(cluster: ClusterReader) -> list[str]:
    """Return the common names of the control plane's client certificate that the cluster publishes; none: any."""
    with contextlib.suppress(BrokenLinkError, KeyError, ValueError):
        published = cluster.config_map("extension-apiserver-authentication", "kube-system")
        names: list[str] = json.loads(published["requestheader-allowed-names"])
        return names
    return []


def _rules(given: Mapping[str, str], outputs: StackOutputs, cluster: ClusterReader) -> tuple[bool, str]:
    differences = list(drift(given, mounted_rules(cluster, _registered_api(outputs, cluster))))
    if not differences:
        return True, "the same"
    # Pulumi does not look inside a release, so it sees no change.
    return False, f"{'; '.join(differences)}: `{REPLACE_ADAPTER}` restores them"


def _listed(wanted: Sequence[str], outputs: StackOutputs, cluster: ClusterReader) -> tuple[bool, str]:
    listed = {resource["name"] for resource in cluster.get(outputs.custom_metrics_path)["resources"]}
    missing = [name for name in wanted if name not in listed]
    if missing:
        why = _why_no_value(missing[0].partition("/")[2], outputs, cluster)
        return False, f"not listed: {', '.join(missing)}; {why}"
    return True, f"all {len(wanted)} listed"


def _exporter(node_pool: str, cluster: ClusterReader) -> tuple[bool, str]:
    gap = missing_exporter(cluster, node_pool)
    nodes = len(cluster.gpu_nodes(node_pool))
    return gap is None, gap or (f"on each of {nodes}" if nodes else "the pool has no GPU node now")


def _why_no_value(metric: str, outputs: StackOutputs, cluster: ClusterReader, pods: Sequence[Pod] = ()) -> str:
    def gap() -> str | None:
        if outputs.monitored_node_pool_id is None:
            return None
        try:
            return missing_exporter(cluster, outputs.monitored_node_pool_id, {pod.node for pod in pods if pod.node})
        except BrokenLinkError as error:
            return str(error)

    adapter = running_adapter(cluster, _registered_api(outputs, cluster))
    return why_no_value(metric, adapter, [pod.name for pod in pods], gap)


def _pods(service: ServiceOutputs, cluster: ClusterReader) -> tuple[bool, str]:
    deployment = cluster.deployment(service.deployment, service.namespace)
    pods = cluster.pods_of(deployment)
    ready = sum(pod.ready for pod in pods)
    replicas = deployment["spec"].get("replicas")
    wanted = 1 if replicas is None else replicas
    if wanted == 0:
        scale = (
            f"kubectl scale -n {service.namespace} deployment {service.deployment} --replicas={service.min_replicas}"
        )
        return False, f"its Deployment was scaled to 0, and an HPA does not scale it up from there. Run `{scale}`"
    observed = f"{ready} Ready of {wanted}"
    waiting = next((pod for pod in pods if not pod.ready), None)
    if waiting:
        observed += f"; {waiting.name} is not ({waiting.reason})"
    return ready > 0 and ready == wanted, observed


def _values(metric: str, service: ServiceOutputs, outputs: StackOutputs, cluster: ClusterReader) -> tuple[bool, str]:
    path = f"{outputs.custom_metrics_path}/namespaces/{service.namespace}/pods/*/{metric}"
    deployment = cluster.deployment(service.deployment, service.namespace)
    ready = {pod.name: pod for pod in cluster.pods_of(deployment) if pod.ready}
    items = cluster.get(path, labelSelector=selector(deployment))["items"]
    values = {item["describedObject"]["name"]: decimal(item["value"]) for item in items}
    missing = [pod for pod in ready if pod not in values]
    if missing:
        why = _why_no_value(metric, outputs, cluster, [ready[pod] for pod in missing])
        return False, f"no value for {', '.join(missing)}; {why}"
    return bool(ready), ", ".join(f"{pod}={values[pod]}" for pod in ready) or "no pod is Ready"


def _answer(service: ServiceOutputs) -> Step:
    name, expected = f"GET {service.predict_url}", f"200 {service.answer}".rstrip()
    try:
        response = web().request("GET", service.predict_url, timeout=_ANSWER_SECONDS)
    except urllib3.exceptions.HTTPError as error:
        return Step(name, expected, f"no answer ({str(error) or type(error).__name__})", False)
    answer = response.data.decode(errors="replace").strip()
    ok = response.status == 200 and service.answer in ("", answer)
    shown = service.answer if ok else answer[:80]
    return Step(name, expected, f"{response.status} {shown}".rstrip(), ok)


def _hpa(service: ServiceOutputs, cluster: ClusterReader) -> tuple[bool, str]:
    status = cluster.hpa(service.hpa, service.namespace, [metric.name for metric in service.metrics])
    if not status.scaling_active:
        observed = f"{status}, not active ({status.reason})"
        return (
            False,
            f"{observed}: delete the other HPA; with two HPAs neither scales" if status.ambiguous else observed,
        )
    unread = [metric.name for metric in status.metrics if metric.reading is None]
    if unread:
        return False, f"{status}, {', '.join(unread)} has no reading yet"
    wanted = [Decimal(metric.target) for metric in service.metrics]
    as_wanted = [metric.target for metric in status.metrics] == wanted
    return as_wanted, f"{status} at {status.desired} replica(s), ScalingActive"
