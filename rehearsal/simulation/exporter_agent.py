"""The simulated agent of Managed Prometheus: it installs the GPU exporter as a DaemonSet on the GPU nodes.

Kubernetes' own controller and scheduler place its pods. As on ACK, the DaemonSet does not tolerate a pool's taints,
keeps tolerations that were added by hand, and leaves its namespace behind.
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
_ON_GPUS = {"matchExpressions": [{"key": COUNT_LABEL, "operator": "Exists"}]}
_DAEMON_SET: Any = {
    "metadata": {"name": EXPORTER_NAME, "labels": _LABELS},
    "spec": {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_ON_GPUS]}
                    }
                },
                "containers": [{"name": "node-gpu-exporter", "image": "rehearsal.ackgpu/gpu-exporter:0"}],
            },
        },
    },
}


class ExporterAgent:
    """Keeps the exporter in the cluster while the cluster has a Prometheus instance."""

    def __init__(self, cluster: ClusterCopy, store: CloudStore) -> None:
        self._cluster = cluster
        self._store = store
        self._installed = False

    async def reconcile(self) -> None:
        """Install or remove the exporter."""
        wanted = self._store.read().prometheus() is not None
        if wanted != self._installed:
            await asyncio.to_thread(self._install if wanted else self._remove)
            self._installed = wanted

    def _install(self) -> None:
        namespace: Any = {"metadata": {"name": EXPORTER_NAMESPACE}}
        _unless(409, lambda: self._cluster.core.create_namespace(namespace))
        _unless(409, lambda: self._cluster.apps.create_namespaced_daemon_set(EXPORTER_NAMESPACE, _DAEMON_SET))

    def _remove(self) -> None:
        _unless(404, lambda: self._cluster.apps.delete_namespaced_daemon_set(EXPORTER_NAME, EXPORTER_NAMESPACE))


def exporting_nodes(pods: list[Object]) -> set[str]:
    """Return the names of the nodes with a running exporter."""
    return {
        pod["spec"]["nodeName"]
        for pod in pods
        if pod["metadata"]["namespace"] == EXPORTER_NAMESPACE
        and _LABELS.items() <= pod["metadata"].get("labels", {}).items()
        and is_serving(pod)
    }


def _unless(status: int, act: Callable[[], object]) -> None:
    try:
        act()
    except client.ApiException as error:
        if error.status != status:
            raise
