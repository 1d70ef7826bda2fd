"""How a new VPC's addresses are shared out."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest

from autoscaling.ack.subnets import MAX_ZONES, zone_subnets


def test_the_pods_of_a_zone_get_a_quarter_and_the_nodes_share_the_first() -> None:
    found = [(str(one.nodes), str(one.pods)) for one in zone_subnets(IPv4Network("10.0.0.0/16"), 3)]
    assert found == [
        ("10.0.0.0/20", "10.0.64.0/18"),
        ("10.0.16.0/20", "10.0.128.0/18"),
        ("10.0.32.0/20", "10.0.192.0/18"),
    ]


@pytest.mark.parametrize("block", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "10.1.4.0/22", "10.0.0.0/28"])
def test_every_subnet_is_a_vswitch_that_fits_and_no_two_overlap(block: str) -> None:
    vpc = IPv4Network(block)
    subnets = [one for zone in zone_subnets(vpc, MAX_ZONES) for one in (zone.nodes, zone.pods)]
    assert len(subnets) == 6
    assert all(one.subnet_of(vpc) and one.prefixlen >= 16 for one in subnets)
    assert not any(one.overlaps(other) for one, other in combinations(subnets, 2))


def test_a_further_zone_moves_nothing() -> None:
    vpc = IPv4Network("10.0.0.0/16")
    assert zone_subnets(vpc, 1) == zone_subnets(vpc, 2)[:1] == zone_subnets(vpc, 3)[:1]


def test_the_smallest_vpc_that_the_settings_take_has_256_addresses_for_the_pods_of_a_zone() -> None:
    assert {one.pods.num_addresses for one in zone_subnets(IPv4Network("10.0.0.0/22"), 3)} == {256}
