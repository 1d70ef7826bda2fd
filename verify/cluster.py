"""What the checks read of a cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kubernetes import client
from kubernetes.utils.quantity import parse_quantity


def decimal(quantity: str | Decimal) -> str:
    """A quantity as people read it: `19600m` is 19.6, `0` is 0."""
    value = round(Decimal(parse_quantity(quantity)), 2)
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(frozen=True)
class HpaStatus:
    """An HPA at one moment."""

    reading: Decimal | None
    """The metric's average over the pods, in its unit; None while there is none."""
    target: Decimal
    desired: int
    window_seconds: int
    """How long a lower count must hold before the HPA follows it."""
    scaling_active: bool
    reason: str

    def __str__(self) -> str:
        reading = "<unknown>" if self.reading is None else decimal(self.reading)
        return f"{reading}/{decimal(self.target)}"


class Cluster:
    """Reads the few objects that the checks need."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self._apps = client.AppsV1Api(api)
        self._core = client.CoreV1Api(api)
        self._autoscaling = client.AutoscalingV2Api(api)
        self._registrations = client.ApiregistrationV1Api(api)

    def get(self, path: str) -> dict[str, Any]:
        """A raw GET, for the custom metrics API.

        Raises:
            ApiException: with the server's status.
        """
        response = self._api.call_api(
            path,
            "GET",
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
        )
        answer: dict[str, Any] = json.loads(response.data)
        return answer

    def api_service(self, name: str) -> client.V1APIService:
        """The registration of an aggregated API."""
        return self._registrations.read_api_service(name)

    def deployment(self, name: str, namespace: str) -> client.V1Deployment:
        """A Deployment."""
        return self._apps.read_namespaced_deployment(name, namespace)

    def ready_pods(self, deployment: client.V1Deployment) -> list[str]:
        """Names of the Deployment's pods that are Ready and not terminating."""
        pods = self._core.list_namespaced_pod(deployment.metadata.namespace, label_selector=selector(deployment))
        return [
            pod.metadata.name
            for pod in pods.items
            if pod.metadata.deletion_timestamp is None
            and any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or [])
        ]

    def hpa(self, name: str, namespace: str) -> HpaStatus:
        """The HPA's target, and what it saw and decided last."""
        hpa = self._autoscaling.read_namespaced_horizontal_pod_autoscaler(name, namespace)
        active = next((c for c in hpa.status.conditions or [] if c.type == "ScalingActive"), None)
        readings = [
            metric.pods.current.average_value
            for metric in hpa.status.current_metrics or []
            if metric.pods and metric.pods.current.average_value is not None
        ]
        behavior = hpa.spec.behavior
        window = behavior.scale_down.stabilization_window_seconds if behavior and behavior.scale_down else None
        return HpaStatus(
            reading=Decimal(parse_quantity(readings[0])) if readings else None,
            target=Decimal(parse_quantity(hpa.spec.metrics[0].pods.target.average_value)),
            desired=hpa.status.desired_replicas,
            # Kubernetes' default
            window_seconds=300 if window is None else window,
            scaling_active=active is not None and active.status == "True",
            reason=f"{active.reason}: {active.message}" if active else "the controller has not seen it yet",
        )


def selector(deployment: client.V1Deployment) -> str:
    """The Deployment's selector as a query takes it."""
    labels: dict[str, str] = deployment.spec.selector.match_labels
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
