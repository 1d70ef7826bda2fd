"""Read the cluster objects that the checks need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from autoscaling.ack.card_modes import GPU_MEMORY, WHOLE_GPU
from autoscaling.ack.node_labels import POOL_LABEL
from autoscaling.quantity import decimal, parse_quantity
from live.cluster_client import ClusterClient, Object, Response, object_in

_DEFAULT_WINDOW_SECONDS = 300
"""Kubernetes' default for a scale-down without a `behavior`."""


class BrokenLinkError(Exception):
    """An object is missing or can't be read, although the cluster responds."""


@dataclass(frozen=True)
class MetricStatus:
    """A metric of an HPA and its last reading."""

    name: str
    reading: Decimal | None
    """Average over the pods, in the metric's unit; None before the first reading."""
    target: Decimal

    def __str__(self) -> str:
        reading = "<unknown>" if self.reading is None else decimal(self.reading)
        return f"{reading}/{decimal(self.target)}"


@dataclass(frozen=True)
class HpaStatus:
    """Targets, last readings and last decision of an HPA."""

    metrics: Sequence[MetricStatus]
    """In the requested order."""
    desired: int
    window_seconds: int
    """How long a lower count must last before the HPA scales down."""
    scaling_active: bool
    reason: str

    @property
    def reading(self) -> Decimal | None:
        """Reading of the first metric."""
        return self.metrics[0].reading

    def __str__(self) -> str:
        return ", ".join(str(metric) for metric in self.metrics)


@dataclass(frozen=True)
class Pod:
    """A pod that is not terminating."""

    name: str
    ready: bool
    reason: str
    """Reason why it is not Ready."""
    namespace: str
    spec: Object = field(repr=False)

    @property
    def node(self) -> str | None:
        """The node that runs the pod."""
        return self.spec.get("nodeName")


class ClusterReader:
    """Reads single objects and short lists.

    Each method raises `UnreachableError` if the cluster can't be reached, and `BrokenLinkError` if the object does not
    exist.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def get(self, path: str, **query: str) -> Object:
        """Read any path, such as a path of the custom metrics API."""
        response = self._client.request("GET", f"{path}?{urlencode(query)}" if query else path)
        if response.status >= 300:
            raise BrokenLinkError(_explain(response))
        try:
            return object_in(response)
        except ValueError:
            raise BrokenLinkError(f"the response to {path} is not a JSON object") from None

    def api_service(self, name: str) -> Object:
        """Read an APIService."""
        return self.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}")

    def deployment(self, name: str, namespace: str) -> Object:
        """Read a Deployment."""
        return self.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")

    def daemon_set(self, name: str, namespace: str) -> Object:
        """Read a DaemonSet."""
        return self.get(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")

    def config_map(self, name: str, namespace: str) -> Mapping[str, str]:
        """Read the content of a ConfigMap."""
        return self.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}").get("data") or {}

    def pods_of(self, workload: Object) -> list[Pod]:
        """List the pods of a Deployment or a DaemonSet, without terminating ones."""
        return self._pods(workload["metadata"]["namespace"], selector(workload))

    def pods_behind(self, service: str, namespace: str) -> list[Pod]:
        """List the pods that a Service selects, without terminating ones."""
        labels = self.get(f"/api/v1/namespaces/{namespace}/services/{service}")["spec"].get("selector")
        return self._pods(namespace, _label_query(labels)) if labels else []

    def gpu_nodes(self, pool: str) -> list[Object]:
        """List a pool's Ready nodes that offer whole GPUs, shared GPUs or MIG instances."""
        nodes = self.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={pool}")["items"]
        return [node for node in nodes if _is_ready(node) and _has_gpus(node)]

    def hpa(self, name: str, namespace: str, metrics: Sequence[str]) -> HpaStatus:
        """Read an HPA and the given metrics."""
        path = f"/apis/autoscaling/{self._hpa_version}/namespaces/{namespace}/horizontalpodautoscalers/{name}"
        hpa = self.get(path)
        spec, status = hpa["spec"], hpa.get("status") or {}
        targets = _pod_values(spec.get("metrics"), "target")
        readings = _pod_values(status.get("currentMetrics"), "current")
        missing = [metric for metric in metrics if metric not in targets]
        if missing:
            raise BrokenLinkError(f"the HPA has no averageValue target for the pod metric {', '.join(missing)}")
        active = condition(hpa, "ScalingActive")
        scale_down = (spec.get("behavior") or {}).get("scaleDown") or {}
        window = scale_down.get("stabilizationWindowSeconds")
        return HpaStatus(
            metrics=[MetricStatus(metric, readings.get(metric), targets[metric]) for metric in metrics],
            desired=status.get("desiredReplicas", 0),
            window_seconds=_DEFAULT_WINDOW_SECONDS if window is None else window,
            scaling_active=active.get("status") == "True",
            reason=_reason(active) if active else "the controller has not processed it yet",
        )

    def _pods(self, namespace: str, labels: str) -> list[Pod]:
        pods = self.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=labels)["items"] or ()
        return [_pod(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    @cached_property
    def _hpa_version(self) -> str:
        versions = {served["version"] for served in self.get("/apis/autoscaling")["versions"]}
        # Kubernetes 1.22 and older have v2beta2 only.
        return "v2" if "v2" in versions else "v2beta2"


def selector(workload: Object) -> str:
    """Return the selector of a Deployment or a DaemonSet, as a query parameter."""
    return _label_query(workload["spec"]["selector"].get("matchLabels") or {})


def condition(found: Object, kind: str) -> Object:
    """Return a condition from an object's status, or an empty object."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == kind), {})


def _is_ready(found: Object) -> bool:
    return condition(found, "Ready").get("status") == "True"


def _has_gpus(node: Object) -> bool:
    resources = node["status"].get("allocatable") or ()
    return any(name in (WHOLE_GPU, GPU_MEMORY) or name.startswith("nvidia.com/mig-") for name in resources)


def _label_query(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _pod_values(metrics: Sequence[Any] | None, part: str) -> dict[str, Decimal]:
    """Return the average value of each pod metric by name."""
    pods = [metric["pods"] for metric in metrics or [] if "pods" in metric]
    return {
        source["metric"]["name"]: parse_quantity(source[part]["averageValue"])
        for source in pods
        if source[part].get("averageValue") is not None
    }


def _pod(pod: Object) -> Pod:
    status = pod["status"]
    scheduled = condition(pod, "PodScheduled")
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    waiting = next((state["waiting"] for state in states if state.get("waiting")), None)
    if scheduled.get("status", "True") != "True":
        reason = _reason(scheduled)
    elif waiting:
        reason = ": ".join(part for part in (waiting.get("reason"), waiting.get("message")) if part)
    else:
        reason = status.get("phase", "no phase yet")
    return Pod(pod["metadata"]["name"], _is_ready(pod), reason, pod["metadata"]["namespace"], pod.get("spec") or {})


def _reason(condition: Object) -> str:
    return f"{condition.get('reason')}: {condition.get('message')}"


def _explain(response: Response) -> str:
    # The API server responds with 503 if the server of an aggregated API is down.
    if response.status == 503:
        return "the adapter does not respond (503)"
    summary = "not found" if response.status == 404 else f"the API server responds with {response.reason}"
    try:
        return f"{summary} ({response.status}): {object_in(response)['message']}"
    except (ValueError, KeyError):
        return f"{summary} ({response.status})"
