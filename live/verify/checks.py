"""The guide's checks, from the APIService to the HPA. Each depends on the checks before it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal

import urllib3

from autoscaling.ack.versions import ADAPTER_SERVICE, REPLACE_ADAPTER
from autoscaling.metrics.rule_drift import drift
from autoscaling.quantity import decimal
from live.cluster_client import ClusterClient, Object
from live.other_owners import owner_of
from live.verify.adapter import likely_cause, mounted_rules, ready_pod, running_adapter
from live.verify.cluster_reader import BrokenLinkError, ClusterReader, Pod, condition, selector
from live.verify.diagnosis import why_no_value
from live.verify.exporter import EXPORTER, missing_exporter
from live.verify.outputs import ServiceOutputs, StackOutputs
from live.verify.prometheus import web
from live.verify.steps import Step

_RESPONSE_SECONDS = 30


def check_stack(outputs: StackOutputs, client: ClusterClient) -> Iterator[Step]:
    """Run every check once. A part that can't be reached is a failed step, not an error.

    Raises:
        UnreachableError: the cluster itself can't be reached, or refuses the credential.
    """
    checks = _Checks(outputs, client)
    yield checks.registered()
    if outputs.adapter_rules is not None:
        yield checks.rules_unchanged(outputs.adapter_rules)
    if outputs.monitored_node_pool_id:
        yield checks.exporter_runs(outputs.monitored_node_pool_id)
    # Without services, the adapter has no pod series to list.
    if outputs.services:
        yield checks.metrics_listed(outputs.metric_resources)
    for service in outputs.services:
        yield checks.pods_ready(service)
        for metric in service.metrics:
            yield checks.values_served(metric.name, service)
        yield _response(service)
        yield checks.autoscaler_active(service)


def broken_link(outputs: StackOutputs, client: ClusterClient) -> Step | None:
    """Return the first failed step, causes first; None if each HPA reads its metric.

    Do not call the services: their addresses may be unreachable from this machine.

    Raises:
        UnreachableError: see `check_stack`.
    """
    return next((step for step in _causes_first(outputs, _Checks(outputs, client)) if not step.ok), None)


def _causes_first(outputs: StackOutputs, checks: _Checks) -> Iterator[Step]:
    yield checks.registered()
    active = {service.hpa_path: checks.autoscaler_active(service) for service in outputs.services}
    failing = [service for service in outputs.services if not active[service.hpa_path].ok]
    # An HPA's status may be out of date, so also read each metric's values for a single service. Reading all services
    # would take too long: the adapter needs a second for each.
    samples = {metric.name: service for service in outputs.services for metric in service.metrics}
    checked = failing or [service for service in outputs.services if service in samples.values()]
    for service in checked:
        yield checks.pods_ready(service)
    names = {metric.name for service in checked for metric in service.metrics}
    yield checks.metrics_listed(sorted(f"pods/{name}" for name in names))
    for service in checked:
        for metric in service.metrics:
            if failing or samples[metric.name] == service:
                yield checks.values_served(metric.name, service)
        yield active[service.hpa_path]


class _Checks:
    """Each check of a link, as a step."""

    def __init__(self, outputs: StackOutputs, client: ClusterClient) -> None:
        self._outputs = outputs
        self._cluster = ClusterReader(client)

    def registered(self) -> Step:
        return _guarded("custom metrics API", "available", self._available)

    def rules_unchanged(self, expected: Mapping[str, str]) -> Step:
        return _guarded("adapter rules", f"the stack's {len(expected)} rules", lambda: self._rules(expected))

    def exporter_runs(self, node_pool: str) -> Step:
        expected = f"a Ready pod of {EXPORTER} on each GPU node"
        return _guarded("GPU exporter", expected, lambda: self._exporter(node_pool))

    def metrics_listed(self, wanted: Sequence[str]) -> Step:
        return _guarded("metrics listed", ", ".join(wanted), lambda: self._listed(wanted))

    def pods_ready(self, service: ServiceOutputs) -> Step:
        name = f"pods of {service.namespace}/{service.name}"
        return _guarded(name, "all replicas Ready", lambda: self._pods(service))

    def values_served(self, metric: str, service: ServiceOutputs) -> Step:
        name = f"{metric} of {service.namespace}/{service.name}"
        return _guarded(name, "a value for each Ready pod", lambda: self._values(metric, service))

    def autoscaler_active(self, service: ServiceOutputs) -> Step:
        targets = " and ".join(metric.target for metric in service.metrics)
        expected = f"a target of {targets}, ScalingActive"
        return _guarded(f"HPA {service.hpa_path}", expected, lambda: self._hpa(service))

    def _api_service(self) -> Object:
        group, version = self._outputs.custom_metrics_path.removeprefix("/apis/").split("/")
        return self._cluster.api_service(f"{version}.{group}")

    def _available(self) -> tuple[bool, str]:
        api_service = self._api_service()
        owner = owner_of(api_service)
        if owner != ADAPTER_SERVICE:
            return False, (
                f"the APIService belongs to {owner}, not to {ADAPTER_SERVICE}: only a single adapter can serve this "
                "API, so uninstall the other adapter"
            )
        available = condition(api_service, "Available")
        if available.get("status") == "True":
            return True, f"available, served by {owner}"
        # Raises if the adapter is down.
        ready_pod(self._cluster, api_service)
        if not available:
            return False, f"{owner} is not available (no condition yet)"
        message = available.get("message", "")
        cause = likely_cause(message, self._allowed_names())
        observed = f"{owner} is not available ({available.get('reason')}: {message})"
        return False, f"{observed}: {cause}" if cause else observed

    def _allowed_names(self) -> list[str]:
        """Return the published common names of the control plane's client certificate; empty: any."""
        with contextlib.suppress(BrokenLinkError, KeyError, ValueError):
            published = self._cluster.config_map("extension-apiserver-authentication", "kube-system")
            names: list[str] = json.loads(published["requestheader-allowed-names"])
            return names
        return []

    def _rules(self, expected: Mapping[str, str]) -> tuple[bool, str]:
        differences = list(drift(expected, mounted_rules(self._cluster, self._api_service())))
        if not differences:
            return True, "the same rules"
        # Pulumi does not compare the objects of a release, so it sees no change.
        return False, f"{'; '.join(differences)}: `{REPLACE_ADAPTER}` restores them"

    def _listed(self, wanted: Sequence[str]) -> tuple[bool, str]:
        listed = {resource["name"] for resource in self._cluster.get(self._outputs.custom_metrics_path)["resources"]}
        missing = [name for name in wanted if name not in listed]
        if missing:
            why = self._why_no_value(missing[0].partition("/")[2])
            return False, f"not listed: {', '.join(missing)}; {why}"
        return True, f"all {len(wanted)} listed"

    def _exporter(self, node_pool: str) -> tuple[bool, str]:
        gap = missing_exporter(self._cluster, node_pool)
        nodes = len(self._cluster.gpu_nodes(node_pool))
        return gap is None, gap or (f"on {nodes} of {nodes} node(s)" if nodes else "the pool has no GPU nodes now")

    def _why_no_value(self, metric: str, pods: Sequence[Pod] = ()) -> str:
        def gap() -> str | None:
            pool = self._outputs.monitored_node_pool_id
            try:
                return pool and missing_exporter(self._cluster, pool, {pod.node for pod in pods if pod.node})
            except BrokenLinkError as error:
                return str(error)

        adapter = running_adapter(self._cluster, self._api_service())
        return why_no_value(metric, adapter, [pod.name for pod in pods], gap)

    def _pods(self, service: ServiceOutputs) -> tuple[bool, str]:
        deployment = self._cluster.deployment(service.deployment, service.namespace)
        pods = self._cluster.pods_of(deployment)
        ready = sum(pod.ready for pod in pods)
        wanted = deployment["spec"]["replicas"]
        if wanted == 0:
            return False, (
                "the Deployment was scaled to 0, and an HPA does not scale up from 0. Run `kubectl scale "
                f"-n {service.namespace} deployment {service.deployment} --replicas={service.min_replicas}`"
            )
        observed = f"{ready} of {wanted} Ready"
        waiting = next((pod for pod in pods if not pod.ready), None)
        if waiting:
            observed += f"; {waiting.name} is not Ready ({waiting.reason})"
        return ready > 0 and ready == wanted, observed

    def _values(self, metric: str, service: ServiceOutputs) -> tuple[bool, str]:
        path = f"{self._outputs.custom_metrics_path}/namespaces/{service.namespace}/pods/*/{metric}"
        deployment = self._cluster.deployment(service.deployment, service.namespace)
        ready = {pod.name: pod for pod in self._cluster.pods_of(deployment) if pod.ready}
        items = self._cluster.get(path, labelSelector=selector(deployment))["items"]
        values = {item["describedObject"]["name"]: decimal(item["value"]) for item in items}
        missing = [pod for pod in ready if pod not in values]
        if missing:
            why = self._why_no_value(metric, [ready[pod] for pod in missing])
            return False, f"no value for {', '.join(missing)}; {why}"
        return bool(ready), ", ".join(f"{pod}={values[pod]}" for pod in ready) or "no pod is Ready"

    def _hpa(self, service: ServiceOutputs) -> tuple[bool, str]:
        status = self._cluster.hpa(service.hpa, service.namespace, [metric.name for metric in service.metrics])
        if not status.scaling_active:
            observed = f"{status}, not active ({status.reason})"
            # Another HPA selects the same pods.
            if status.reason.startswith("AmbiguousSelector"):
                observed += ": delete the other HPA; a Deployment with two HPAs is not scaled"
            return False, observed
        unread = [metric.name for metric in status.metrics if metric.reading is None]
        if unread:
            return False, f"{status}; no reading yet for {', '.join(unread)}"
        wanted = [Decimal(metric.target) for metric in service.metrics]
        matches = [metric.target for metric in status.metrics] == wanted
        return matches, f"{status} at {status.desired} replica(s), ScalingActive"


def _guarded(name: str, expected: str, check: Callable[[], tuple[bool, str]]) -> Step:
    try:
        ok, observed = check()
    except BrokenLinkError as error:
        return Step(name, expected, str(error), False)
    return Step(name, expected, observed, ok)


def _response(service: ServiceOutputs) -> Step:
    name, expected = f"GET {service.predict_url}", f"200 {service.answer}".rstrip()
    try:
        response = web().request("GET", service.predict_url, timeout=_RESPONSE_SECONDS)
    except urllib3.exceptions.HTTPError as error:
        return Step(name, expected, f"no response ({str(error) or type(error).__name__})", False)
    body = response.data.decode(errors="replace").strip()
    ok = response.status == 200 and service.answer in ("", body)
    shown = service.answer if ok else body[:80]
    return Step(name, expected, f"{response.status} {shown}".rstrip(), ok)
