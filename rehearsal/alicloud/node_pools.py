"""Node pools of the simulated vendor API."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from rehearsal.alicloud.answers import query_result
from rehearsal.alicloud.store import NODE_POOL, Account, Cloud, CloudResource, CloudStore

_SIZE = "desiredSize"
"""Output of an autoscaling pool: the API reports its current size, whatever the inputs say."""


@dataclass(frozen=True)
class NodePool:
    """A node pool as its scaling group sees it."""

    id: str
    name: str
    instance_types: list[str]
    labels: dict[str, str]
    taints: list[dict[str, str]]
    autoscaling: bool
    min_size: int
    max_size: int
    desired_size: int

    @classmethod
    def from_resource(cls, resource: CloudResource) -> NodePool:
        """Return the node pool that a resource describes."""
        inputs = resource.inputs
        scaling = inputs.get("scalingConfig") or {}
        return cls(
            id=resource.outputs["nodePoolId"],
            name=inputs.get("nodePoolName") or inputs.get("name", ""),
            instance_types=inputs.get("instanceTypes", []),
            labels={label["key"]: label.get("value", "") for label in inputs.get("labels", [])},
            taints=inputs.get("taints", []),
            autoscaling=bool(scaling) and bool(scaling.get("enable", True)),
            min_size=int(scaling.get("minSize", 0)),
            max_size=int(scaling.get("maxSize", 0)),
            desired_size=int(inputs.get("desiredSize") or inputs.get("nodeCount") or 0),
        )

    @property
    def initial_nodes(self) -> int:
        """Number of nodes that a new pool starts with."""
        return self.min_size if self.autoscaling else self.desired_size


def node_pools(cloud: Cloud) -> list[NodePool]:
    """Return all node pools."""
    return [NodePool.from_resource(resource) for resource in cloud.resources.values() if resource.type == NODE_POOL]


def new_node_pool(cluster_id: str, inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    """Create a node pool without nodes; return its id `<cluster>:<pool>` and its resource."""
    pool_id = f"np{uuid.uuid4().hex}"
    outputs = {"nodePoolId": pool_id, "scalingGroupId": f"asg-{uuid.uuid4().hex[:20]}"}
    resource = CloudResource(type=NODE_POOL, inputs=inputs, outputs=outputs)
    update_reported_size(resource)
    return f"{cluster_id}:{pool_id}", resource


def update_reported_size(resource: CloudResource) -> None:
    """Set or remove the reported size after a change of the inputs."""
    pool = NodePool.from_resource(resource)
    if pool.autoscaling:
        resource.outputs.setdefault(_SIZE, str(pool.initial_nodes))
    else:
        resource.outputs.pop(_SIZE, None)


def report_size(store: CloudStore, pool_id: str, nodes: int) -> None:
    """Record the size of an autoscaling pool, for the API to report."""

    def outdated(cloud: Cloud) -> list[CloudResource]:
        pools = [pool for pool in cloud.resources.values() if pool.outputs.get("nodePoolId") == pool_id]
        return [pool for pool in pools if pool.outputs.get(_SIZE) != str(nodes)]

    if outdated(store.read()):
        with store.transaction() as cloud:
            for pool in outdated(cloud):
                pool.outputs[_SIZE] = str(nodes)


def get_node_pools(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `cs.getKubernetesNodePools`: list the cluster's pools, or those with the given name."""
    pools = [_listed(resource) for resource in account.cloud.resources.values() if resource.type == NODE_POOL]
    name = arguments.get("nodePoolName")
    return query_result(arguments, "nodepools", [pool for pool in pools if not name or pool["nodePoolName"] == name])


def _listed(resource: CloudResource) -> dict[str, Any]:
    pool = NodePool.from_resource(resource)
    return {
        "instanceTypes": [],
        "systemDiskCategory": "",
        "systemDiskSize": 0,
        "vswitchIds": [],
        **resource.inputs,
        "id": pool.id,
        "desiredSize": str(pool.desired_size or resource.outputs.get(_SIZE) or 0),
        "labels": [{"key": key, "value": value} for key, value in pool.labels.items()],
        "taints": pool.taints,
        "nodePoolId": pool.id,
        "nodePoolName": pool.name,
    }
