"""Managed clusters: what the vendor's servers take, refuse and answer.

There is one control plane, and so one cluster.
"""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from typing import Any

import yaml

from rehearsal.alicloud.listing import listing, passes
from rehearsal.alicloud.refused import Refused
from rehearsal.alicloud.store import (
    CLUSTER,
    NOT_RUNNING,
    SWITCH,
    Cloud,
    CloudCluster,
    CloudResource,
    new_id,
)
from rehearsal.control_plane.credentials import Credentials
from rehearsal.errors import RehearsalError
from rehearsal.layout import PORTS, Layout

_SPEC = "ack.pro.small"
_TYPE = "ManagedKubernetes"
_PROFILE = "Default"
_TERWAY = "terway-eniip"
_TEXTS = (
    "clusterDomain", "ipStack", "podCidr", "proxyMode", "resourceGroupId", "securityGroupId", "serviceCidr", "timezone",
)  # fmt: skip
_FILTERS = ("clusterId", "clusterName", "clusterSpec", "clusterType", "profile")
_TEMPORARY_MINUTES = range(15, 4320 + 1)


def new_cluster(cloud: Cloud, inputs: dict[str, Any], layout: Layout, region: str) -> tuple[str, CloudResource]:
    """Create the account's cluster; returns its id and what a program sees of it.

    Raises:
        Refused: its network does not fit together.
        RehearsalError: there is one already.
    """
    if cloud.cluster:
        raise RehearsalError(
            f"The rehearsal cloud has one control plane, and cluster {cloud.cluster.cluster_id} stands on it."
        )
    vpc_id = _require_network(cloud, inputs)
    public = inputs.get("slbInternetEnabled", True)
    outputs: dict[str, Any] = {
        "vpcId": vpc_id,
        "securityGroupId": new_id("sg"),
        "natGatewayId": new_id("ngw") if inputs.get("newNatGateway", True) else "",
        "slbInternet": layout.address if public else "",
        "slbIntranet": layout.intranet_address,
        "connections": [_connections(layout, public)],
        "version": inputs.get("version") or cloud.kubernetes_version,
        "certificateAuthorities": [],
    }
    if not inputs.get("skipSetCertificateAuthority"):
        outputs["certificateAuthorities"] = [_certificates(_long_lived(layout))]
    resource = CloudResource(type=CLUSTER, inputs=inputs, outputs=outputs)
    cloud.cluster = CloudCluster(
        cluster_id=f"c{secrets.token_hex(16)}",
        name=inputs.get("name") or f"{inputs.get('namePrefix', 'Terraform-Creation')}-{secrets.token_hex(4)}",
        region_id=region,
        current_version=outputs["version"],
        vpc_id=vpc_id,
        vswitch_ids=inputs["vswitchIds"],
        in_the_internet=public,
        deletion_protection=inputs.get("deletionProtection", False),
        resource=resource,
    )
    return cloud.cluster.cluster_id, resource


def update_cluster(cluster: CloudCluster, resource: CloudResource, inputs: dict[str, Any]) -> None:
    """Give the cluster other inputs; those that count at its creation only change nothing else."""
    resource.inputs = inputs
    cluster.deletion_protection = inputs.get("deletionProtection", False)
    cluster.current_version = resource.outputs["version"] = inputs.get("version") or cluster.current_version
    cluster.vswitch_ids = inputs["vswitchIds"]


def delete_cluster(cloud: Cloud, layout: Layout) -> None:
    """Delete the cluster with all that the vendor has of it; no credential leads to it any more.

    What is in the control plane stays there, out of reach, until the cloud ends.

    Raises:
        Refused: it is protected.
    """
    assert cloud.cluster
    cluster_id = cloud.cluster.cluster_id
    if cloud.cluster.deletion_protection:
        raise Refused(f"ErrorDeletionProtection: deletion protection of the cluster {cluster_id} is on")
    for identity, resource in list(cloud.resources.items()):
        if resource.inputs.get("clusterId") == cluster_id:
            del cloud.resources[identity]
    cloud.cluster = None
    Credentials(layout).renew()


def get_clusters(cloud: Cloud, region: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of `cs.getClusters`: the region's clusters that pass every given filter."""
    found = []
    if cloud.cluster and cloud.cluster.region_id == region:
        cluster, details = cloud.cluster, arguments.get("enableDetails")
        inputs = cluster.resource.inputs if cluster.resource else {}
        listed = {
            # The SDK's class asks for every field; the last four stay empty without enableDetails, as the real ones do.
            **dict.fromkeys(_TEXTS, ""),
            "id": cluster.cluster_id,
            "clusterId": cluster.cluster_id,
            "clusterName": cluster.name,
            "clusterSpec": inputs.get("clusterSpec", _SPEC),
            "clusterType": _TYPE,
            "profile": _PROFILE,
            "currentVersion": cluster.current_version,
            "deletionProtection": cluster.deletion_protection,
            "regionId": cluster.region_id,
            "state": cluster.state,
            "vpcId": cluster.vpc_id,
            "vswitchIds": cluster.vswitch_ids,
            "tags": {},
            "nodeCidrMask": "25" if details else "",
            "autoMode": {"enabled": False} if details else {},
            "maintenanceWindow": {},
            "operationPolicy": {},
        }
        found = [listed] if passes(listed, arguments, _FILTERS, cluster.name) else []
    return listing(arguments, "clusters", found, [one["clusterName"] for one in found])


def get_managed_clusters(cloud: Cloud, layout: Layout, region: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of `cs.getManagedKubernetesClusters`, which alone tells the API server's addresses."""
    found = []
    if cloud.cluster and cloud.cluster.region_id == region:
        cluster, details = cloud.cluster, arguments.get("enableDetails")
        listed: dict[str, Any] = {
            "id": cluster.cluster_id,
            "name": cluster.name,
            "state": cluster.state,
            "vpcId": cluster.vpc_id,
            "availabilityZone": "",
            "natGatewayId": "",
            "securityGroupId": "",
            "rrsaConfig": {"enabled": False},
            "workerNodes": [],
            "connections": [_connections(layout, cluster.in_the_internet)] if details else [],
        }
        found = [listed] if passes(listed, arguments, (), cluster.name) else []
    return listing(arguments, "clusters", found, [one["name"] for one in found])


def get_cluster_credential(cloud: Cloud, layout: Layout, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of `cs.getClusterCredential`: the administrator's kubeconfig, long-lived or for some minutes.

    Raises:
        Refused: there is no such cluster, or nothing is valid as long.
    """
    cluster = require_cluster(cloud, arguments.get("clusterId"))
    minutes, expiration = arguments.get("temporaryDurationMinutes"), ""
    if minutes:
        if int(minutes) not in _TEMPORARY_MINUTES:
            raise Refused(f"InvalidParameter: temporary_duration_minutes is {minutes:g}, not 15 to 4320")
        validity = datetime.timedelta(minutes=minutes)
        content = Credentials(layout).temporary(validity)
        expiration = (datetime.datetime.now(datetime.UTC) + validity).isoformat(timespec="seconds")
    else:
        content = _long_lived(layout)
    if not cluster.in_the_internet:
        content = content.replace(layout.address, layout.intranet_address)
    return {
        **arguments,
        "id": cluster.cluster_id,
        "clusterName": cluster.name,
        "kubeConfig": content,
        "certificateAuthorities": [],
        "expiration": expiration,
    }


def require_cluster(cloud: Cloud, cluster_id: str | None) -> CloudCluster:
    """The cluster of that id.

    Raises:
        Refused: there is none.
    """
    if cloud.cluster is None or cluster_id != cloud.cluster.cluster_id:
        raise Refused(f"ErrorClusterNotFound: the cluster {cluster_id} does not exist")
    return cloud.cluster


def _require_network(cloud: Cloud, inputs: dict[str, Any]) -> str:
    """The VPC of a cluster that is to be created."""
    nodes = [_vswitch(cloud, one) for one in inputs.get("vswitchIds", [])]
    pods = [_vswitch(cloud, one) for one in inputs.get("podVswitchIds", [])]
    terway = any(addon.get("name") == _TERWAY for addon in inputs.get("addons", []))
    if terway and not pods:
        raise Refused("InvalidPodVswitchIds: Terway needs vSwitches for the pods")
    if not terway and not inputs.get("podCidr"):
        raise Refused("EmptyCIDR: without Terway the pods need a CIDR block")
    if not nodes:
        raise RehearsalError("The rehearsal cloud makes no vSwitches of its own: give the cluster vswitchIds.")
    vpcs = {one["vpcId"] for one in (*nodes, *pods)}
    if len(vpcs) > 1:
        raise Refused("InvalidVSwitchId: the vSwitches are of more than one VPC")
    if stray := {one["zoneId"] for one in pods} - {one["zoneId"] for one in nodes}:
        raise Refused(f"InvalidPodVswitchIds: no vSwitch of the nodes is in zone {', '.join(sorted(stray))}")
    [vpc_id] = vpcs
    services = ipaddress.IPv4Network(inputs.get("serviceCidr") or "172.19.0.0/20")
    whole = ipaddress.IPv4Network(cloud.resources[vpc_id].inputs["cidrBlock"])
    if services.overlaps(whole):
        raise Refused(f"InvalidServiceCidr: {services} overlaps with the VPC's {whole}")
    return str(vpc_id)


def _vswitch(cloud: Cloud, identity: str) -> dict[str, Any]:
    found = cloud.resources.get(identity)
    if found is None or found.type != SWITCH:
        raise Refused(f"InvalidVSwitchId.NotFound: the vSwitch {identity} does not exist")
    return found.inputs


def _connections(layout: Layout, public: bool) -> dict[str, str]:
    return {
        "apiServerInternet": f"https://{layout.address}:{PORTS.api_server}" if public else "",
        "apiServerIntranet": f"https://{layout.intranet_address}:{PORTS.api_server}",
        "masterPublicIp": layout.address if public else "",
        "serviceDomain": "",
    }


def _certificates(content: str) -> dict[str, str]:
    parts = yaml.safe_load(content)
    user = parts["users"][0]["user"]
    return {
        "clusterCert": parts["clusters"][0]["cluster"]["certificate-authority-data"],
        "clientCert": user["client-certificate-data"],
        "clientKey": user["client-key-data"],
    }


def _long_lived(layout: Layout) -> str:
    try:
        return layout.kubeconfig.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RehearsalError(NOT_RUNNING) from None
