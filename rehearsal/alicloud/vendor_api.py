"""The vendor's API: it creates, changes and deletes resources in the store, and answers queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rehearsal.alicloud import clusters, networks, node_pools
from rehearsal.alicloud.answers import Refused, listing
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
"""Outputs that the servers set unless they are inputs, of each type that can be created."""

REPORTED_INPUTS: Mapping[str, Sequence[str]] = {NODE_POOL: ("desiredSize",)}
"""Inputs that the API reports even if nobody set them; the provider takes that for a change."""


def _get_prometheus(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    cloud, instances = account.cloud, []
    if cloud.prometheus() and cloud.cluster:
        address = read_if_running(account.layout.prometheus_api_url) if arguments.get("enableDetails") else ""
        identity = cloud.cluster.cluster_id
        instances.append({"id": identity, "clusterId": identity, "httpApiIntraUrl": address})
    return listing(arguments, "prometheis", instances)


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
    """Changes and queries the cloud of a layout, as an account in one region."""

    def __init__(self, layout: Layout, wait_for_nodes: WaitForNodes) -> None:
        self._layout = layout
        self._store = CloudStore(layout.store)
        self._wait_for_nodes = wait_for_nodes

    def require_running(self) -> None:
        """Raise `RehearsalError` if no cloud is up."""
        self._store.read()

    def create(self, token: str, inputs: dict[str, Any], region: str) -> tuple[str, CloudResource]:
        """Create a resource in a region; return its id and the resource. `settle` waits for a pool's nodes.

        Raises:
            Refused: by the vendor, or by an injected failure.
        """
        with self._store.transaction() as cloud:
            failure = cloud.take_failure(token)
            if failure is None:
                identity, resource = _new_resource(Account(cloud, self._layout, region), token, inputs)
                if token != CLUSTER:
                    cloud.resources[identity] = resource
        # An error inside the transaction would undo that the failure was used.
        if failure is not None:
            raise Refused(failure)
        return identity, resource

    def read(self, token: str, identity: str) -> CloudResource | None:
        """Return the resource as it is now, or None if it is gone."""
        return _found(self._store.read(), token, identity)

    def update(self, token: str, identity: str, inputs: dict[str, Any]) -> CloudResource:
        """Give a resource other inputs. `settle` waits for a pool's nodes.

        Raises:
            Refused: the resource is gone.
        """
        with self._store.transaction() as cloud:
            resource = _found(cloud, token, identity)
            if resource is None:
                raise Refused(f"ErrorNotFound: {identity} does not exist; `pulumi refresh` takes note of it")
            if token == CLUSTER and cloud.cluster:
                clusters.update_cluster(cloud.cluster, resource, inputs)
            else:
                resource.inputs = inputs
            if token == NODE_POOL:
                node_pools.fit_reported_size(resource)
        return resource

    def settle(self, resource: CloudResource) -> None:
        """Wait until a node pool has as many nodes as its size says; nothing else takes time.

        Raises:
            RehearsalError: the nodes are not ready in time.
        """
        if resource.type == NODE_POOL:
            pool = node_pools.NodePool.of(resource)
            self._wait_for_nodes(pool.id, pool.first_nodes)

    def delete(self, token: str, identity: str) -> None:
        """Delete a resource with its nodes; do nothing if it is already gone.

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

    def query(self, function: str, region: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer a query, such as `cs.getClusters`.

        Raises:
            Refused: the vendor does not accept the arguments, or the query is not simulated.
        """
        if function not in _QUERIES:
            raise Refused(f"{function} is not simulated by the rehearsal cloud")
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
