"""How the addresses of a new VPC are shared out among zones, nodes and pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

MOST_ZONES = 3
_WIDEST_VSWITCH = 16
"""Shortest prefix of a vSwitch (the VPC product's documentation)."""


@dataclass(frozen=True)
class ZoneSubnets:
    """The vSwitches of one zone."""

    nodes: IPv4Network
    pods: IPv4Network


def zone_subnets(vpc: IPv4Network, zones: int) -> Sequence[ZoneSubnets]:
    """Subnets of a VPC for so many zones; those of the first zones are the same whatever comes after them.

    With Terway each pod has an address of the VPC. So each zone's pods get a quarter of it, and the nodes of all zones
    share the first quarter. What is more than a vSwitch can have stays free.

    Args:
        vpc: /28 or larger.
        zones: 1 to `MOST_ZONES`.
    """
    of_nodes, *of_pods = vpc.subnets(prefixlen_diff=2)
    return [
        ZoneSubnets(nodes=_as_vswitch(nodes), pods=_as_vswitch(pods))
        for nodes, pods in list(zip(of_nodes.subnets(prefixlen_diff=2), of_pods, strict=False))[:zones]
    ]


def _as_vswitch(block: IPv4Network) -> IPv4Network:
    return block if block.prefixlen >= _WIDEST_VSWITCH else next(block.subnets(new_prefix=_WIDEST_VSWITCH))
