"""Checks that pods fit a node, and that no secret is in a service's environment."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaling.ack.instance_types import find_instance_type
from autoscaling.settings import SettingsError, parse, warnings
from tests.unit.test_gpu_checks import fault, settings

SMALLEST = "ecs.gn5i-c2g1.large"
"""A P4 of 8 GiB with 2 vCPUs and 8 GiB: the smallest type in the table with a whole GPU."""
TWO_GPUS = {"instanceTypes": ["ecs.gn6v-c8g1.4xlarge"], "size": 4}
"""With 16 vCPUs and 64 GiB."""


def test_the_defaults_fit_each_type_with_whole_cards() -> None:
    smallest = find_instance_type(SMALLEST)
    assert smallest and (smallest.vcpus, smallest.memory_gib, smallest.gpus) == (2, 8, 1)
    assert not [
        warning for warning in warnings(parse(settings({"instanceTypes": [SMALLEST]}))) if "zone" not in warning
    ]


@pytest.mark.parametrize(
    ("service", "sentence"),
    [
        ({"cpu": "17"}, "services[0].cpu is 17, but a node of the pool has only 16 vCPUs: lower cpu."),
        ({"cpu": "16001m"}, "services[0].cpu is 16001m, but a node of the pool has only 16 vCPUs: lower cpu."),
        ({"memory": "65Gi"}, "services[0].memory is 65Gi, but a node of the pool has only 64 GiB: lower memory."),
        ({"memory": "65537Mi"}, "services[0].memory is 65537Mi, but a node of the pool has only 64 GiB: lower memory."),
        ({"memory": "1Ti"}, "services[0].memory is 1Ti, but a node of the pool has only 64 GiB: lower memory."),
        ({"memory": "69G"}, "services[0].memory is 69G, but a node of the pool has only 64 GiB: lower memory."),
        (
            {"cpu": "9", "autoscaler": {"maxReplicas": 5}},
            "services[0].cpu is 9: a node of the pool (16 vCPUs) has room for 1 of these pods, so 4 nodes have "
            "room for 4. maxReplicas is 5: lower cpu or maxReplicas, or make the pool larger.",
        ),
    ],
)
def test_refuses_pods_that_fit_no_node(service: dict[str, Any], sentence: str) -> None:
    assert fault(settings(TWO_GPUS, service)) == sentence


@pytest.mark.parametrize("amount", [{"cpu": "8"}, {"memory": "32Gi"}, {"memory": "33554432Ki"}, {"cpu": "0"}])
def test_accepts_pods_that_fill_a_node_exactly(amount: dict[str, str]) -> None:
    assert not warnings(parse(settings(TWO_GPUS, {**amount, "autoscaler": {"maxReplicas": 8}})))


def test_warns_about_gpus_that_stay_unused_for_lack_of_cpus() -> None:
    assert warnings(parse(settings(TWO_GPUS, {"cpu": 9}))) == [
        "services[0].cpu is 9: a node's GPUs fit 2 of these pods. Together the pods request 18 vCPUs, but the "
        "smallest node has 16. Some GPUs would stay unused: lower cpu."
    ]
    shared = {"instanceTypes": ["ecs.gn6i-c4g1.xlarge"], "cardMode": "cgpu"}
    # 8 pods on a T4 of 16 GiB, with 4 vCPUs and 15 GiB.
    cpu, memory = warnings(parse(settings(shared, {"gpuMemoryGiB": 2})))
    assert "services[0].cpu is 1: a node's GPUs fit 8 of these pods." in cpu
    assert "8 of these pods. Together the pods request 16 GiB, but the smallest node has 15." in memory
    assert not warnings(parse(settings(shared, {"gpuMemoryGiB": 2, "cpu": "250m", "memory": "1Gi"})))


def test_a_pod_with_all_gpus_of_a_node_may_have_all_of_its_cpus() -> None:
    assert not warnings(parse(settings(TWO_GPUS, {"gpus": 2, "cpu": 16, "memory": "64Gi"})))


def test_refuses_by_the_largest_type_and_warns_by_the_smallest() -> None:
    mixed = {"instanceTypes": ["ecs.gn6i-c4g1.xlarge", "ecs.gn6v-c8g1.2xlarge"]}
    assert fault(settings(mixed, {"cpu": 9})).endswith("a node of the pool has only 8 vCPUs: lower cpu.")
    [warning] = warnings(parse(settings(mixed, {"cpu": 5})))
    assert "1 of these pods. Together the pods request 5 vCPUs, but the smallest node has 4." in warning


@pytest.mark.parametrize("unknown", ["ecs.gn99.xlarge", "ecs.gn8ia.8xlarge"])
def test_does_not_check_types_that_the_table_lacks(unknown: str) -> None:
    assert parse(settings({"instanceTypes": [unknown], "gpusPerNode": 1}, {"memory": "900Gi"}))


def test_adopted_pods_without_requests_always_fit() -> None:
    shared = {"instanceTypes": ["ecs.gn6i-c4g1.xlarge"], "cardMode": "cgpu"}
    adopted = {"gpuMemoryGiB": 2, "adopted": True}
    assert not [warning for warning in warnings(parse(settings(shared, adopted))) if "zone" not in warning]


def test_warns_about_a_non_root_user_on_a_low_port() -> None:
    [warning] = warnings(parse(settings(None, {"runAsNonRoot": True})))
    assert warning.startswith("services[0].runAsNonRoot is true, but containerPort is 80.")
    assert not warnings(parse(settings(None, {"runAsNonRoot": True, "containerPort": 1024})))


def test_an_encrypted_value_is_not_written_into_the_environment() -> None:
    config = settings(None, {"env": {"TOKEN": "s3cret"}, "args": ["s3cret"]})
    with pytest.raises(SettingsError) as raised:
        parse(config, encrypted=["services[0].env.TOKEN", "services[0].args[0]"])
    args, env = raised.value.faults
    assert env == (
        "services[0].env.TOKEN is encrypted, but the cluster stores env as plain text: put the value into a "
        "Kubernetes Secret and name that Secret in services[0].envFrom."
    )
    assert args.startswith("services[0].args[0] is encrypted, but the cluster stores args as plain text: ")


@pytest.mark.parametrize(
    "names",
    [
        [{"name": "bert"}, {"name": "new", "formerly": "bert"}],
        [{"name": "new", "formerly": "bert"}, {"name": "other", "formerly": "bert"}],
        [{"name": "new", "formerly": "bert"}, {"name": "newer", "formerly": "new"}],
    ],
)
def test_refuses_a_name_that_another_service_has_or_had(names: list[dict[str, str]]) -> None:
    services = [{**service, "autoscaler": {"name": f"hpa-{index}"}} for index, service in enumerate(names)]
    assert "2 services are or were named default/" in fault(settings({"size": 20}, *services))
    apart = [names[0], {**names[1], "namespace": "other"}]
    assert parse(settings({"size": 20}, *apart))


def test_a_service_may_return_to_its_first_name() -> None:
    assert parse(settings(None, {"name": "bert", "formerly": "bert"}))
