"""What the vendor's servers do with a request: resources of a store, and the answers to queries."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rehearsal.alicloud.node_pool_listing import listed
from rehearsal.alicloud.nodes import WaitForNodes
from rehearsal.alicloud.store import (
    ADDON,
    NODE_POOL,
    NOT_RUNNING,
    PROMETHEUS,
    Cloud,
    CloudCluster,
    CloudResource,
    CloudStore,
    NodePool,
)
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout

SIMULATED = (NODE_POOL, PROMETHEUS, ADDON)
"""Resource types that can be created."""

COMPUTED: Mapping[str, Sequence[str]] = {
    NODE_POOL: ("nodePoolId", "scalingGroupId"),
    PROMETHEUS: (),
    ADDON: ("canUpgrade", "nextVersion", "required"),
}
"""Outputs of each type that are no inputs."""

TOLD_INPUTS: Mapping[str, Sequence[str]] = {NODE_POOL: ("desiredSize",), PROMETHEUS: (), ADDON: ()}
"""Inputs of each type that the API tells even where nobody set them; the provider takes that for a change."""

_FAULTS = {
    "OperationDenied.NoStock": "the requested resource is sold out in the specified zone; try other types or zones",
    "QuotaExceeded": "the quota of the resource is used up",
    "Throttling": "the request was denied due to request throttling",
}
_ADDON_OUTPUTS = {"canUpgrade": False, "nextVersion": "", "required": False}
_CLUSTER_SPEC = "ack.pro.small"
_CLUSTER_TYPE = "ManagedKubernetes"
_CLUSTER_PROFILE = "Default"


class Refused(Exception):
    """A request that the vendor's servers do not carry out; the message starts with their error code."""


class VendorApi:
    """Changes and queries the cloud of a layout, as an account in one region."""

    def __init__(self, layout: Layout, wait_for_nodes: WaitForNodes) -> None:
        self._layout = layout
        self._store = CloudStore(layout.store)
        self._wait_for_nodes = wait_for_nodes

    def require_running(self) -> None:
        """Raise `RehearsalError` where no cloud is up."""
        self._store.read()

    def create(self, token: str, inputs: dict[str, Any]) -> tuple[str, CloudResource]:
        """Create a resource; returns its id and itself. A node pool has no nodes yet: see `settle`.

        Raises:
            Refused: by the vendor, or by an injected fault.
        """
        with self._store.transaction() as cloud:
            code = cloud.take_fault(token)
            if code is None:
                identity, resource = _new_resource(cloud, token, inputs)
                cloud.resources[identity] = resource
        # Raised here, since an error inside would undo that the fault was used.
        if code is not None:
            raise Refused(f"{code}: {_FAULTS.get(code, 'the request was refused')}")
        return identity, resource

    def read(self, identity: str) -> CloudResource | None:
        """The resource as it is now; None where it is gone."""
        return self._store.read().resources.get(identity)

    def update(self, identity: str, inputs: dict[str, Any]) -> CloudResource:
        """Give a resource other inputs. See `settle` for the nodes of a node pool.

        Raises:
            Refused: the resource is gone, or the vendor does not take the inputs.
        """
        with self._store.transaction() as cloud:
            resource = cloud.resources.get(identity)
            if resource is None:
                raise Refused(f"ErrorNotFound: {identity} does not exist; `pulumi refresh` takes note of it")
            resource.inputs = inputs
            _require_valid(resource)
            if resource.type == NODE_POOL:
                _tell_size(resource)
        return resource

    def settle(self, resource: CloudResource) -> None:
        """Wait until the nodes of a node pool are what its size says; nothing else needs time.

        Raises:
            RehearsalError: they are not, within the time.
        """
        if resource.type == NODE_POOL:
            pool = NodePool.of(resource)
            self._wait_for_nodes(pool.id, pool.first_nodes)

    def delete(self, token: str, identity: str) -> None:
        """Delete a resource, with its nodes; one that is gone already is no error.

        Raises:
            RehearsalError: nodes are left.
        """
        with self._store.transaction() as cloud:
            cloud.resources.pop(identity, None)
        if token == NODE_POOL:
            self._wait_for_nodes(identity.rpartition(":")[2], None)

    def get_clusters(self, region: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `cs.getClusters`: the region's clusters that pass every given filter."""
        cluster = self._store.read().cluster
        entry = {
            "id": cluster.cluster_id,
            "clusterId": cluster.cluster_id,
            "clusterName": cluster.name,
            "clusterSpec": _CLUSTER_SPEC,
            "clusterType": _CLUSTER_TYPE,
            "profile": _CLUSTER_PROFILE,
            "currentVersion": cluster.current_version,
            "deletionProtection": True,
            "regionId": cluster.region_id,
            "state": cluster.state,
            "vpcId": cluster.vpc_id,
            "vswitchIds": cluster.vswitch_ids,
            "tags": {},
            # The SDK's class asks for every field; the last four stay empty without enableDetails, as the real ones do.
            **dict.fromkeys(_CLUSTER_TEXTS, ""),
            "nodeCidrMask": "25" if arguments.get("enableDetails") else "",
            "autoMode": {"enabled": False} if arguments.get("enableDetails") else {},
            "maintenanceWindow": {},
            "operationPolicy": {},
        }
        found = [entry] if cluster.region_id == region and _passes(entry, arguments, _CLUSTER_FILTERS) else []
        return _listing(arguments, "clusters", found)

    def get_cluster_credential(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `cs.getClusterCredential`: the administrator's kubeconfig.

        Raises:
            Refused: there is no such cluster.
        """
        cluster = _require_cluster(self._store.read(), arguments.get("clusterId"))
        return {
            **arguments,
            "id": cluster.cluster_id,
            "clusterName": cluster.name,
            "kubeConfig": _content(self._layout.kubeconfig),
            "certificateAuthorities": [],
            "expiration": "",
        }

    def get_prometheus(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `arms.getPrometheus`: the cluster's instance, where it has one that passes the filters."""
        cloud = self._store.read()
        owner = cloud.prometheus()
        found = []
        if owner:
            address = _content(self._layout.prometheus_api_url) if arguments.get("enableDetails") else ""
            instance = {
                # The SDK's class asks for every field.
                **dict.fromkeys(_PROMETHEUS_TEXTS, ""),
                "id": cloud.cluster.cluster_id,
                "clusterId": cloud.cluster.cluster_id,
                "clusterName": owner.inputs.get("clusterName", cloud.cluster.name),
                "clusterType": "aliyun-cs",
                "grafanaInstanceId": owner.inputs.get("grafanaInstanceId", "free"),
                "resourceGroupId": owner.inputs.get("resourceGroupId", ""),
                "httpApiIntraUrl": address,
                "tags": owner.inputs.get("tags", {}),
            }
            wanted_tags = arguments.get("tags") or {}
            if _passes(instance, arguments, ("resourceGroupId",)) and wanted_tags.items() <= instance["tags"].items():
                found.append(instance)
        return _listing(arguments, "prometheis", found)

    def get_node_pools(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `cs.getKubernetesNodePools`: the cluster's pools, of a name where one is given."""
        resources = self._store.read().resources
        pools = [listed(key, one) for key, one in resources.items() if one.type == NODE_POOL]
        wanted = arguments.get("nodePoolName")
        found = [pool for pool in pools if not wanted or pool["nodePoolName"] == wanted]
        return {**arguments, "id": "node-pools", "ids": [pool["nodePoolId"] for pool in found], "nodepools": found}


_CLUSTER_TEXTS = (
    "clusterDomain", "ipStack", "podCidr", "proxyMode", "resourceGroupId", "securityGroupId", "serviceCidr", "timezone",
)  # fmt: skip
_CLUSTER_FILTERS = ("clusterId", "clusterName", "clusterSpec", "clusterType", "profile")
_PROMETHEUS_TEXTS = (
    "authToken", "httpApiInterUrl", "pushGateWayInterUrl", "pushGateWayIntraUrl", "remoteReadInterUrl",
    "remoteReadIntraUrl", "remoteWriteInterUrl", "remoteWriteIntraUrl", "securityGroupId",
    "subClustersJson", "vpcId", "vswitchId",
)  # fmt: skip


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RehearsalError(NOT_RUNNING) from None


def _passes(entry: dict[str, Any], arguments: dict[str, Any], filters: Sequence[str]) -> bool:
    ids, pattern = arguments.get("ids"), arguments.get("nameRegex")
    if ids and entry["id"] not in ids:
        return False
    if pattern and not re.search(pattern, entry["clusterName"]):
        return False
    return all(entry[name] == arguments[name] for name in filters if arguments.get(name))


def _listing(arguments: dict[str, Any], key: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    ids = [entry["id"] for entry in found]
    # The real id is a hash of the ids too: a random one would be a change at each run.
    identity = hashlib.sha256(",".join(ids).encode()).hexdigest()[:16]
    return {**arguments, "id": identity, "ids": ids, "names": [entry["clusterName"] for entry in found], key: found}


def _require_cluster(cloud: Cloud, cluster_id: str | None) -> CloudCluster:
    if cluster_id != cloud.cluster.cluster_id:
        raise Refused(f"ErrorClusterNotFound: the cluster {cluster_id} does not exist")
    return cloud.cluster


def _require_valid(resource: CloudResource) -> None:
    if resource.type != NODE_POOL:
        return
    try:
        NodePool.of(resource)
    except ValidationError as error:
        # Not the error's own text: it repeats the inputs, which may be secret.
        reasons = [
            ": ".join([*map(str, one["loc"]), one["msg"].removeprefix("Value error, ")]) for one in error.errors()
        ]
        raise Refused(f"InvalidParameter: {'; '.join(reasons)}") from None


def _tell_size(resource: CloudResource) -> None:
    pool = NodePool.of(resource)
    size = NodePool.reported_size(pool.first_nodes)
    if pool.autoscaling:
        resource.outputs = size | resource.outputs
    else:
        resource.outputs = {name: value for name, value in resource.outputs.items() if name not in size}


def _new_resource(cloud: Cloud, token: str, inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    if token == PROMETHEUS and inputs.get("clusterType") != "aliyun-cs":
        raise Refused(
            f"InvalidParameter: the rehearsal cloud simulates Prometheus instances of clusterType aliyun-cs, "
            f"not {inputs.get('clusterType')}"
        )
    cluster_id = _require_cluster(cloud, inputs.get("clusterId")).cluster_id
    resource = CloudResource(type=token, inputs=inputs, outputs={})
    if token == NODE_POOL:
        pool_id = f"np{uuid.uuid4().hex}"
        resource.outputs = {"nodePoolId": pool_id, "scalingGroupId": f"asg-{uuid.uuid4().hex[:20]}"}
        _require_valid(resource)
        _tell_size(resource)
        return f"{cluster_id}:{pool_id}", resource
    if token == ADDON:
        # One that is installed already is adopted, as the real provider does.
        resource.outputs = dict(_ADDON_OUTPUTS)
        return f"{cluster_id}:{inputs['name']}", resource
    if cluster_id in cloud.resources:
        raise Refused(f"ErrorAlreadyExists: the cluster {cluster_id} has a Prometheus instance")
    return cluster_id, resource
