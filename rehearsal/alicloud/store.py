"""The state of the simulated cloud: one file, shared by the supervisor and the plugins."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout

NODE_POOL = "alicloud:cs/nodePool:NodePool"
PROMETHEUS = "alicloud:arms/prometheus:Prometheus"
ADDON = "alicloud:cs/kubernetesAddon:KubernetesAddon"
CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
NETWORK = "alicloud:vpc/network:Network"
SWITCH = "alicloud:vpc/switch:Switch"
PROMETHEUS_ADDON = "arms-prometheus"

NOT_RUNNING = "No rehearsal cloud is up: start one with `./ackgpu up`."


class CloudResource(BaseModel):
    """What a program created."""

    type: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class CloudCluster(BaseModel):
    """The ACK cluster; the rehearsal's control plane is its API server."""

    cluster_id: str
    name: str = "rehearsal"
    region_id: str
    current_version: str
    vpc_id: str = "vpc-rehearsal"
    vswitch_ids: list[str] = ["vsw-rehearsal-a", "vsw-rehearsal-b"]
    state: str = "running"
    in_the_internet: bool = True
    """Whether its API server has a public address beside the one in the VPC."""
    deletion_protection: bool = True
    resource: CloudResource | None = None
    """What a program created; None for a cluster that existed before."""


class Cloud(BaseModel):
    """Everything in the file."""

    cluster: CloudCluster | None = None
    """None while the account has no cluster. It is not among the resources, since its Prometheus has the same id."""
    kubernetes_version: str
    """The newest version, for a cluster that names none."""
    resources: dict[str, CloudResource] = {}
    prometheus_access: str | None = None
    """SHA-256 of the Authorization header that the Prometheus instance requires; None: it requires none."""
    failures: dict[str, list[str]] = {}
    """Reasons for which the vendor refuses the next creations of a type, one after the other."""

    def take_failure(self, token: str) -> str | None:
        """Return the reason if the creation of a type is to fail now, and forget it."""
        reasons = self.failures.get(token)
        return reasons.pop(0) if reasons else None

    def admits(self, authorization: str) -> bool:
        """Return whether a query with this header may read the Prometheus instance."""
        return self.prometheus_access in (None, hashlib.sha256(authorization.encode()).hexdigest())

    def prometheus(self) -> CloudResource | None:
        """Return the resource that gave the cluster a Prometheus instance: an instance or the add-on."""
        for resource in self.resources.values():
            if resource.type == PROMETHEUS or (resource.type == ADDON and resource.inputs["name"] == PROMETHEUS_ADDON):
                return resource
        return None


@dataclass(frozen=True)
class Account:
    """The account in one region, as a request sees it."""

    cloud: Cloud
    layout: Layout
    region: str


def new_id(kind: str) -> str:
    """Return an id of the vendor's form, such as `vsw-` and twenty letters and digits."""
    return f"{kind}-{secrets.token_hex(10)}"


def read_if_running(path: Path) -> str:
    """Read a file of the cloud.

    Raises:
        RehearsalError: no cloud is up.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise RehearsalError(NOT_RUNNING) from None


class CloudStore:
    """Reads and changes the file; each change is locked and replaces the file whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, cluster_id: str | None, region: str, version: str) -> None:
        """Start with one running cluster and nothing else, or in an empty account."""
        cluster = CloudCluster(cluster_id=cluster_id, region_id=region, current_version=version) if cluster_id else None
        self._write(Cloud(cluster=cluster, kubernetes_version=version))

    def read(self) -> Cloud:
        """Return the current state.

        Raises:
            RehearsalError: no cloud is up.
        """
        return Cloud.model_validate_json(read_if_running(self._path))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Cloud]:
        """Give the state to change, and write it when the block ends without an error.

        Raises:
            RehearsalError: no cloud is up.
        """
        read_if_running(self._path)
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            cloud = self.read()
            yield cloud
            self._write(cloud)

    def _write(self, cloud: Cloud) -> None:
        draft = self._path.with_suffix(".new")
        # A node pool's inputs may hold a password.
        draft.touch(mode=0o600)
        draft.write_text(cloud.model_dump_json(indent=1), encoding="utf-8")
        os.replace(draft, self._path)
