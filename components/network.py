"""The network of a new cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_alicloud as alicloud

from autoscaling.ack.subnets import zone_subnets


@dataclass(frozen=True, kw_only=True)
class ClusterNetworkArgs:
    """A VPC with two vSwitches in each zone."""

    vpc_name: str
    cidr: IPv4Network
    zones: Sequence[str]
    # whether Pulumi refuses to delete the network
    protect: bool = True


class ClusterNetwork(pulumi.ComponentResource):
    """A VPC with a vSwitch for nodes and a vSwitch for pods in each zone. Requires an alicloud provider."""

    vswitch_ids: Sequence[pulumi.Output[str]]
    """The vSwitches of the nodes."""
    pod_vswitch_ids: Sequence[pulumi.Output[str]]

    def __init__(self, name: str, args: ClusterNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:ClusterNetwork", name, None, opts)
        options = pulumi.ResourceOptions(parent=self, protect=args.protect)
        vpc = alicloud.vpc.Network(f"{name}-vpc", vpc_name=args.vpc_name, cidr_block=str(args.cidr), opts=options)

        def vswitch(zone: str, purpose: str, block: IPv4Network) -> pulumi.Output[str]:
            return alicloud.vpc.Switch(
                f"{name}-{purpose}-{zone}",
                vpc_id=vpc.id,
                zone_id=zone,
                cidr_block=str(block),
                vswitch_name=f"{args.vpc_name}-{purpose}-{zone}",
                opts=options,
            ).id

        subnets = list(zip(args.zones, zone_subnets(args.cidr, len(args.zones)), strict=True))
        self.vswitch_ids = [vswitch(zone, "nodes", subnet.nodes) for zone, subnet in subnets]
        self.pod_vswitch_ids = [vswitch(zone, "pods", subnet.pods) for zone, subnet in subnets]
        self.register_outputs({"vswitchIds": self.vswitch_ids, "podVswitchIds": self.pod_vswitch_ids})
