"""What the checks read of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import urllib3
from kubernetes import client
from kubernetes.utils.quantity import parse_quantity

from autoscaling.ack.card_modes import GPU_MEMORY, WHOLE_GPU
from autoscaling.ack.node_labels import POOL_LABEL

_TIMEOUT_SECONDS = (5, 30)
"""To connect, and to answer."""
_DEFAULT_WINDOW_SECONDS = 300
"""Kubernetes' own for a scale-down without a `behavior`."""


class ClusterError(Exception):
    """The cluster can't be reached, or refuses the credential; the message is one sentence."""


class BrokenLinkError(Exception):
    """What was asked for is not there or does not answer, in a cluster that does; the message says which."""


def decimal(quantity: str | Decimal) -> str:
    """A quantity as people read it: `19600m` is 19.6, `0` is 0."""
    value = round(Decimal(parse_quantity(quantity)), 2)
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class MetricStatus:
    """A metric of an HPA at one moment."""

    name: str
    reading: Decimal | None
    """Average over the pods, in the metric's unit; None while there is none."""
    target: Decimal

    def __str__(self) -> str:
        reading = "<unknown>" if self.reading is None else decimal(self.reading)
        return f"{reading}/{decimal(self.target)}"


@dataclass(frozen=True)
class HpaStatus:
    """An HPA at one moment."""

    metrics: Sequence[MetricStatus]
    """Those that were asked for, in that order."""
    desired: int
    window_seconds: int
    """How long a lower count must hold before the HPA follows it."""
    scaling_active: bool
    reason: str

    @property
    def ambiguous(self) -> bool:
        """Whether another HPA is on the same pods."""
        return self.reason.startswith("AmbiguousSelector")

    @property
    def reading(self) -> Decimal | None:
        """Of the first metric."""
        return self.metrics[0].reading

    def __str__(self) -> str:
        return ", ".join(str(metric) for metric in self.metrics)


@dataclass(frozen=True)
class Pod:
    """A pod that is not terminating."""

    name: str
    ready: bool
    reason: str
    """Why it is not Ready."""
    spec: client.V1PodSpec = field(repr=False)


class Cluster:
    """Reads the few objects that the checks need.

    Each method raises `ClusterError` where the cluster can't be reached, and `BrokenLinkError` where it has no such
    object.
    """

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self._apps = client.AppsV1Api(api)
        self._core = client.CoreV1Api(api)
        self._registrations = client.ApiregistrationV1Api(api)

    def get(self, path: str) -> dict[str, Any]:
        """A raw GET, for the custom metrics API."""
        response = self._read(
            self._api.call_api,
            path,
            "GET",
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
        )
        try:
            answer: dict[str, Any] = json.loads(response.data)
        except ValueError:
            raise BrokenLinkError(f"the answer to {path.partition('?')[0]} is no JSON") from None
        return answer

    def api_service(self, name: str) -> client.V1APIService:
        """The registration of an aggregated API."""
        return self._read(self._registrations.read_api_service, name)

    def deployment(self, name: str, namespace: str) -> client.V1Deployment:
        """A Deployment."""
        return self._read(self._apps.read_namespaced_deployment, name, namespace)

    def pods(self, deployment: client.V1Deployment) -> list[Pod]:
        """The Deployment's pods, without those that are terminating."""
        return self._pods(deployment.metadata.namespace, selector(deployment))

    def pods_behind(self, service: str, namespace: str) -> list[Pod]:
        """The pods that a Service selects, without those that are terminating."""
        found = self._read(self._core.read_namespaced_service, service, namespace)
        return self._pods(namespace, _joined(found.spec.selector)) if found.spec.selector else []

    def gpu_nodes(self, pool: str) -> list[client.V1Node]:
        """The Ready nodes of a pool that offer whole GPUs, parts of them, or MIG instances."""
        nodes = self._read(self._core.list_node, label_selector=f"{POOL_LABEL}={pool}").items
        return [node for node in nodes if _is_ready(node) and any(map(_is_gpu, node.status.allocatable or {}))]

    def daemon_set(self, name: str, namespace: str) -> client.V1DaemonSet:
        """A DaemonSet."""
        return self._read(self._apps.read_namespaced_daemon_set, name, namespace)

    def pods_of(self, daemon_set: client.V1DaemonSet) -> list[Pod]:
        """The DaemonSet's pods, without those that are terminating."""
        return self._pods(daemon_set.metadata.namespace, selector(daemon_set))

    def config_map(self, name: str, namespace: str) -> dict[str, str]:
        """What a ConfigMap holds."""
        return self._read(self._core.read_namespaced_config_map, name, namespace).data or {}

    def _pods(self, namespace: str, labels: str) -> list[Pod]:
        pods = self._read(self._core.list_namespaced_pod, namespace, label_selector=labels)
        return [_pod(pod) for pod in pods.items if pod.metadata.deletion_timestamp is None]

    def hpa(self, name: str, namespace: str, metrics: Sequence[str]) -> HpaStatus:
        """The HPA's targets for metrics of its pods, and what it saw and decided last."""
        path = f"/apis/autoscaling/{self._hpa_version}/namespaces/{namespace}/horizontalpodautoscalers/{name}"
        hpa = self.get(path)
        spec, status = hpa["spec"], hpa.get("status", {})
        targets, readings = (
            _pod_values(spec.get("metrics"), "target"),
            _pod_values(status.get("currentMetrics"), "current"),
        )
        missing = [metric for metric in metrics if metric not in targets]
        if missing:
            raise BrokenLinkError(f"the HPA has no average value of {', '.join(missing)} of its pods as a target")
        active = next((c for c in status.get("conditions") or [] if c["type"] == "ScalingActive"), None)
        scale_down = (spec.get("behavior") or {}).get("scaleDown") or {}
        window = scale_down.get("stabilizationWindowSeconds")
        return HpaStatus(
            metrics=[MetricStatus(metric, readings.get(metric), targets[metric]) for metric in metrics],
            desired=status.get("desiredReplicas", 0),
            window_seconds=_DEFAULT_WINDOW_SECONDS if window is None else window,
            scaling_active=active is not None and active["status"] == "True",
            reason=f"{active.get('reason')}: {active.get('message')}"
            if active
            else "the controller has not seen it yet",
        )

    @cached_property
    def _hpa_version(self) -> str:
        versions = {one["version"] for one in self.get("/apis/autoscaling")["versions"]}
        # Before 1.23 only v2beta2 says as much as v2.
        return "v2" if "v2" in versions else "v2beta2"

    def _read(self, read: Callable[..., Any], *arguments: str, **options: Any) -> Any:
        host = self._api.configuration.host
        try:
            return read(*arguments, _request_timeout=_TIMEOUT_SECONDS, **options)
        except urllib3.exceptions.HTTPError as error:
            cause = str(getattr(error, "reason", None) or error).rpartition("): ")[2]
            raise ClusterError(
                f"The cluster at {host} can't be reached ({cause}): check KUBECONFIG and the network."
            ) from None
        # Of a header that can't be sent, whose text has the token.
        except ValueError:
            raise ClusterError(
                f"The cluster at {host} can't be asked with this kubeconfig, or its answer can't be read: get a new "
                "kubeconfig."
            ) from None
        except client.ApiException as error:
            if error.status == 401:
                raise ClusterError(
                    f"The cluster at {host} refuses the credential (401): get a new kubeconfig."
                ) from None
            raise BrokenLinkError(_explained(error)) from None


def selector(workload: client.V1Deployment | client.V1DaemonSet) -> str:
    """The workload's selector as a query takes it."""
    return _joined(workload.spec.selector.match_labels)


def _is_ready(node: client.V1Node) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions or [])


def _is_gpu(resource: str) -> bool:
    return resource in (WHOLE_GPU, GPU_MEMORY) or resource.startswith("nvidia.com/mig-")


def _joined(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _pod_values(metrics: list[Any] | None, part: str) -> dict[str, Decimal]:
    """Name and average value of each metric of pods."""
    pods = [metric["pods"] for metric in metrics or [] if "pods" in metric]
    return {
        own["metric"]["name"]: Decimal(parse_quantity(own[part]["averageValue"]))
        for own in pods
        if own[part].get("averageValue") is not None
    }


def _pod(pod: client.V1Pod) -> Pod:
    conditions = {condition.type: condition for condition in pod.status.conditions or []}
    ready = "Ready" in conditions and conditions["Ready"].status == "True"
    scheduled = conditions.get("PodScheduled")
    waiting = [s.state.waiting for s in pod.status.container_statuses or [] if s.state and s.state.waiting]
    if scheduled is not None and scheduled.status != "True":
        reason = f"{scheduled.reason}: {scheduled.message}"
    elif waiting:
        reason = ": ".join(part for part in (waiting[0].reason, waiting[0].message) if part)
    else:
        reason = pod.status.phase
    return Pod(pod.metadata.name, ready, reason, pod.spec)


def _explained(error: client.ApiException) -> str:
    # The API server answers 503 in the place of an aggregated API whose server is down.
    if error.status == 503:
        return "the adapter does not answer (503)"
    said = "not found" if error.status == 404 else f"the API server says {error.reason}"
    try:
        return f"{said} ({error.status}): {json.loads(error.body)['message']}"
    except (ValueError, KeyError, TypeError):
        return f"{said} ({error.status})"
