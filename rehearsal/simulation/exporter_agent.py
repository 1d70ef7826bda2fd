"""The simulated agent of Managed Prometheus, which installs the GPU exporter as a DaemonSet on the GPU nodes.

The real controller and scheduler place its pods. As on ACK, the DaemonSet does not tolerate a pool's taints but keeps
tolerations that were added by hand, and the namespace remains after removal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kubernetes import client

from autoscaling.ack.versions import EXPORTER_NAME, EXPORTER_NAMESPACE
from live.cluster_client import Object
from rehearsal.alicloud.store import CloudStore
from rehearsal.simulation.cards import COUNT_LABEL
from rehearsal.simulation.cluster_copy import ClusterCopy, is_serving

_LABELS = {"k8s-app": EXPORTER_NAME}
_GPU_NODES = {"matchExpressions": [{"key": COUNT_LABEL, "operator": "Exists"}]}
_DAEMON_SET: Any = {
    "metadata": {"name": EXPORTER_NAME, "labels": _LABELS},
    "spec": {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_GPU_NODES]}
                    }
                },
                "containers": [{"name": "node-gpu-exporter", "image": "rehearsal.ackgpu/gpu-exporter:0"}],
            },
        },
    },
}


class ExporterAgent:
    """Keep the exporter installed while the cluster has a Prometheus instance."""

    def __init__(self, cluster: ClusterCopy, store: CloudStore) -> None:
        self._cluster = cluster
        self._store = store
        self._installed = False

    async def reconcile(self) -> None:
        """Install or remove the exporter."""
        needed = self._store.read().prometheus() is not None
        if needed != self._installed:
            await asyncio.to_thread(self._install if needed else self._remove)
            self._installed = needed

    def _install(self) -> None:
        namespace: Any = {"metadata": {"name": EXPORTER_NAMESPACE}}
        _ignore_status(409, lambda: self._cluster.core.create_namespace(namespace))
        _ignore_status(409, lambda: self._cluster.apps.create_namespaced_daemon_set(EXPORTER_NAMESPACE, _DAEMON_SET))

    def _remove(self) -> None:
        _ignore_status(404, lambda: self._cluster.apps.delete_namespaced_daemon_set(EXPORTER_NAME, EXPORTER_NAMESPACE))


def exporting_nodes(pods: list[Object]) -> set[str]:
    """Return the names of the nodes with a running exporter."""
    return {
        pod["spec"]["nodeName"]
        for pod in pods
        if pod["metadata"]["namespace"] == EXPORTER_NAMESPACE
        and _LABELS.items() <= pod["metadata"].get("labels", {}).items()
        and is_serving(pod)
    }


def _ignore_status(status: int, act: Callable[[], object]) -> None:
    try:
        act()
    except client.ApiException as error:
        if error.status != status:
            raise
