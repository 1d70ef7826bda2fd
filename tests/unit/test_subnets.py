"""Subnets of a new VPC."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest

from autoscaling.ack.subnets import MAX_ZONES, zone_subnets


def test_the_pods_of_each_zone_get_a_quarter_and_all_nodes_share_the_first() -> None:
    found = [(str(zone.nodes), str(zone.pods)) for zone in zone_subnets(IPv4Network("10.0.0.0/16"), 3)]
    assert found == [
        ("10.0.0.0/20", "10.0.64.0/18"),
        ("10.0.16.0/20", "10.0.128.0/18"),
        ("10.0.32.0/20", "10.0.192.0/18"),
    ]


@pytest.mark.parametrize("block", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "10.1.4.0/22", "10.0.0.0/28"])
def test_subnets_fit_a_vswitch_and_do_not_overlap(block: str) -> None:
    vpc = IPv4Network(block)
    subnets = [subnet for zone in zone_subnets(vpc, MAX_ZONES) for subnet in (zone.nodes, zone.pods)]
    assert len(subnets) == 6
    assert all(subnet.subnet_of(vpc) and subnet.prefixlen >= 16 for subnet in subnets)
    assert not any(subnet.overlaps(other) for subnet, other in combinations(subnets, 2))


def test_adding_a_zone_does_not_change_the_other_zones() -> None:
    vpc = IPv4Network("10.0.0.0/16")
    assert zone_subnets(vpc, 1) == zone_subnets(vpc, 2)[:1] == zone_subnets(vpc, 3)[:1]


def test_the_smallest_allowed_vpc_has_256_pod_addresses_per_zone() -> None:
    assert {zone.pods.num_addresses for zone in zone_subnets(IPv4Network("10.0.0.0/22"), 3)} == {256}
