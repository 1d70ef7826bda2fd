"""Record every state of a service's Deployment and HPA, including states that polling misses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import urllib3
from kubernetes import client, watch

from live.verify import ServiceOutputs


class ServiceWatch:
    """A watch that runs during the `with` block."""

    def __init__(self, api: client.ApiClient, service: ServiceOutputs) -> None:
        apps, autoscaling = client.AppsV1Api(api), client.AutoscalingV2Api(api)
        self.replicas: list[int] = []
        """Each replica count in the Deployment's spec."""
        self.scaling_active: list[str] = []
        """Each status of the HPA's condition `ScalingActive`."""
        self._watchers: list[watch.Watch] = []
        self._ended = threading.Event()
        self._threads = [
            self._thread(
                apps.list_namespaced_deployment, service.namespace, service.deployment, self._record_deployment
            ),
            self._thread(
                autoscaling.list_namespaced_horizontal_pod_autoscaler, service.namespace, service.hpa, self._record_hpa
            ),
        ]

    def __enter__(self) -> ServiceWatch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        for watcher in self._watchers:
            watcher.stop()
        for thread in self._threads:
            thread.join()

    def _thread(self, list_objects: Any, namespace: str, name: str, record: Callable[[Any], None]) -> threading.Thread:
        watcher = watch.Watch()
        self._watchers.append(watcher)

        def run() -> None:
            try:
                for event in watcher.stream(list_objects, namespace, field_selector=f"metadata.name={name}"):
                    record(event["object"])
            except urllib3.exceptions.ProtocolError:
                # Stopping the watch interrupts the stream.
                if not self._ended.is_set():
                    raise

        return threading.Thread(target=run, name=f"watch of {name}", daemon=True)

    def _record_deployment(self, deployment: client.V1Deployment) -> None:
        self.replicas.append(deployment.spec.replicas)

    def _record_hpa(self, hpa: client.V2HorizontalPodAutoscaler) -> None:
        conditions = (hpa.status.conditions if hpa.status else None) or []
        self.scaling_active += [condition.status for condition in conditions if condition.type == "ScalingActive"]
