"""The simulated cloud's state: one file, shared by the supervisor and the plugins."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from rehearsal.errors import RehearsalError

NODE_POOL = "alicloud:cs/nodePool:NodePool"
PROMETHEUS = "alicloud:arms/prometheus:Prometheus"
ADDON = "alicloud:cs/kubernetesAddon:KubernetesAddon"
CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
NETWORK = "alicloud:vpc/network:Network"
SWITCH = "alicloud:vpc/switch:Switch"
PROMETHEUS_ADDON = "arms-prometheus"

NOT_RUNNING = "No rehearsal cloud is up: start one with `make rehearse-up`."

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class CloudResource(BaseModel):
    """What a program created."""

    type: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class CloudCluster(BaseModel):
    """The ACK cluster, for which the rehearsal's control plane stands."""

    cluster_id: str
    name: str = "rehearsal"
    region_id: str
    current_version: str
    vpc_id: str = "vpc-rehearsal"
    vswitch_ids: list[str] = ["vsw-rehearsal-a", "vsw-rehearsal-b"]
    state: str = "running"
    in_the_internet: bool = True
    """Whether its API server has a public address, besides the one in the VPC."""
    deletion_protection: bool = True
    resource: CloudResource | None = None
    """What a program created; None for a cluster that exists before any program runs."""


class Fault(BaseModel):
    """The next `times` creations of a type fail with the vendor's error code."""

    code: str
    times: int


class Cloud(BaseModel):
    """Everything in the file."""

    cluster: CloudCluster | None = None
    """None: the account has none yet. A created one is not among the resources: its id is its Prometheus' id too."""
    kubernetes_version: str
    """The newest one, which a cluster gets that asks for none."""
    resources: dict[str, CloudResource] = {}
    prometheus_access: str | None = None
    """SHA-256 of the header Authorization that the Prometheus instance asks for; None: it asks for none."""
    faults: dict[str, Fault] = {}

    def take_fault(self, token: str) -> str | None:
        """The error code with which the creation of a type fails now, if it does; it counts as used."""
        fault = self.faults.get(token)
        if fault is None:
            return None
        fault.times -= 1
        if fault.times < 1:
            del self.faults[token]
        return fault.code

    def admits(self, authorization: str) -> bool:
        """Whether a query with this header may read the Prometheus instance."""
        return self.prometheus_access in (None, _digest(authorization))

    def prometheus(self) -> CloudResource | None:
        """What gave the cluster a Prometheus instance: an instance of its own, or the add-on."""
        for resource in self.resources.values():
            if resource.type == PROMETHEUS or (resource.type == ADDON and resource.inputs["name"] == PROMETHEUS_ADDON):
                return resource
        return None


def new_id(kind: str) -> str:
    """An id as the vendor makes them, such as `vsw-` and twenty letters and digits."""
    return f"{kind}-{secrets.token_hex(10)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class NodePool(BaseModel):
    """A node pool as its scaling group sees it.

    It refuses what the vendor's servers refuse and its provider does not: nodes could not be made of it.
    """

    id: str
    cluster_id: str
    name: str
    instance_types: list[str] = Field(min_length=1)
    labels: dict[str, str]
    taints: list[dict[str, str]]
    autoscaling: bool
    min_size: int = Field(ge=0)
    max_size: int = Field(ge=0)
    desired_size: int = Field(ge=0)

    @field_validator("taints")
    @classmethod
    def _taints_are_kubernetes_taints(cls, taints: list[dict[str, str]]) -> list[dict[str, str]]:
        for taint in taints:
            if not taint.get("key") or taint.get("effect") not in _TAINT_EFFECTS:
                raise ValueError(f"a taint needs a key and an effect of {', '.join(_TAINT_EFFECTS)}")
        return taints

    @model_validator(mode="after")
    def _limits_are_in_order(self) -> Self:
        if self.autoscaling and self.min_size > self.max_size:
            raise ValueError(f"min_size {self.min_size} is above max_size {self.max_size}")
        return self

    @classmethod
    def of(cls, resource: CloudResource) -> NodePool:
        """The node pool that a resource describes.

        Raises:
            ValidationError: the vendor's servers would refuse it.
        """
        inputs = resource.inputs
        scaling = inputs.get("scalingConfig") or {}
        return cls(
            id=resource.outputs["nodePoolId"],
            cluster_id=inputs["clusterId"],
            name=inputs.get("nodePoolName") or inputs.get("name", ""),
            instance_types=inputs.get("instanceTypes", []),
            labels={label["key"]: label.get("value", "") for label in inputs.get("labels", [])},
            taints=inputs.get("taints", []),
            autoscaling=bool(scaling) and bool(scaling.get("enable", True)),
            min_size=scaling.get("minSize", 0),
            max_size=scaling.get("maxSize", 0),
            desired_size=inputs.get("desiredSize") or inputs.get("nodeCount") or 0,
        )

    @staticmethod
    def reported_size(nodes: int) -> dict[str, str]:
        """What the API says of the size of an autoscaling pool, whatever its inputs say."""
        return {"desiredSize": str(nodes)}

    @property
    def first_nodes(self) -> int:
        """Nodes that the pool has at least, before any pod asks for one."""
        return self.min_size if self.autoscaling else self.desired_size


class CloudStore:
    """Reads and changes the file; each change is locked and replaces the file whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, cluster_id: str | None, region: str, version: str) -> None:
        """Start with one running cluster and nothing else, or in an empty account."""
        cluster = CloudCluster(cluster_id=cluster_id, region_id=region, current_version=version) if cluster_id else None
        self._write(Cloud(cluster=cluster, kubernetes_version=version))

    def read(self) -> Cloud:
        """The state now.

        Raises:
            RehearsalError: no cloud is up, or its file is damaged.
        """
        try:
            return Cloud.model_validate_json(self._path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise RehearsalError(NOT_RUNNING) from None
        except (UnicodeDecodeError, ValidationError):
            raise RehearsalError(
                f"{self._path} is damaged: start a new rehearsal cloud with `make rehearse-down rehearse-up`."
            ) from None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Cloud]:
        """The state to change; it is written when the block ends without an error.

        Raises:
            RehearsalError: no cloud is up, or its file is damaged.
        """
        try:
            lock = self._path.with_suffix(".lock").open("w")
        except (FileNotFoundError, NotADirectoryError):
            raise RehearsalError(NOT_RUNNING) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cloud = self.read()
            yield cloud
            self._write(cloud)

    def inject_fault(self, token: str, code: str, times: int = 1) -> None:
        """Let the next `times` creations of a type fail.

        Args:
            token: the Pulumi type, such as `NODE_POOL`.
            code: the vendor's error code: `OperationDenied.NoStock`, `QuotaExceeded`, `Throttling`, or any other.
            times: how many creations fail, from 1.
        """
        with self.transaction() as cloud:
            cloud.faults[token] = Fault(code=code, times=times)

    def demand_basic_auth(self, access_key_id: str, access_key_secret: str) -> None:
        """Let the Prometheus instance be one of V2, which only this AccessKey may read."""
        pair = base64.b64encode(f"{access_key_id}:{access_key_secret}".encode()).decode()
        with self.transaction() as cloud:
            cloud.prometheus_access = _digest(f"Basic {pair}")

    def demand_nothing(self) -> None:
        """Let the Prometheus instance be one of V1 without a token."""
        with self.transaction() as cloud:
            cloud.prometheus_access = None

    def add_network(self, cidr: str, vswitches: Mapping[str, tuple[str, str]]) -> None:
        """Let the account have a VPC that no program made.

        Args:
            cidr: of the VPC.
            vswitches: id of each of its vSwitches to its zone and its CIDR.
        """
        vpc_id = new_id("vpc")
        with self.transaction() as cloud:
            cloud.resources[vpc_id] = CloudResource(type=NETWORK, inputs={"cidrBlock": cidr}, outputs={})
            for vswitch_id, (zone, inner) in vswitches.items():
                inputs = {"vpcId": vpc_id, "zoneId": zone, "cidrBlock": inner}
                cloud.resources[vswitch_id] = CloudResource(type=SWITCH, inputs=inputs, outputs={})

    def report_size(self, pool_id: str, nodes: int) -> None:
        """Let the API tell the size that the autoscaler has given a pool."""
        size = NodePool.reported_size(nodes)
        own = [one for one in self.read().resources.values() if one.outputs.get("nodePoolId") == pool_id]
        if any(size.items() <= one.outputs.items() for one in own):
            return
        with self.transaction() as cloud:
            for resource in cloud.resources.values():
                if resource.outputs.get("nodePoolId") == pool_id:
                    resource.outputs.update(size)

    def node_pools(self) -> list[NodePool]:
        """All node pools."""
        return [NodePool.of(resource) for resource in self.read().resources.values() if resource.type == NODE_POOL]

    def _write(self, cloud: Cloud) -> None:
        draft = self._path.with_suffix(".new")
        # A node pool's inputs may hold a password.
        draft.touch(mode=0o600)
        draft.write_text(cloud.model_dump_json(indent=1), encoding="utf-8")
        os.replace(draft, self._path)
