"""The state of the simulated cloud, in a file that the supervisor and the plugins share."""

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

NOT_RUNNING = "The rehearsal cloud is not running. Start it with `./ackgpu up`."


class CloudResource(BaseModel):
    """A resource that a program created."""

    type: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class CloudCluster(BaseModel):
    """The ACK cluster; its API server is the rehearsal's control plane."""

    cluster_id: str
    name: str = "rehearsal"
    region_id: str
    current_version: str
    vpc_id: str = "vpc-rehearsal"
    vswitch_ids: list[str] = ["vsw-rehearsal-a", "vsw-rehearsal-b"]
    state: str = "running"
    has_public_endpoint: bool = True
    """Whether its API server has a public address in addition to its address in the VPC."""
    deletion_protection: bool = True
    resource: CloudResource | None = None
    """None for a cluster that a program did not create."""


class Cloud(BaseModel):
    """The state of the simulated cloud, as stored in its file."""

    cluster: CloudCluster | None = None
    """None while the account has no cluster. Not in `resources`: the cluster's Prometheus has the same ID there."""
    kubernetes_version: str
    """The newest version: the default of a new cluster."""
    resources: dict[str, CloudResource] = {}
    prometheus_access: str | None = None
    """SHA-256 of the Authorization header that the Prometheus instance requires; None: no header is required."""
    failures: dict[str, list[str]] = {}
    """Injected failures by type; each makes the next creation of that type fail."""

    def pop_failure(self, token: str) -> str | None:
        """Remove and return the next injected failure of a type, or None."""
        reasons = self.failures.get(token)
        return reasons.pop(0) if reasons else None

    def allows_query(self, authorization: str) -> bool:
        """Return whether a query with this header may read the Prometheus instance."""
        return self.prometheus_access in (None, hashlib.sha256(authorization.encode()).hexdigest())

    def prometheus(self) -> CloudResource | None:
        """Return the resource that provides the cluster's Prometheus: an instance or the add-on, or None."""
        for resource in self.resources.values():
            if resource.type == PROMETHEUS or (resource.type == ADDON and resource.inputs["name"] == PROMETHEUS_ADDON):
                return resource
        return None


@dataclass(frozen=True)
class Account:
    """The account and region of a request."""

    cloud: Cloud
    layout: Layout
    region: str


def new_id(kind: str) -> str:
    """Return an ID in the vendor's form, such as `vsw-` and 20 hexadecimal digits."""
    return f"{kind}-{secrets.token_hex(10)}"


def read_if_running(path: Path) -> str:
    """Read a file of the cloud.

    Raises:
        RehearsalError: the cloud is not running.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise RehearsalError(NOT_RUNNING) from None


class CloudStore:
    """Read and change the file; each change holds a lock and replaces the whole file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, cluster_id: str | None, region: str, version: str) -> None:
        """Create the state of an account: with a running cluster, or empty if `cluster_id` is None."""
        cluster = CloudCluster(cluster_id=cluster_id, region_id=region, current_version=version) if cluster_id else None
        self._write(Cloud(cluster=cluster, kubernetes_version=version))

    def read(self) -> Cloud:
        """Return the current state.

        Raises:
            RehearsalError: the cloud is not running.
        """
        return Cloud.model_validate_json(read_if_running(self._path))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Cloud]:
        """Yield the state for changes, and write it if the block ends without an error.

        Raises:
            RehearsalError: the cloud is not running.
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
