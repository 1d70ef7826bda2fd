"""Find leftovers of a destroyed stack and of a stopped cloud."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import asdict

import psutil

from autoscaling.ack.node_labels import POOL_LABEL
from live.cluster_client import connected
from rehearsal.alicloud.store import CloudStore
from rehearsal.layout import PORTS, Layout
from rehearsal.processes import stray_processes

_KINDS = {
    "Helm release": "/api/v1/secrets?fieldSelector=type=helm.sh/release.v1",
    "node": f"/api/v1/nodes?labelSelector={POOL_LABEL}",
    "Deployment": "/apis/apps/v1/deployments",
    "PodDisruptionBudget": "/apis/policy/v1/poddisruptionbudgets",
    "HPA": "/apis/autoscaling/v2/horizontalpodautoscalers",
}
_METRICS_GROUPS = ("custom.metrics.k8s.io", "external.metrics.k8s.io")


def cluster_leftovers(layout: Layout) -> list[str]:
    """List APIServices, Helm releases, GPU nodes, workloads and cloud resources that outlived the stack."""
    # The account's credential is revoked if the stack deleted its own cluster.
    with connected(layout.own_kubeconfig.read_text()) as client:
        found = [(kind, item) for kind, path in _KINDS.items() for item in client.list_objects(path)]
        services = client.list_objects("/apis/apiregistration.k8s.io/v1/apiservices")
        found += [("APIService", item) for item in services if item["spec"].get("group") in _METRICS_GROUPS]
        balancers = client.list_objects("/api/v1/services")
        found += [("Service", item) for item in balancers if item["spec"]["type"] == "LoadBalancer"]
    resources = CloudStore(layout.store).read().resources
    return [
        *(f"{kind} {item['metadata']['name']}" for kind, item in found),
        *(f"cloud resource {name}" for name in resources),
    ]


def machine_leftovers(layout: Layout) -> list[str]:
    """List processes, ports and files that outlived the cloud."""
    return [
        *_processes(layout),
        *(f"port {port} ({name})" for name, port in asdict(PORTS).items() if _answers(layout.address, port)),
        *(["the API server's intranet address"] if _answers(layout.intranet_address, PORTS.api_server) else []),
        *([f"folder {layout.cloud.relative_to(layout.checkout)}"] if layout.cloud.exists() else []),
    ]


def _processes(layout: Layout) -> Iterator[str]:
    for process in stray_processes(layout):
        # The process may have ended since.
        with contextlib.suppress(psutil.NoSuchProcess):
            yield f"process {process.pid} {process.name()}"


def _answers(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((address, port)) == 0
