"""What the vendor's Prometheus agent brings into a cluster: the GPU exporter, as a DaemonSet on the GPU nodes.

Kubernetes' own controller and scheduler place its pods. As on ACK it tolerates no taint of a pool, a toleration that
was added by hand stays, and its namespace outlives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubernetes import client

from autoscaling.ack.versions import EXPORTER_NAME, EXPORTER_NAMESPACE
from rehearsal.alicloud.store import CloudStore
from rehearsal.simulation.cards import COUNT_LABEL
from rehearsal.simulation.watch import Cluster, Object, is_serving

_LABELS = {"k8s-app": EXPORTER_NAME}


class ExporterAgent:
    """Keeps the exporter in the cluster for as long as it has a Prometheus instance."""

    def __init__(self, cluster: Cluster, store: CloudStore) -> None:
        self._cluster = cluster
        self._store = store
        self._installed = False

    async def reconcile(self) -> None:
        """One round: install or remove the exporter."""
        wanted = self._store.read().prometheus() is not None
        if wanted != self._installed:
            await asyncio.to_thread(self._install if wanted else self._remove)
            self._installed = wanted

    def _install(self) -> None:
        namespace = client.V1Namespace(metadata=client.V1ObjectMeta(name=EXPORTER_NAMESPACE))
        _unless(409, lambda: self._cluster.core.create_namespace(namespace))
        _unless(409, lambda: self._cluster.apps.create_namespaced_daemon_set(EXPORTER_NAMESPACE, _daemon_set()))

    def _remove(self) -> None:
        _unless(404, lambda: self._cluster.apps.delete_namespaced_daemon_set(EXPORTER_NAME, EXPORTER_NAMESPACE))


def exporting_nodes(pods: list[Object]) -> set[str]:
    """Names of the nodes on which an exporter runs."""
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


def _daemon_set() -> client.V1DaemonSet:
    on_gpus = client.V1NodeSelectorTerm(
        match_expressions=[client.V1NodeSelectorRequirement(key=COUNT_LABEL, operator="Exists")]
    )
    affinity = client.V1Affinity(
        node_affinity=client.V1NodeAffinity(
            required_during_scheduling_ignored_during_execution=client.V1NodeSelector(node_selector_terms=[on_gpus])
        )
    )
    container = client.V1Container(name="node-gpu-exporter", image="rehearsal.ackgpu/gpu-exporter:0")
    return client.V1DaemonSet(
        metadata=client.V1ObjectMeta(name=EXPORTER_NAME, labels=_LABELS),
        spec=client.V1DaemonSetSpec(
            selector=client.V1LabelSelector(match_labels=_LABELS),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=_LABELS),
                spec=client.V1PodSpec(affinity=affinity, containers=[container]),
            ),
        ),
    )
