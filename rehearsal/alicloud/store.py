"""The simulated cloud's state: one file, shared by the supervisor and the plugins."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rehearsal.errors import RehearsalError

NODE_POOL = "alicloud:cs/nodePool:NodePool"
PROMETHEUS = "alicloud:arms/prometheus:Prometheus"
ADDON = "alicloud:cs/kubernetesAddon:KubernetesAddon"
PROMETHEUS_ADDON = "arms-prometheus"


class CloudCluster(BaseModel):
    """The ACK cluster that exists before any program runs."""

    cluster_id: str
    name: str = "rehearsal"
    region_id: str
    current_version: str
    vpc_id: str = "vpc-rehearsal"
    vswitch_ids: list[str] = ["vsw-rehearsal-a", "vsw-rehearsal-b"]
    state: str = "running"


class CloudResource(BaseModel):
    """What a program created."""

    type: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class Fault(BaseModel):
    """The next `times` creations of a type fail with the vendor's error code."""

    code: str
    times: int


class Cloud(BaseModel):
    """Everything in the file."""

    cluster: CloudCluster
    resources: dict[str, CloudResource] = {}
    faults: dict[str, Fault] = {}


class NodePool(BaseModel):
    """A node pool as its scaling group sees it."""

    id: str
    instance_types: list[str]
    labels: dict[str, str]
    taints: list[dict[str, str]]
    autoscaling: bool
    min_size: int
    max_size: int
    desired_size: int

    @property
    def first_nodes(self) -> int:
        """Nodes that the pool has at least, before any pod asks for one."""
        return self.min_size if self.autoscaling else self.desired_size


class CloudStore:
    """Reads and changes the file; each change is locked and replaces the file whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, cluster_id: str, region: str, version: str) -> None:
        """Start with one running cluster and nothing else."""
        cluster = CloudCluster(cluster_id=cluster_id, region_id=region, current_version=version)
        self._write(Cloud(cluster=cluster))

    def read(self) -> Cloud:
        """The state now.

        Raises:
            RehearsalError: no cloud is up.
        """
        try:
            return Cloud.model_validate_json(self._path.read_text())
        except FileNotFoundError:
            raise RehearsalError("No rehearsal cloud is up: start one with `make rehearse-up`.") from None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Cloud]:
        """The state to change; it is written when the block ends without an error."""
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cloud = self.read()
            yield cloud
            self._write(cloud)

    def inject_fault(self, token: str, code: str, times: int = 1) -> None:
        """Let the next creations of a type fail, as with `OperationDenied.NoStock`, `QuotaExceeded` or `Throttling`."""
        with self.transaction() as cloud:
            cloud.faults[token] = Fault(code=code, times=times)

    def has_prometheus(self) -> bool:
        """Whether the cluster has a Prometheus instance, of its own or by the add-on."""
        return any(
            resource.type == PROMETHEUS or (resource.type == ADDON and resource.inputs["name"] == PROMETHEUS_ADDON)
            for resource in self.read().resources.values()
        )

    def node_pools(self) -> list[NodePool]:
        """All node pools."""
        return [_node_pool(resource) for resource in self.read().resources.values() if resource.type == NODE_POOL]

    def _write(self, cloud: Cloud) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_text(cloud.model_dump_json(indent=1))
        os.replace(draft, self._path)


def _node_pool(resource: CloudResource) -> NodePool:
    inputs = resource.inputs
    scaling = inputs.get("scalingConfig") or {}
    return NodePool(
        id=resource.outputs["nodePoolId"],
        instance_types=inputs.get("instanceTypes", []),
        labels={label["key"]: label.get("value", "") for label in inputs.get("labels", [])},
        taints=inputs.get("taints", []),
        autoscaling=bool(scaling) and bool(scaling.get("enable", True)),
        min_size=int(scaling.get("minSize", 0)),
        max_size=int(scaling.get("maxSize", 0)),
        desired_size=int(inputs.get("desiredSize") or 0),
    )
