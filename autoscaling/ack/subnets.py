"""Subnets of a new VPC for the nodes and pods of each zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

MAX_ZONES = 3
_SHORTEST_PREFIX = 16
"""Shortest prefix of a vSwitch, from the documentation of Alibaba Cloud VPC."""


@dataclass(frozen=True)
class ZoneSubnets:
    """The address ranges of a zone's two vSwitches."""

    nodes: IPv4Network
    pods: IPv4Network


def zone_subnets(vpc: IPv4Network, zones: int) -> Sequence[ZoneSubnets]:
    """Return the subnets of each zone. Adding a zone does not change the subnets of the other zones.

    With Terway, each pod has an address of the VPC. The pods of each zone get a quarter of the addresses; the nodes of
    all zones share the first quarter. Addresses beyond the size of a vSwitch stay free.

    Args:
        vpc: address range, /28 or larger.
        zones: number of zones, 1 to `MAX_ZONES`.
    """
    node_quarter, *pod_quarters = vpc.subnets(prefixlen_diff=2)
    return [
        ZoneSubnets(nodes=_as_vswitch(nodes), pods=_as_vswitch(pods))
        for nodes, pods in list(zip(node_quarter.subnets(prefixlen_diff=2), pod_quarters, strict=False))[:zones]
    ]


def _as_vswitch(block: IPv4Network) -> IPv4Network:
    return block if block.prefixlen >= _SHORTEST_PREFIX else next(block.subnets(new_prefix=_SHORTEST_PREFIX))
