"""What the vendor's servers do with a request: resources of a store, and the answers to queries."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rehearsal.alicloud import clusters, networks
from rehearsal.alicloud.listing import listing, passes
from rehearsal.alicloud.node_pool_listing import listed
from rehearsal.alicloud.nodes import WaitForNodes
from rehearsal.alicloud.refused import Refused
from rehearsal.alicloud.store import (
    ADDON,
    CLUSTER,
    NETWORK,
    NODE_POOL,
    NOT_RUNNING,
    PROMETHEUS,
    SWITCH,
    Cloud,
    CloudResource,
    CloudStore,
    NodePool,
)
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout

SIMULATED = (NODE_POOL, PROMETHEUS, ADDON, CLUSTER, NETWORK, SWITCH)
"""Resource types that can be created."""

COMPUTED: Mapping[str, Sequence[str]] = {
    NODE_POOL: ("nodePoolId", "scalingGroupId"),
    PROMETHEUS: (),
    ADDON: ("canUpgrade", "nextVersion", "required"),
    CLUSTER: (
        *("vpcId", "securityGroupId", "natGatewayId", "slbInternet", "slbIntranet", "connections", "version"),
        "certificateAuthorities",
    ),
    NETWORK: ("status", "routeTableId", "routerId"),
    SWITCH: ("status",),
}
"""Outputs of each type, which the servers make up where they are no inputs."""

TOLD_INPUTS: Mapping[str, Sequence[str]] = {NODE_POOL: ("desiredSize",), PROMETHEUS: (), ADDON: ()}
"""Inputs of each type that the API tells even where nobody set them; the provider takes that for a change."""

_FAULTS = {
    "OperationDenied.NoStock": "the requested resource is sold out in the specified zone; try other types or zones",
    "QuotaExceeded": "the quota of the resource is used up",
    "Throttling": "the request was denied due to request throttling",
}
_ADDON_OUTPUTS = {"canUpgrade": False, "nextVersion": "", "required": False}


class VendorApi:
    """Changes and queries the cloud of a layout, as an account in one region."""

    def __init__(self, layout: Layout, wait_for_nodes: WaitForNodes) -> None:
        self._layout = layout
        self._store = CloudStore(layout.store)
        self._wait_for_nodes = wait_for_nodes

    def require_running(self) -> None:
        """Raise `RehearsalError` where no cloud is up."""
        self._store.read()

    def create(self, token: str, inputs: dict[str, Any], region: str) -> tuple[str, CloudResource]:
        """Create a resource in a region; returns its id and itself. A node pool has no nodes yet: see `settle`.

        Raises:
            Refused: by the vendor, or by an injected fault.
        """
        with self._store.transaction() as cloud:
            code = cloud.take_fault(token)
            if code is None:
                identity, resource = self._new_resource(cloud, token, inputs, region)
                if token != CLUSTER:
                    cloud.resources[identity] = resource
        # Raised here, since an error inside would undo that the fault was used.
        if code is not None:
            raise Refused(f"{code}: {_FAULTS.get(code, 'the request was refused')}")
        return identity, resource

    def read(self, token: str, identity: str) -> CloudResource | None:
        """The resource as it is now; None where it is gone."""
        return _found(self._store.read(), token, identity)

    def update(self, token: str, identity: str, inputs: dict[str, Any]) -> CloudResource:
        """Give a resource other inputs. See `settle` for the nodes of a node pool.

        Raises:
            Refused: the resource is gone, or the vendor does not take the inputs.
        """
        with self._store.transaction() as cloud:
            resource = _found(cloud, token, identity)
            if resource is None:
                raise Refused(f"ErrorNotFound: {identity} does not exist; `pulumi refresh` takes note of it")
            if token == CLUSTER and cloud.cluster:
                clusters.update_cluster(cloud.cluster, resource, inputs)
            else:
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
            Refused: it is protected, or something else needs it.
            RehearsalError: nodes are left.
        """
        with self._store.transaction() as cloud:
            if token == CLUSTER:
                if _found(cloud, token, identity):
                    clusters.delete_cluster(cloud, self._layout)
                return
            if token in (NETWORK, SWITCH):
                networks.require_unused(cloud, identity)
            cloud.resources.pop(identity, None)
        if token == NODE_POOL:
            self._wait_for_nodes(identity.rpartition(":")[2], None)

    def get_clusters(self, region: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `cs.getClusters`."""
        return clusters.get_clusters(self._store.read(), region, arguments)

    def get_managed_clusters(self, region: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `cs.getManagedKubernetesClusters`."""
        return clusters.get_managed_clusters(self._store.read(), self._layout, region, arguments)

    def get_cluster_credential(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `cs.getClusterCredential`.

        Raises:
            Refused: there is no such cluster, or nothing is valid as long.
        """
        return clusters.get_cluster_credential(self._store.read(), self._layout, arguments)

    def get_switches(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `vpc.getSwitches`."""
        return networks.get_switches(self._store.read(), arguments)

    def get_networks(self, region: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `vpc.getNetworks`."""
        return networks.get_networks(self._store.read(), arguments, region)

    def get_prometheus(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `arms.getPrometheus`: the cluster's instance, where it has one that passes the filters."""
        cloud = self._store.read()
        owner = cloud.prometheus()
        found = []
        if owner and cloud.cluster:
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
            name = instance["clusterName"]
            if passes(instance, arguments, ("resourceGroupId",), name) and (
                wanted_tags.items() <= instance["tags"].items()
            ):
                found.append(instance)
        return listing(arguments, "prometheis", found, [one["clusterName"] for one in found])

    def _new_resource(self, cloud: Cloud, token: str, inputs: dict[str, Any], region: str) -> tuple[str, CloudResource]:
        if token == CLUSTER:
            return clusters.new_cluster(cloud, inputs, self._layout, region)
        if token == NETWORK:
            return networks.new_network(inputs)
        if token == SWITCH:
            return networks.new_vswitch(cloud, inputs, region)
        return _new_part(cloud, token, inputs)

    def get_node_pools(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer of `cs.getKubernetesNodePools`: the cluster's pools, of a name where one is given."""
        resources = self._store.read().resources
        pools = [listed(key, one) for key, one in resources.items() if one.type == NODE_POOL]
        wanted = arguments.get("nodePoolName")
        found = [pool for pool in pools if not wanted or pool["nodePoolName"] == wanted]
        return {**arguments, "id": "node-pools", "ids": [pool["nodePoolId"] for pool in found], "nodepools": found}


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


def _found(cloud: Cloud, token: str, identity: str) -> CloudResource | None:
    if token == CLUSTER:
        return cloud.cluster.resource if cloud.cluster and cloud.cluster.cluster_id == identity else None
    return cloud.resources.get(identity)


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


def _new_part(cloud: Cloud, token: str, inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    """Of a cluster."""
    if token == PROMETHEUS and inputs.get("clusterType") != "aliyun-cs":
        raise Refused(
            f"InvalidParameter: the rehearsal cloud simulates Prometheus instances of clusterType aliyun-cs, "
            f"not {inputs.get('clusterType')}"
        )
    cluster_id = clusters.require_cluster(cloud, inputs.get("clusterId")).cluster_id
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
