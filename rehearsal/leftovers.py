"""Finds what a destroyed stack and an ended cloud left behind."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import asdict

import psutil
from kubernetes import client

from autoscaling.ack.node_labels import POOL_LABEL
from rehearsal.alicloud.store import CloudStore
from rehearsal.layout import PORTS, Layout
from rehearsal.processes import strays

_METRICS_GROUPS = ("custom.metrics.k8s.io", "external.metrics.k8s.io")


def cluster_leftovers(layout: Layout, api: client.ApiClient) -> list[str]:
    """List APIServices, Helm releases, GPU nodes, workloads and cloud resources that outlived the stack."""
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    services = client.ApiregistrationV1Api(api).list_api_service().items
    releases = core.list_secret_for_all_namespaces(field_selector="type=helm.sh/release.v1").items
    balancers = core.list_service_for_all_namespaces().items
    budgets = client.PolicyV1Api(api).list_pod_disruption_budget_for_all_namespaces().items
    autoscalers = client.AutoscalingV2Api(api).list_horizontal_pod_autoscaler_for_all_namespaces().items
    return [
        *(f"APIService {item.metadata.name}" for item in services if item.spec.group in _METRICS_GROUPS),
        *(f"Helm release {item.metadata.name}" for item in releases),
        *(f"node {item.metadata.name}" for item in core.list_node(label_selector=POOL_LABEL).items),
        *(f"Deployment {item.metadata.name}" for item in apps.list_deployment_for_all_namespaces().items),
        *(f"Service {item.metadata.name}" for item in balancers if item.spec.type == "LoadBalancer"),
        *(f"PodDisruptionBudget {item.metadata.name}" for item in budgets),
        *(f"HPA {item.metadata.name}" for item in autoscalers),
        *(f"cloud resource {name}" for name in CloudStore(layout.store).read().resources),
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
    for process in strays(layout):
        # The process may end meanwhile.
        with contextlib.suppress(psutil.NoSuchProcess):
            yield f"process {process.pid} {process.name()}"


def _answers(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((address, port)) == 0
