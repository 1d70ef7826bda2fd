"""VPCs and vSwitches of the simulated vendor API."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

from rehearsal.alicloud.answers import VendorError, query_result
from rehearsal.alicloud.store import NETWORK, SWITCH, Account, Cloud, CloudResource, new_id

_WIDEST_VSWITCH, _NARROWEST_VSWITCH = 16, 29
"""Prefix lengths that a vSwitch can have, from the documentation of VPC."""


def new_network(inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    """Create a VPC; return its id and its resource."""
    return new_id("vpc"), CloudResource(type=NETWORK, inputs=inputs, outputs={"status": "Available"})


def new_vswitch(account: Account, inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    """Create a vSwitch; return its id and its resource.

    Raises:
        VendorError: the VPC or zone does not exist, or the CIDR block is not free in the VPC.
    """
    vpc_id, block = inputs.get("vpcId", ""), IPv4Network(inputs["cidrBlock"])
    cloud, region = account.cloud, account.region
    network = cloud.resources.get(vpc_id)
    if network is None or network.type != NETWORK:
        raise VendorError(f"InvalidVpcId.NotFound: the VPC {vpc_id} does not exist")
    if not inputs["zoneId"].startswith(region):
        raise VendorError(f"InvalidZoneId.NotFound: {region} has no zone {inputs['zoneId']}")
    vpc_block = IPv4Network(network.inputs["cidrBlock"])
    if not block.subnet_of(vpc_block) or not _WIDEST_VSWITCH <= block.prefixlen <= _NARROWEST_VSWITCH:
        raise VendorError(f"InvalidCidrBlock: {block} is not a block of /16 to /29 within the VPC's {vpc_block}")
    for identity, other in vswitches(cloud, vpc_id):
        if block.overlaps(IPv4Network(other.inputs["cidrBlock"])):
            raise VendorError(f"InvalidCidrBlock.Overlapped: {block} overlaps with vSwitch {identity}")
    return new_id("vsw"), CloudResource(type=SWITCH, inputs=inputs, outputs={"status": "Available"})


def require_unused(cloud: Cloud, identity: str) -> None:
    """Raise `VendorError` if a VPC or vSwitch is in use."""
    if any(vswitches(cloud, identity)):
        raise VendorError(f"DependencyViolation.VSwitch: the VPC {identity} has vSwitches")
    users = [cloud.cluster.resource] if cloud.cluster and cloud.cluster.resource else []
    for user in [*users, *cloud.resources.values()]:
        if identity in [*user.inputs.get("vswitchIds", []), *user.inputs.get("podVswitchIds", [])]:
            raise VendorError(
                f"DependencyViolation: the vSwitch {identity} is used by a {user.type.rpartition(':')[2]}"
            )


def vswitches(cloud: Cloud, vpc_id: str) -> Iterator[tuple[str, CloudResource]]:
    """Yield the ID and the resource of each vSwitch of a VPC."""
    for identity, resource in cloud.resources.items():
        if resource.type == SWITCH and resource.inputs["vpcId"] == vpc_id:
            yield identity, resource


def get_switches(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `vpc.getSwitches`."""
    return query_result(
        arguments, "vswitches", [{**inputs, "id": identity} for identity, inputs in _inputs(account, SWITCH)]
    )


def get_networks(account: Account, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer `vpc.getNetworks`."""
    entries = [
        {
            "id": identity,
            "cidrBlock": inputs["cidrBlock"],
            "secondaryCidrBlocks": inputs.get("secondaryCidrBlocks", []),
            "vswitchIds": [vswitch_id for vswitch_id, _ in vswitches(account.cloud, identity)],
        }
        for identity, inputs in _inputs(account, NETWORK)
    ]
    return query_result(arguments, "vpcs", entries)


def _inputs(account: Account, token: str) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((key, resource.inputs) for key, resource in account.cloud.resources.items() if resource.type == token)
