"""Check the existing vSwitches for a new cluster, and the addresses of its Services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_alicloud as alicloud

_Vswitch = alicloud.vpc.outputs.GetSwitchesVswitchResult
_Vpc = alicloud.vpc.outputs.GetNetworksVpcResult


@dataclass(frozen=True, kw_only=True)
class ExistingNetwork:
    """vSwitches that the stack does not manage."""

    region: pulumi.Input[str]
    vswitch_ids: Sequence[str]
    """For nodes."""
    pod_vswitch_ids: Sequence[str]
    """For pods."""

    def check(self, services: IPv4Network, invoke: pulumi.InvokeOutputOptions) -> pulumi.Output[bool]:
        """Check that all vSwitches are in the same VPC, and that the Services' addresses do not overlap with it.

        Args:
            services: CIDR block of the cluster's Services.
            invoke: options with the parent, which has the alicloud provider.

        Raises:
            pulumi.RunError: a vSwitch or the CIDR block is not suitable. Raised at preview too.
        """
        region = pulumi.Output.from_input(self.region)
        found = alicloud.vpc.get_switches_output(ids=[*self.vswitch_ids, *self.pod_vswitch_ids], opts=invoke)
        # Not Output.all: it turns the SDK's classes into plain dictionaries.
        vpc_id: pulumi.Output[str] = found.vswitches.apply(
            lambda vswitches: region.apply(lambda region_id: self._shared_vpc(vswitches, region_id))
        )
        networks = alicloud.vpc.get_networks_output(ids=vpc_id.apply(lambda vpc: [vpc]), opts=invoke)
        passed: pulumi.Output[bool] = networks.vpcs.apply(
            lambda vpcs: found.vswitches.apply(lambda vswitches: _require_apart(services, vpcs, vswitches))
        )
        return passed

    def _shared_vpc(self, vswitches: Sequence[_Vswitch], region: str) -> str:
        by_id = {vswitch.id: vswitch for vswitch in vswitches}
        given = {"vswitchIds": self.vswitch_ids, "podVswitchIds": self.pod_vswitch_ids}
        for key, ids in given.items():
            for vswitch_id in ids:
                if vswitch_id not in by_id:
                    raise pulumi.RunError(
                        f"cluster.create.{key} has {vswitch_id}, but the account has no such vSwitch in {region}. "
                        "Check the ID and the region."
                    )
        first = by_id[self.vswitch_ids[0]]
        for other in by_id.values():
            if other.vpc_id != first.vpc_id:
                raise pulumi.RunError(
                    f"cluster.create: vSwitch {first.id} is in {first.vpc_id}, but {other.id} is in {other.vpc_id}. "
                    "Use vSwitches of the same VPC."
                )
        zones = {key: {by_id[vswitch_id].zone_id: vswitch_id for vswitch_id in ids} for key, ids in given.items()}
        for key, other_key in (("vswitchIds", "podVswitchIds"), ("podVswitchIds", "vswitchIds")):
            for zone, vswitch_id in zones[key].items():
                if zone not in zones[other_key]:
                    raise pulumi.RunError(
                        f"cluster.create.{key} has {vswitch_id} in zone {zone}, but {other_key} has no vSwitch there. "
                        f"With Terway, both lists need the same zones. Add a vSwitch in {zone}, or remove {vswitch_id}."
                    )
        return first.vpc_id


def _require_apart(services: IPv4Network, vpcs: Sequence[_Vpc], vswitches: Sequence[_Vswitch]) -> bool:
    taken = [(f"VPC {vpc.id}", block) for vpc in vpcs for block in (vpc.cidr_block, *vpc.secondary_cidr_blocks)]
    taken += [(f"vSwitch {vswitch.id}", vswitch.cidr_block) for vswitch in vswitches]
    for owner, block in taken:
        if services.overlaps(IPv4Network(block)):
            raise pulumi.RunError(
                f"cluster.create.serviceCidr is {services}, which overlaps with {block} of {owner}. Choose a block "
                "that nothing in the VPC uses."
            )
    return True
