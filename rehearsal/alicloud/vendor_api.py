"""The simulated vendor API: create, update and delete resources in the store, and answer queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rehearsal.alicloud import clusters, networks, node_pools
from rehearsal.alicloud.answers import VendorError, query_result
from rehearsal.alicloud.node_waiter import WaitForNodes
from rehearsal.alicloud.store import (
    ADDON,
    CLUSTER,
    NETWORK,
    NODE_POOL,
    PROMETHEUS,
    SWITCH,
    Account,
    Cloud,
    CloudResource,
    CloudStore,
    read_if_running,
)
from rehearsal.layout import Layout

COMPUTED: Mapping[str, Sequence[str]] = {
    NODE_POOL: ("nodePoolId", "scalingGroupId"),
    PROMETHEUS: (),
    ADDON: (),
    CLUSTER: ("vpcId", "connections", "version", "certificateAuthorities"),
    NETWORK: ("status",),
    SWITCH: ("status",),
}
"""For each simulated type, the outputs that the vendor sets if the program does not give them as inputs."""

REPORTED_INPUTS: Mapping[str, Sequence[str]] = {NODE_POOL: ("desiredSize",)}
"""Inputs that the API reports even if the program does not set them; the provider then shows a change."""


def _get_prometheus(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    cloud, instances = account.cloud, []
    if cloud.prometheus() and cloud.cluster:
        address = read_if_running(account.layout.prometheus_api_url) if arguments.get("enableDetails") else ""
        identity = cloud.cluster.cluster_id
        instances.append({"id": identity, "clusterId": identity, "httpApiIntraUrl": address})
    return query_result(arguments, "prometheis", instances)


_QUERIES: Mapping[str, Callable[[Account, dict[str, Any]], dict[str, Any]]] = {
    "alicloud:cs/getClusters:getClusters": clusters.get_clusters,
    "alicloud:cs/getClusterCredential:getClusterCredential": clusters.get_cluster_credential,
    "alicloud:cs/getManagedKubernetesClusters:getManagedKubernetesClusters": clusters.get_managed_clusters,
    "alicloud:cs/getKubernetesNodePools:getKubernetesNodePools": node_pools.get_node_pools,
    "alicloud:vpc/getSwitches:getSwitches": networks.get_switches,
    "alicloud:vpc/getNetworks:getNetworks": networks.get_networks,
    "alicloud:arms/getPrometheus:getPrometheus": _get_prometheus,
}


class VendorApi:
    """The API of a layout's cloud."""

    def __init__(self, layout: Layout, wait_for_nodes: WaitForNodes) -> None:
        self._layout = layout
        self._store = CloudStore(layout.store)
        self._wait_for_nodes = wait_for_nodes

    def require_running(self) -> None:
        """Raise `RehearsalError` if the cloud is not running."""
        self._store.read()

    def create(self, token: str, inputs: dict[str, Any], region: str) -> tuple[str, CloudResource]:
        """Create a resource in a region; return its id and the resource. `settle` waits for a pool's nodes.

        Raises:
            VendorError: the vendor refuses the inputs, or a failure was injected.
        """
        with self._store.transaction() as cloud:
            failure = cloud.pop_failure(token)
            if failure is None:
                identity, resource = _new_resource(Account(cloud, self._layout, region), token, inputs)
                if token != CLUSTER:
                    cloud.resources[identity] = resource
        # Raise outside the transaction: an error inside would restore the failure.
        if failure is not None:
            raise VendorError(failure)
        return identity, resource

    def read(self, token: str, identity: str) -> CloudResource | None:
        """Return the current resource, or None if it does not exist."""
        return _found(self._store.read(), token, identity)

    def update(self, token: str, identity: str, inputs: dict[str, Any]) -> CloudResource:
        """Update a resource. `settle` waits for a pool's nodes.

        Raises:
            VendorError: the resource does not exist.
        """
        with self._store.transaction() as cloud:
            resource = _found(cloud, token, identity)
            if resource is None:
                raise VendorError(f"ErrorNotFound: {identity} does not exist. Run `pulumi refresh`.")
            if token == CLUSTER and cloud.cluster:
                clusters.update_cluster(cloud.cluster, resource, inputs)
            else:
                resource.inputs = inputs
            if token == NODE_POOL:
                node_pools.update_reported_size(resource)
        return resource

    def settle(self, resource: CloudResource) -> None:
        """Wait until a node pool has its nodes; other resources are ready at once.

        Raises:
            RehearsalError: the nodes are not Ready in time.
        """
        if resource.type == NODE_POOL:
            pool = node_pools.NodePool.from_resource(resource)
            self._wait_for_nodes(pool.id, pool.initial_nodes)

    def delete(self, token: str, identity: str) -> None:
        """Delete a resource and its nodes; do nothing if it does not exist.

        Raises:
            VendorError: the resource is protected or in use.
            RehearsalError: the nodes are not gone in time.
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

    def query(self, function: str, region: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer a query, such as `cs.getClusters`.

        Raises:
            VendorError: the vendor refuses the arguments, or the query is not simulated.
        """
        if function not in _QUERIES:
            raise VendorError(f"the rehearsal cloud does not simulate {function}")
        return _QUERIES[function](Account(self._store.read(), self._layout, region), arguments)


def _new_resource(account: Account, token: str, inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    if token == CLUSTER:
        return clusters.new_cluster(account, inputs)
    if token == NETWORK:
        return networks.new_network(inputs)
    if token == SWITCH:
        return networks.new_vswitch(account, inputs)
    cluster_id = clusters.require_cluster(account.cloud, inputs.get("clusterId")).cluster_id
    if token == NODE_POOL:
        return node_pools.new_node_pool(cluster_id, inputs)
    if token == ADDON:
        # The provider adopts an add-on that is already installed.
        return f"{cluster_id}:{inputs['name']}", CloudResource(type=ADDON, inputs=inputs, outputs={})
    return cluster_id, CloudResource(type=PROMETHEUS, inputs=inputs, outputs={})


def _found(cloud: Cloud, token: str, identity: str) -> CloudResource | None:
    if token == CLUSTER:
        return cloud.cluster.resource if cloud.cluster and cloud.cluster.cluster_id == identity else None
    return cloud.resources.get(identity)
