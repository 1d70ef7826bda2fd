"""Managed clusters of the simulated vendor API.

The rehearsal cloud runs a single control plane, so an account has at most one cluster.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from typing import Any

import yaml

from rehearsal.alicloud.answers import VendorError, query_result
from rehearsal.alicloud.store import (
    CLUSTER,
    SWITCH,
    Account,
    Cloud,
    CloudCluster,
    CloudResource,
    read_if_running,
)
from rehearsal.control_plane.kubeconfigs import renew_kubeconfig, temporary_kubeconfig
from rehearsal.errors import RehearsalError
from rehearsal.layout import PORTS, Layout


def new_cluster(account: Account, inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    """Create the account's cluster; return its id and its resource.

    Raises:
        VendorError: its network is not valid.
        RehearsalError: the account already has a cluster.
    """
    cloud, layout = account.cloud, account.layout
    if cloud.cluster:
        raise RehearsalError(
            f"The rehearsal cloud can hold only one cluster, and {cloud.cluster.cluster_id} exists. Delete that "
            "cluster first."
        )
    vpc_id = _require_network(cloud, inputs)
    public = inputs.get("slbInternetEnabled", True)
    outputs: dict[str, Any] = {
        "vpcId": vpc_id,
        "connections": [_connections(layout, public)],
        "version": inputs.get("version") or cloud.kubernetes_version,
        "certificateAuthorities": [],
    }
    if not inputs.get("skipSetCertificateAuthority"):
        outputs["certificateAuthorities"] = [_certificates(read_if_running(layout.kubeconfig))]
    resource = CloudResource(type=CLUSTER, inputs=inputs, outputs=outputs)
    cloud.cluster = CloudCluster(
        cluster_id=f"c{secrets.token_hex(16)}",
        name=inputs["name"],
        region_id=account.region,
        current_version=outputs["version"],
        vpc_id=vpc_id,
        vswitch_ids=inputs["vswitchIds"],
        has_public_endpoint=public,
        deletion_protection=inputs.get("deletionProtection", False),
        resource=resource,
    )
    return cloud.cluster.cluster_id, resource


def update_cluster(cluster: CloudCluster, resource: CloudResource, inputs: dict[str, Any]) -> None:
    """Update the cluster; only version, vSwitches and deletion protection take effect."""
    resource.inputs = inputs
    cluster.deletion_protection = inputs.get("deletionProtection", False)
    cluster.current_version = resource.outputs["version"] = inputs.get("version") or cluster.current_version
    cluster.vswitch_ids = inputs["vswitchIds"]


def delete_cluster(cloud: Cloud, layout: Layout) -> None:
    """Delete the cluster and its cloud resources, and revoke its credentials.

    The Kubernetes objects stay in the control plane, inaccessible, until the cloud stops.

    Raises:
        VendorError: deletion protection is on.
    """
    assert cloud.cluster
    cluster_id = cloud.cluster.cluster_id
    if cloud.cluster.deletion_protection:
        raise VendorError(f"ErrorDeletionProtection: deletion protection of the cluster {cluster_id} is on")
    for identity, resource in list(cloud.resources.items()):
        if resource.inputs.get("clusterId") == cluster_id:
            del cloud.resources[identity]
    cloud.cluster = None
    renew_kubeconfig(layout)


def get_clusters(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `cs.getClusters`: list the region's clusters."""
    clusters = [
        {
            "id": cluster.cluster_id,
            "clusterId": cluster.cluster_id,
            "clusterName": cluster.name,
            "currentVersion": cluster.current_version,
            "regionId": cluster.region_id,
            "state": cluster.state,
            "vpcId": cluster.vpc_id,
            "vswitchIds": cluster.vswitch_ids,
        }
        for cluster in _clusters_of(account)
    ]
    return query_result(arguments, "clusters", clusters)


def get_managed_clusters(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `cs.getManagedKubernetesClusters`, the only query that returns the API server's addresses."""
    details = arguments.get("enableDetails")
    clusters = [
        {
            "id": cluster.cluster_id,
            "connections": [_connections(account.layout, cluster.has_public_endpoint)] if details else [],
        }
        for cluster in _clusters_of(account)
    ]
    return query_result(arguments, "clusters", clusters)


def get_cluster_credential(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `cs.getClusterCredential`: return the administrator's kubeconfig, long-lived or temporary.

    Raises:
        VendorError: the cluster does not exist.
    """
    layout = account.layout
    cluster = require_cluster(account.cloud, arguments.get("clusterId"))
    minutes, expiration = arguments.get("temporaryDurationMinutes"), ""
    if minutes:
        expiry = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
        content, expiration = temporary_kubeconfig(layout, expiry), expiry.isoformat(timespec="seconds")
    else:
        content = read_if_running(layout.kubeconfig)
    if not cluster.has_public_endpoint:
        content = content.replace(layout.address, layout.intranet_address)
    return {
        **arguments,
        "id": cluster.cluster_id,
        "clusterName": cluster.name,
        "kubeConfig": content,
        "expiration": expiration,
    }


def require_cluster(cloud: Cloud, cluster_id: str | None) -> CloudCluster:
    """Return the cluster with this id.

    Raises:
        VendorError: the cluster does not exist.
    """
    if cloud.cluster is None or cluster_id != cloud.cluster.cluster_id:
        raise VendorError(f"ErrorClusterNotFound: the cluster {cluster_id} does not exist")
    return cloud.cluster


def _clusters_of(account: Account) -> list[CloudCluster]:
    cluster = account.cloud.cluster
    return [cluster] if cluster and cluster.region_id == account.region else []


def _require_network(cloud: Cloud, inputs: dict[str, Any]) -> str:
    """Return the VPC id of a new cluster after checking its vSwitches and service CIDR."""
    nodes = [_vswitch(cloud, identity) for identity in inputs["vswitchIds"]]
    pods = [_vswitch(cloud, identity) for identity in inputs.get("podVswitchIds", [])]
    if not pods:
        raise VendorError("InvalidPodVswitchIds: Terway requires vSwitches for pods")
    if unmatched := {vswitch["zoneId"] for vswitch in pods} - {vswitch["zoneId"] for vswitch in nodes}:
        raise VendorError(f"InvalidPodVswitchIds: the nodes have no vSwitch in zone {', '.join(sorted(unmatched))}")
    vpc_id = nodes[0]["vpcId"]
    services = ipaddress.IPv4Network(inputs["serviceCidr"])
    vpc_block = ipaddress.IPv4Network(cloud.resources[vpc_id].inputs["cidrBlock"])
    if services.overlaps(vpc_block):
        raise VendorError(f"InvalidServiceCidr: {services} overlaps with the VPC's {vpc_block}")
    return str(vpc_id)


def _vswitch(cloud: Cloud, identity: str) -> dict[str, Any]:
    found = cloud.resources.get(identity)
    if found is None or found.type != SWITCH:
        raise VendorError(f"InvalidVSwitchId.NotFound: the vSwitch {identity} does not exist")
    return found.inputs


def _connections(layout: Layout, public: bool) -> dict[str, str]:
    return {
        "apiServerInternet": layout.api_server if public else "",
        "apiServerIntranet": f"https://{layout.intranet_address}:{PORTS.api_server}",
    }


def _certificates(content: str) -> dict[str, str]:
    parts = yaml.safe_load(content)
    user = parts["users"][0]["user"]
    return {
        "clusterCert": parts["clusters"][0]["cluster"]["certificate-authority-data"],
        "clientCert": user["client-certificate-data"],
        "clientKey": user["client-key-data"],
    }
