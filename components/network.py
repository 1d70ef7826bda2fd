"""The network of a new cluster: a VPC of its own, or vSwitches that are there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_alicloud as alicloud

from autoscaling.ack.subnets import zone_subnets

_Vswitch = alicloud.vpc.outputs.GetSwitchesVswitchResult
_Vpc = alicloud.vpc.outputs.GetNetworksVpcResult


@dataclass(frozen=True, kw_only=True)
class ClusterNetworkArgs:
    """A VPC with two vSwitches in each zone."""

    vpc_name: str
    cidr: IPv4Network
    zones: Sequence[str]
    # whether Pulumi refuses to delete it
    protect: bool = True


class ClusterNetwork(pulumi.ComponentResource):
    """A VPC, with a vSwitch for nodes and one for pods in each zone. Needs an alicloud provider."""

    vswitch_ids: Sequence[pulumi.Output[str]]
    """Of the nodes."""
    pod_vswitch_ids: Sequence[pulumi.Output[str]]

    def __init__(self, name: str, args: ClusterNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:ClusterNetwork", name, None, opts)
        options = pulumi.ResourceOptions(parent=self, protect=args.protect)
        vpc = alicloud.vpc.Network(f"{name}-vpc", vpc_name=args.vpc_name, cidr_block=str(args.cidr), opts=options)

        def vswitch(zone: str, what: str, block: IPv4Network) -> pulumi.Output[str]:
            made = alicloud.vpc.Switch(
                f"{name}-{what}-{zone}",
                vpc_id=vpc.id,
                zone_id=zone,
                cidr_block=str(block),
                vswitch_name=f"{args.vpc_name}-{what}-{zone}",
                opts=options,
            )
            return made.id

        subnets = list(zip(args.zones, zone_subnets(args.cidr, len(args.zones)), strict=True))
        self.vswitch_ids = [vswitch(zone, "nodes", one.nodes) for zone, one in subnets]
        self.pod_vswitch_ids = [vswitch(zone, "pods", one.pods) for zone, one in subnets]


@dataclass(frozen=True, kw_only=True)
class ExistingNetwork:
    """vSwitches that somebody made."""

    region: pulumi.Input[str]
    # of the nodes
    vswitch_ids: Sequence[str]
    pod_vswitch_ids: Sequence[str]

    def with_room_for(self, services: IPv4Network, invoke: pulumi.InvokeOutputOptions) -> pulumi.Output[bool]:
        """Known once the vSwitches were found to be of one VPC, and apart from the Services' addresses.

        Fails, at preview too, where they are not.

        Args:
            services: addresses of the cluster's Services.
            invoke: with the parent whose alicloud provider is asked.
        """
        region = pulumi.Output.from_input(self.region)
        found = alicloud.vpc.get_switches_output(ids=[*self.vswitch_ids, *self.pod_vswitch_ids], opts=invoke)
        # Not Output.all: it turns the SDK's classes into plain dictionaries.
        vpc_id: pulumi.Output[str] = found.vswitches.apply(
            lambda vswitches: region.apply(lambda where: self._one_vpc(vswitches, where))
        )
        networks = alicloud.vpc.get_networks_output(ids=vpc_id.apply(lambda one: [one]), opts=invoke)
        passed: pulumi.Output[bool] = networks.vpcs.apply(
            lambda vpcs: found.vswitches.apply(lambda vswitches: _require_apart(services, vpcs, vswitches))
        )
        return passed

    def _one_vpc(self, vswitches: Sequence[_Vswitch], region: str) -> str:
        by_id = {one.id: one for one in vswitches}
        given = {"vswitchIds": self.vswitch_ids, "podVswitchIds": self.pod_vswitch_ids}
        for key, ids in given.items():
            for one in ids:
                if one not in by_id:
                    raise pulumi.RunError(
                        f"cluster.create.{key} has {one}, and the account has no such vSwitch in {region}: check the "
                        "id and region."
                    )
        first = by_id[self.vswitch_ids[0]]
        for other in by_id.values():
            if other.vpc_id != first.vpc_id:
                raise pulumi.RunError(
                    f"cluster.create: vSwitch {first.id} is in {first.vpc_id}, and {other.id} in {other.vpc_id}: name "
                    "vSwitches of one VPC."
                )
        zones = {key: {by_id[one].zone_id: one for one in ids} for key, ids in given.items()}
        for key, other_key in (("vswitchIds", "podVswitchIds"), ("podVswitchIds", "vswitchIds")):
            for zone, one in zones[key].items():
                if zone not in zones[other_key]:
                    raise pulumi.RunError(
                        f"cluster.create.{key} has {one} in zone {zone}, and {other_key} has none there: with Terway "
                        "nodes and their pods are in the same zones; add one, or remove it."
                    )
        return first.vpc_id


def _require_apart(services: IPv4Network, vpcs: Sequence[_Vpc], vswitches: Sequence[_Vswitch]) -> bool:
    taken = [(f"VPC {vpc.id}", block) for vpc in vpcs for block in (vpc.cidr_block, *vpc.secondary_cidr_blocks)]
    taken += [(f"vSwitch {one.id}", one.cidr_block) for one in vswitches]
    for what, block in taken:
        if services.overlaps(IPv4Network(block)):
            raise pulumi.RunError(
                f"cluster.create.serviceCidr is {services}, which overlaps with {block} of {what}: choose addresses "
                "that nothing in the VPC has."
            )
    return True
