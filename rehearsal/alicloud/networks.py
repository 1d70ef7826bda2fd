"""VPCs and vSwitches: what the vendor's servers take, refuse and answer."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from rehearsal.alicloud.listing import listing, passes
from rehearsal.alicloud.refused import Refused
from rehearsal.alicloud.store import NETWORK, SWITCH, Cloud, CloudResource, new_id

_WIDEST_VSWITCH, _NARROWEST_VSWITCH = 16, 29
"""Lengths of a vSwitch's prefix (the VPC product's documentation)."""


def new_network(inputs: dict[str, Any]) -> tuple[str, CloudResource]:
    """A VPC, and its id."""
    _cidr(inputs.get("cidrBlock", "172.16.0.0/12"))
    outputs = {"status": "Available", "routeTableId": new_id("vtb"), "routerId": new_id("vrt")}
    return new_id("vpc"), CloudResource(type=NETWORK, inputs=inputs, outputs=outputs)


def new_vswitch(cloud: Cloud, inputs: dict[str, Any], region: str) -> tuple[str, CloudResource]:
    """A vSwitch, and its id.

    Raises:
        Refused: there is no such VPC or zone, or the CIDR is not free in the VPC.
    """
    vpc_id, block = inputs.get("vpcId", ""), _cidr(inputs.get("cidrBlock", ""))
    network = cloud.resources.get(vpc_id)
    if network is None or network.type != NETWORK:
        raise Refused(f"InvalidVpcId.NotFound: the VPC {vpc_id} does not exist")
    if not inputs["zoneId"].startswith(region):
        raise Refused(f"InvalidZoneId.NotFound: {region} has no zone {inputs['zoneId']}")
    whole = _cidr(network.inputs["cidrBlock"])
    if not block.subnet_of(whole) or not _WIDEST_VSWITCH <= block.prefixlen <= _NARROWEST_VSWITCH:
        raise Refused(f"InvalidCidrBlock: {block} is no block of /16 to /29 within the VPC's {whole}")
    for identity, other in vswitches(cloud, vpc_id):
        if block.overlaps(_cidr(other.inputs["cidrBlock"])):
            raise Refused(f"InvalidCidrBlock.Overlapped: {block} overlaps with that of {identity}")
    return new_id("vsw"), CloudResource(type=SWITCH, inputs=inputs, outputs={"status": "Available"})


def require_unused(cloud: Cloud, identity: str) -> None:
    """Raise `Refused` where a VPC or vSwitch that is to be deleted has something in it."""
    if any(vswitches(cloud, identity)):
        raise Refused(f"DependencyViolation.VSwitch: the VPC {identity} has vSwitches")
    users = [cloud.cluster.resource] if cloud.cluster and cloud.cluster.resource else []
    for user in [*users, *cloud.resources.values()]:
        if identity in [*user.inputs.get("vswitchIds", []), *user.inputs.get("podVswitchIds", [])]:
            raise Refused(f"DependencyViolation: the vSwitch {identity} is used by a {user.type.rpartition(':')[2]}")


def vswitches(cloud: Cloud, vpc_id: str) -> Iterator[tuple[str, CloudResource]]:
    """The vSwitches of a VPC, with their ids."""
    for identity, resource in cloud.resources.items():
        if resource.type == SWITCH and resource.inputs["vpcId"] == vpc_id:
            yield identity, resource


def get_switches(cloud: Cloud, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of `vpc.getSwitches`."""
    found = []
    for identity, resource in cloud.resources.items():
        if resource.type != SWITCH:
            continue
        name, block = resource.inputs.get("vswitchName", ""), resource.inputs["cidrBlock"]
        one = {
            # The SDK's class asks for every field.
            **dict.fromkeys(("creationTime", "description", "ipv6CidrBlock", "resourceGroupId", "routeTableId"), ""),
            "id": identity,
            "vswitchId": identity,
            "name": name,
            "vswitchName": name,
            "vpcId": resource.inputs["vpcId"],
            "zoneId": resource.inputs["zoneId"],
            "cidrBlock": block,
            "availableIpAddressCount": _cidr(block).num_addresses - 4,
            "enableIpv6": False,
            "isDefault": False,
            "status": "Available",
            "tags": {},
        }
        if passes(one, arguments, ("vpcId", "zoneId", "cidrBlock", "vswitchName"), name):
            found.append(one)
    return listing(arguments, "vswitches", found, [one["name"] for one in found])


def get_networks(cloud: Cloud, arguments: dict[str, Any], region: str) -> dict[str, Any]:
    """The answer of `vpc.getNetworks`."""
    found = []
    for identity, resource in cloud.resources.items():
        if resource.type != NETWORK:
            continue
        name = resource.inputs.get("vpcName", "")
        one = {
            **dict.fromkeys(
                ("creationTime", "description", "dhcpOptionsSetId", "dhcpOptionsSetStatus", "dnsHostnameStatus",
                 "ipv6CidrBlock", "resourceGroupId", "routeTableId", "routerId", "vrouterId"), ""
            ),
            "id": identity,
            "vpcId": identity,
            "vpcName": name,
            "cidrBlock": resource.inputs["cidrBlock"],
            "secondaryCidrBlocks": resource.inputs.get("secondaryCidrBlocks", []),
            "userCidrs": [],
            "regionId": region,
            "isDefault": False,
            "status": "Available",
            "tags": {},
            "vswitchIds": [one for one, _ in vswitches(cloud, identity)],
        }  # fmt: skip
        if passes(one, arguments, ("cidrBlock", "vpcName"), name):
            found.append(one)
    return listing(arguments, "vpcs", found, [one["vpcName"] for one in found])


def _cidr(text: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError:
        raise Refused(f"InvalidCidrBlock: {text!r} is no CIDR block") from None
