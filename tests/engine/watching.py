"""Every state that a service's Deployment and HPA go through, and not only those that a sample meets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import urllib3
from kubernetes import client, watch

from live.verify import ServiceOutputs


class Watching:
    """Watches while its `with` block runs."""

    def __init__(self, api: client.ApiClient, service: ServiceOutputs) -> None:
        apps, autoscaling = client.AppsV1Api(api), client.AutoscalingV2Api(api)
        self.replicas: list[int] = []
        """That the Deployment is asked for."""
        self.scaling_active: list[str] = []
        """Status of the HPA's condition."""
        self._watches: list[watch.Watch] = []
        self._ended = threading.Event()
        self._threads = [
            self._thread(apps.list_namespaced_deployment, service.namespace, service.deployment, self._deployment),
            self._thread(
                autoscaling.list_namespaced_horizontal_pod_autoscaler, service.namespace, service.hpa, self._hpa
            ),
        ]

    def __enter__(self) -> Watching:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for one in self._watches:
            one.stop()
        for thread in self._threads:
            thread.join()

    def _thread(self, listed: Any, namespace: str, name: str, note: Callable[[Any], None]) -> threading.Thread:
        watched = watch.Watch()
        self._watches.append(watched)

        def run() -> None:
            try:
                for event in watched.stream(listed, namespace, field_selector=f"metadata.name={name}"):
                    note(event["object"])
            except urllib3.exceptions.ProtocolError:
                # So an interrupted stream ends.
                if not self._ended.is_set():
                    raise

        return threading.Thread(target=run, name=f"watch of {name}", daemon=True)

    def _deployment(self, deployment: client.V1Deployment) -> None:
        self.replicas.append(deployment.spec.replicas)

    def _hpa(self, hpa: client.V2HorizontalPodAutoscaler) -> None:
        conditions = (hpa.status.conditions if hpa.status else None) or []
        self.scaling_active += [one.status for one in conditions if one.type == "ScalingActive"]
