"""Checks that services and budget fit the pool, in each card mode."""

from __future__ import annotations

import re
from typing import Any

import pytest

from autoscaling.settings import SettingsError, parse, warnings

V100 = "ecs.gn6v-c8g1.2xlarge"
"""A V100 of 16 GiB."""


def settings(pool: dict[str, Any] | None = None, *services: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = [
        {"name": f"s{index}", "image": "registry.example/s:1", "autoscaler": {"maxReplicas": 2}, **service}
        for index, service in enumerate(services or ({},))
    ]
    return {
        "region": "cn-hangzhou",
        "cluster": {"id": "c1"},
        "gpuNodePool": {"instanceTypes": [V100], "size": 4, **(pool or {})},
        "services": named,
        **more,
    }


def fault(config: dict[str, Any]) -> str:
    with pytest.raises(SettingsError) as raised:
        parse(config)
    [sentence] = raised.value.faults
    return sentence


@pytest.mark.parametrize(
    ("mode", "asks", "sentence"),
    [
        (
            "exclusive",
            {"gpuMemoryGiB": 4},
            "services[0].gpuMemoryGiB can't be set when gpuNodePool.cardMode is exclusive",
        ),
        ("exclusive", {"migProfile": "1g.10gb"}, "services[0].migProfile can't be set when"),
        ("cgpu", {}, "services[0].gpuMemoryGiB is missing: set it, because gpuNodePool.cardMode is cgpu."),
        ("cgpu", {"gpuMemoryGiB": 4, "gpus": 1}, "services[0].gpus can't be set when gpuNodePool.cardMode is cgpu"),
        ("share", {"gpuMemoryGiB": 4, "gpuCorePercent": 30}, "services[0].gpuCorePercent can't be set when"),
        (
            "core_mem",
            {"gpuMemoryGiB": 4},
            "services[0].gpuCorePercent is missing: set it, because gpuNodePool.cardMode is core_mem",
        ),
        (
            "cgpu",
            {"gpuMemoryGiB": 17},
            "services[0].gpuMemoryGiB is 17, but a card of the pool has only 16 GiB: lower gpuMemoryGiB.",
        ),
    ],
)
def test_a_pods_request_must_match_the_card_mode(mode: str, asks: dict[str, Any], sentence: str) -> None:
    assert sentence in fault(settings({"cardMode": mode}, asks))


def test_pods_on_shared_cards_must_fit_their_memory_and_computing_power() -> None:
    half = {"gpuMemoryGiB": 8}
    assert parse(settings({"cardMode": "cgpu", "size": 2}, half, half)), "4 x 8 GiB on 2 x 16"
    assert fault(settings({"cardMode": "cgpu", "size": 1}, half, half)) == (
        "services can request 32 GiB of GPU memory (the sum of maxReplicas x gpuMemoryGiB), but gpuNodePool has at "
        "most 16 (1 nodes x 1 cards x 16): make the pool larger or lower maxReplicas."
    )
    greedy = {"gpuMemoryGiB": 1, "gpuCorePercent": 60}
    assert "120 percent of GPU compute" in fault(settings({"cardMode": "core_mem", "size": 1}, greedy))


@pytest.mark.parametrize("budget", [{"maxGpus": 3}, {"maxGpus": 1}])
def test_refuses_a_pool_that_can_exceed_the_gpu_budget(budget: dict[str, Any]) -> None:
    # Two services of two replicas share a pool of 4 GPUs: 4 in total, not 4 each.
    config = settings(None, {}, {}, budget=budget)
    assert fault(config) == (
        f"budget.maxGpus is {budget['maxGpus']}, but gpuNodePool can grow to 4 GPUs (4 nodes x 1 of {V100}): make the "
        "pool smaller or raise maxGpus."
    )
    assert parse(config | {"budget": {"maxGpus": 4}})


def test_the_cost_assumes_the_most_expensive_type_on_every_node() -> None:
    types = {"instanceTypes": [V100, "ecs.gn6i-c4g1.xlarge"]}
    prices = {V100: 26.46, "ecs.gn6i-c4g1.xlarge": 11.63}
    config = settings(types, budget={"maxHourlyCost": 100, "hourlyPrices": prices})
    assert fault(config) == (
        f"budget.maxHourlyCost is 100, but gpuNodePool can cost 105.84 an hour (4 nodes x 26.46 of {V100}): make "
        "the pool smaller or raise maxHourlyCost."
    )
    config["budget"]["maxHourlyCost"] = "105.84"
    assert parse(config)


def test_refuses_a_cost_limit_without_a_price_for_each_type() -> None:
    assert fault(settings(budget={"maxHourlyCost": 100})) == (
        f"budget.maxHourlyCost is 100, but budget.hourlyPrices has no price for {V100}: add the price."
    )


def test_reports_an_unused_price() -> None:
    prices = {V100: 10, "ecs.gn6v-c8g1.2xlarg": 10}
    sentence = fault(settings(budget={"maxHourlyCost": 100, "hourlyPrices": prices}))
    assert sentence.endswith("which is not in gpuNodePool.instanceTypes: remove it.")
    misspelt = settings(budget={"hourlyPrices": {"ecs.gn6v-c8g1.2xlarg": 10}, "maxHourlyCost": 100})
    with pytest.raises(SettingsError, match=f"lists ecs.gn6v-c8g1.2xlarg, .*: did you mean {V100}\\?"):
        parse(misspelt)
    assert "maxHourlyCost is not: set budget.maxHourlyCost, or remove" in fault(
        settings(budget={"hourlyPrices": {V100: 10}})
    )


def test_refuses_a_gpu_budget_that_cannot_be_checked() -> None:
    config = settings({"instanceTypes": ["ecs.gn99.xlarge"]}, budget={"maxGpus": 4})
    assert "the number of GPUs of ecs.gn99.xlarge is unknown: set gpuNodePool.gpusPerNode" in fault(config)
    config["gpuNodePool"]["gpusPerNode"] = 1
    assert parse(config)


@pytest.mark.case("E1")
def test_warns_about_a_single_type_in_a_single_zone() -> None:
    [warning] = warnings(parse(settings({"vswitchIds": ["vsw-aaa"], "instanceTypes": ["ecs.gn6i-c4g1.xlarge"]})))
    assert warning.startswith("gpuNodePool has one instance type in one zone (ecs.gn6i-c4g1.xlarge in vsw-aaa)")
    assert not warnings(parse(settings({"vswitchIds": ["vsw-aaa", "vsw-bbb"]})))


@pytest.mark.case("E1")
def test_refuses_a_type_without_gpus() -> None:
    types = ["ecs.gn6i-c4g1.xlarge", "ecs.g7.xlarge"]
    assert "lists ecs.g7.xlarge, which has no GPU" in fault(settings({"instanceTypes": types}))
    alone = {"instanceTypes": ["ecs.g7.xlarge"], "gpusPerNode": 1}
    assert "lists ecs.g7.xlarge, which has no GPU" in fault(settings(alone))


@pytest.mark.case("D1")
@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"nvidia.com/gpu": 1}},
        {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 1}},
        {"limits": {"nvidia.com/gpu": 0.5}},
        {},
    ],
)
def test_gpus_must_be_whole_numbers_in_limits(resources: dict[str, Any]) -> None:
    assert fault(settings(None, {"resources": resources})).startswith("services[0].resources is not a setting:")
    assert "services[0].gpus is 0.5" in fault(settings(None, {"gpus": 0.5}))


@pytest.mark.parametrize(
    ("pool", "service", "sentence"),
    [
        (
            {"cardMode": "cgpu"},
            {"gpuMemoryGiB": 10, "autoscaler": {"maxReplicas": 5}},
            "services[0].autoscaler.maxReplicas is 5, but gpuMemoryGiB is 10 and a pod must fit on one card. 4 "
            "nodes x 1 cards x 16 GiB have room for 4 pods: make the pool larger or lower maxReplicas.",
        ),
        (
            {"cardMode": "core_mem", "size": 2},
            {"gpuMemoryGiB": 1, "gpuCorePercent": 60, "autoscaler": {"maxReplicas": 3}},
            "gpuCorePercent is 60 and a pod must fit on one card. 2 nodes x 1 cards x 100 percent have room for 2 pods",
        ),
        (
            # Four V100.
            {"instanceTypes": ["ecs.gn6v-c8g1.8xlarge"], "size": 3},
            {"gpus": 3, "autoscaler": {"maxReplicas": 4}},
            "gpus is 3 and all GPUs of a pod must be on one node. 3 nodes x 4 GPUs have room for 3 pods",
        ),
    ],
)
def test_a_pod_never_spans_cards_or_nodes(pool: dict[str, Any], service: dict[str, Any], sentence: str) -> None:
    assert sentence in fault(settings(pool, service))
    service["autoscaler"]["maxReplicas"] -= 1
    assert parse(settings(pool, service))


@pytest.mark.parametrize(
    ("instance_type", "model"),
    [
        (V100, "NVIDIA V100"),
        ("ecs.gn6i-c4g1.xlarge", "NVIDIA T4"),
        ("ecs.gn7i-c8g1.2xlarge", "NVIDIA A10"),
        ("ecs.gn7e-c16g1.4xlarge", None),
        ("ecs.gn8v.4xlarge", None),
    ],
)
def test_warns_about_mig_on_cards_without_mig(instance_type: str, model: str | None) -> None:
    # https://docs.nvidia.com/datacenter/tesla/mig-user-guide/610/supported-gpus.html has A100 and H20.
    profiling = {"metrics": [{"name": "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "target": 20}]}
    service = {"migProfile": "1g.10gb+me", "autoscaler": profiling}
    pool = {"cardMode": "mig", "instanceTypes": [instance_type]}
    messages = warnings(parse(settings(pool, service, metricsAdapter={"labels": "upstream"})))
    expected = [f"{instance_type} has {model}, which NVIDIA's guide to MIG does not list"] if model else []
    assert [re.findall(r"ecs\S+ has .* does not list", warning) for warning in messages[1:]] == [expected] * bool(model)


def test_warns_that_mig_is_not_counted() -> None:
    profiling = {"metrics": [{"name": "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "target": 20}], "maxReplicas": 99}
    mig = {"migProfile": "1g.10gb", "autoscaler": profiling}
    [warning] = warnings(
        parse(
            settings(
                {"cardMode": "mig", "instanceTypes": ["ecs.gn8v.4xlarge"]}, mig, metricsAdapter={"labels": "upstream"}
            )
        )
    )
    assert warning.endswith("check yourself that the services fit into the pool.")
