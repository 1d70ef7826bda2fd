"""Simulated scaling groups and cluster autoscaler: create kwok nodes for the node pools of the account.

A fixed pool has its desired size. An autoscaling pool adds nodes for GPU pods that do not fit, and deletes idle nodes,
within its limits. ACK's autoscaler does the same in minutes.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kubernetes import client

from autoscaling.ack.instance_types import InstanceType, find_instance_type
from autoscaling.ack.node_labels import POOL_LABEL
from autoscaling.ack.taints import blocking_taints
from live.cluster_client import Object
from live.verify.cluster_reader import condition
from rehearsal.alicloud.node_pools import NodePool, node_pools, report_size
from rehearsal.alicloud.store import CloudStore
from rehearsal.control_plane.start import NODE_ANNOTATION
from rehearsal.simulation.cards import COUNT_LABEL, MEMORY_LABEL, gpu_capacity, nodes_needed, requested_gpus
from rehearsal.simulation.cluster_copy import ClusterCopy

PROVISION_SECONDS = 3.0
"""Time from ordering a node until it joins the cluster."""
IDLE_SECONDS = 3.0
"""Time after which an autoscaling pool deletes a node without GPU pods."""

MODEL_LABEL = "aliyun.accelerator/nvidia_name"


class ScalingGroups:
    """Keep the GPU nodes of the cluster in step with the node pools of the account."""

    def __init__(self, cluster: ClusterCopy, store: CloudStore, region: str) -> None:
        self._cluster = cluster
        self._store = store
        self._region = region
        self._ordered: dict[str, list[float]] = {}
        self._idle_since: dict[str, float] = {}
        self._numbers = itertools.count(2)

    async def reconcile(self) -> None:
        """Order, create and delete nodes."""
        pools = {pool.id: pool for pool in node_pools(self._store.read())}
        nodes = [node for node in self._cluster.nodes if POOL_LABEL in node["metadata"].get("labels", {})]
        for node in nodes:
            if node["metadata"]["labels"][POOL_LABEL] not in pools:
                await self._delete(node)
        self._ordered = {pool_id: self._ordered.get(pool_id, []) for pool_id in pools}
        for pool in pools.values():
            own = [node for node in nodes if node["metadata"]["labels"][POOL_LABEL] == pool.id]
            await self._reconcile_pool(pool, own)

    async def _reconcile_pool(self, pool: NodePool, nodes: list[Object]) -> None:
        instance_type = find_instance_type(pool.instance_types[0])
        orders = self._ordered[pool.id]
        now = time.monotonic()
        known = len(nodes) + len(orders)
        size = pool.desired_size
        if pool.autoscaling:
            capacity = gpu_capacity(instance_type, pool.labels) if instance_type else {}
            missing = nodes_needed(self.unplaced(pool), capacity)
            size = min(max(pool.min_size, len(nodes) + missing, known), pool.max_size)
            await asyncio.to_thread(report_size, self._store, pool.id, known)
        for _ in range(size - known):
            orders.append(now + PROVISION_SECONDS)
        for due in [due for due in orders if due <= now]:
            orders.remove(due)
            await self._create(pool, instance_type)
        await self._delete_idle(pool, nodes, size, now)

    def unplaced(self, pool: NodePool) -> list[Object]:
        """Return the pods that wait for a node of the pool, except pods that preempt other pods."""
        labels = {POOL_LABEL: pool.id, **pool.labels}
        return [
            pod
            for pod in self._cluster.pods
            if "nodeName" not in pod["spec"]
            and condition(pod, "PodScheduled").get("status") == "False"
            and "nominatedNodeName" not in pod["status"]
            and pod["spec"].get("nodeSelector", {}).items() <= labels.items()
            and not blocking_taints([client.V1Taint(**taint) for taint in pool.taints], _tolerations(pod))
        ]

    async def _delete_idle(self, pool: NodePool, nodes: list[Object], size: int, now: float) -> None:
        busy = {pod["spec"].get("nodeName") for pod in self._cluster.pods if requested_gpus(pod)}
        surplus = len(nodes) - (pool.min_size if pool.autoscaling else size)
        for node in nodes:
            name = node["metadata"]["name"]
            if name in busy:
                self._idle_since.pop(name, None)
                continue
            idle = now - self._idle_since.setdefault(name, now)
            if surplus > 0 and (not pool.autoscaling or idle >= IDLE_SECONDS):
                surplus -= 1
                await self._delete(node)

    async def _create(self, pool: NodePool, instance_type: InstanceType | None) -> None:
        number = next(self._numbers)
        labels = {
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": pool.instance_types[0],
            "topology.kubernetes.io/region": self._region,
            POOL_LABEL: pool.id,
            **pool.labels,
        }
        capacity = {"cpu": "8", "memory": "32Gi", "pods": "64"}
        if instance_type:
            capacity |= _general(instance_type)
            capacity |= {resource: str(amount) for resource, amount in gpu_capacity(instance_type, pool.labels).items()}
            labels |= {
                MODEL_LABEL: instance_type.gpu_model.replace(" ", "-"),
                MEMORY_LABEL: f"{int(instance_type.gpu_memory_gib * 1024)}MiB",
                COUNT_LABEL: str(int(instance_type.gpus)),
            }
        node = kwok_node(f"{self._region}.10.0.{number // 250}.{number % 250 + 2}", labels, capacity, pool.taints)
        await asyncio.to_thread(self._cluster.core.create_node, node)

    async def _delete(self, node: Object) -> None:
        await asyncio.to_thread(self._cluster.core.delete_node, node["metadata"]["name"])


def _tolerations(pod: Object) -> list[client.V1Toleration]:
    known = ("key", "operator", "value", "effect")
    return [
        client.V1Toleration(**{name: toleration[name] for name in known if name in toleration})
        for toleration in pod["spec"].get("tolerations", [])
    ]


def _general(instance_type: InstanceType) -> dict[str, str]:
    """Return the CPUs and the memory if known, without a reserve for the node's own processes."""
    cpu = {"cpu": f"{instance_type.vcpus:g}"} if instance_type.vcpus else {}
    return cpu | ({"memory": f"{instance_type.memory_gib:g}Gi"} if instance_type.memory_gib else {})


def kwok_node(
    name: str, labels: dict[str, str], capacity: dict[str, str], taints: Sequence[Mapping[str, str]] = ()
) -> Any:
    """Return a node for kwok; as on ACK, its name is `<region>.<internal IP>`."""
    addresses = {"InternalIP": name.partition(".")[2], "Hostname": name}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **labels},
            "annotations": dict([NODE_ANNOTATION]),
        },
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [{"type": kind, "address": address} for kind, address in addresses.items()],
        },
    }
