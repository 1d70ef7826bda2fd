"""The pool's options and the GPUs that are kept warm: what is registered, and what is told of them."""

from __future__ import annotations

from typing import Any

import pytest

from autoscaling.ack.placeholders import placeholder_limits
from autoscaling.ack.pool_changes import update_warnings
from autoscaling.settings import parse, warnings
from components.gpu_node_pool import NodeTaint, PoolSpec
from components.warm_capacity import WarmCapacityArgs
from program.args import pool_spec
from tests.unit.program import DEPLOYMENT, HPA, NODE_POOL, Recorder, dev_config, run_program
from tests.unit.test_gpu_checks import V100, settings

PRIORITY_CLASS = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
T4 = "ecs.gn6i-c4g1.xlarge"
FOUR_V100 = "ecs.gn6v-c8g1.8xlarge"
TEAM = {"key": "team", "value": "ml"}


def of(**pool: Any) -> dict[str, Any]:
    return {"instanceTypes": [V100], "autoscaling": {"min": 1, "max": 10}, **pool}


def made(**pool: Any) -> Recorder:
    return run_program(dev_config(gpuNodePool=of(**pool)), Recorder())


def placeholders(program: Recorder) -> Any:
    [deployment] = [one for one in program.of_type(DEPLOYMENT) if one.name == "gpu-placeholders"]
    return deployment


@pytest.mark.parametrize(("pools", "told"), [(("gpu",), True), (("other",), False), ((), False)])
def test_a_pool_of_that_name_which_the_stack_does_not_have_is_told_at_preview(
    pools: tuple[str, ...], told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    run_program(dev_config(), Recorder(preview=True, pools=pools))
    assert bool([one for one in caplog.messages if "already has a node pool named gpu" in one]) is told
    caplog.clear()
    run_program(dev_config(), Recorder(pools=pools))
    assert not [one for one in caplog.messages if "has a node pool" in one], "up has made it, or made none"


def test_a_plain_pool_has_no_option_that_nobody_asked_for() -> None:
    inputs = made().one(NODE_POOL).inputs
    assert not {"taints", "keyName", "spotStrategy", "spotPriceLimits", "password"} & inputs.keys()


def test_taints_have_all_three_fields() -> None:
    # The provider drops an effect that is left out, and then no node can join.
    inputs = made(taints=[TEAM, {"key": "gpu", "effect": "NoExecute"}]).one(NODE_POOL).inputs
    assert inputs["taints"] == [
        {"key": "team", "value": "ml", "effect": "NoSchedule"},
        {"key": "gpu", "value": "", "effect": "NoExecute"},
    ]


def test_driver_and_key_pair_reach_the_nodes() -> None:
    inputs = made(driverVersion="550.144.03", keyName="ops", cardMode="exclusive").one(NODE_POOL).inputs
    assert inputs["labels"] == [
        {"key": "ack.node.gpu.schedule", "value": "default"},
        {"key": "ack.aliyun.com/nvidia-driver-version", "value": "550.144.03"},
    ]
    assert inputs["keyName"] == "ops"


def test_spot_instances_cost_the_markets_price_or_what_is_allowed() -> None:
    market = made(spot={}).one(NODE_POOL).inputs
    assert market["spotStrategy"] == "SpotAsPriceGo"
    assert "spotPriceLimits" not in market
    limited = made(spot={"hourlyPriceLimits": {V100: 12.5}}).one(NODE_POOL).inputs
    assert limited["spotStrategy"] == "SpotWithPriceLimit"
    assert limited["spotPriceLimits"] == [{"instanceType": V100, "priceLimit": "12.5"}]


def test_without_warm_gpus_there_is_nothing_of_them() -> None:
    program = made()
    assert not program.of_type(PRIORITY_CLASS)
    assert [one.inputs["metadata"]["name"] for one in program.of_type(DEPLOYMENT)] == ["bert-intent-detection"]


def test_a_placeholder_gives_way_to_any_other_pod_and_takes_from_none() -> None:
    program = made(warmGpus=3, taints=[TEAM])
    priority = program.one(PRIORITY_CLASS)
    # Above -10, below which the cluster's autoscaler would bring no node for it.
    assert -10 < priority.inputs["value"] < 0
    assert priority.inputs["preemptionPolicy"] == "Never"
    assert "globalDefault" not in priority.inputs
    spec = placeholders(program).inputs["spec"]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 3
    assert pod["priorityClassName"] == priority.inputs["metadata"]["name"] == "gpu-warm"
    assert pod["terminationGracePeriodSeconds"] == 0
    assert pod["nodeSelector"] == {"alibabacloud.com/nodepool-id": "np1"}
    assert pod["tolerations"] == [{"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}]
    [container] = pod["containers"]
    assert container["image"] == "registry-cn-beijing-vpc.ack.aliyuncs.com/acs/pause:3.9"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_placeholders_hold_up_no_operation_and_are_no_service() -> None:
    program = made(warmGpus=1)
    deployment = placeholders(program)
    assert deployment.inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    # The cluster's autoscaler gives no node back that has a pod of kube-system.
    assert deployment.inputs["metadata"]["namespace"] != "kube-system"
    assert deployment.inputs["spec"]["strategy"] == {"type": "Recreate"}, "none beside the old ones, on new nodes"
    assert [one["name"] for one in program.outputs["services"]] == ["bert-intent-detection"]
    assert len(program.of_type(HPA)) == 1
    [service] = [one for one in program.of_type(DEPLOYMENT) if one is not deployment]
    assert deployment.urn not in program.comes_after(service)


@pytest.mark.parametrize(
    ("mode", "types", "limits"),
    [
        ("exclusive", [V100], {"nvidia.com/gpu": "1"}),
        ("exclusive", ["ecs.gn99.xlarge"], {"nvidia.com/gpu": "1"}),
        # The driver shows 22 GiB of an A10's 24.
        ("cgpu", ["ecs.gn7i-c8g1.2xlarge"], {"aliyun.com/gpu-mem": "21"}),
        ("share", ["ecs.gn7i-c8g1.2xlarge", V100], {"aliyun.com/gpu-mem": "14"}),
        ("core_mem", [V100], {"aliyun.com/gpu-mem": "14", "aliyun.com/gpu-core.percentage": "100"}),
        ("share", [V100, "ecs.gn99.xlarge"], None),
        ("mig", [V100], None),
    ],
)
def test_a_placeholder_asks_for_a_whole_card_in_the_pools_mode(mode: Any, types: list[str], limits: Any) -> None:
    assert placeholder_limits(mode, types) == limits


def test_a_program_that_skips_the_checks_gets_no_placeholder_without_a_card() -> None:
    pool = PoolSpec(pool_name="gpu", instance_types=[V100], size=1, card_mode="mig")
    with pytest.raises(ValueError, match="a placeholder pod cannot request a whole card of pool gpu"):
        WarmCapacityArgs(pool=pool, node_pool_id="np1", region="cn-hangzhou", gpus=1)


def told(pool: dict[str, Any], **more: Any) -> list[str]:
    config = settings(None, **more)
    return warnings(parse(config | {"gpuNodePool": of(**pool)}))


def test_a_taint_that_can_keep_the_exporter_off_is_a_warning() -> None:
    [warning] = told({"taints": [TEAM, {"key": "soft", "effect": "PreferNoSchedule"}]})
    assert warning.startswith("gpuNodePool.taints has team=ml:NoSchedule, which can keep ACK's GPU exporter off")
    assert "kubectl edit daemonset -n arms-prom ack-prometheus-gpu-exporter" in warning
    assert not told({"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]})


def test_of_another_exporter_nobody_knows_what_it_tolerates() -> None:
    metrics = {"metrics": [{"name": "DCGM_FI_DEV_GPU_UTIL", "target": 20}]}
    services = settings(None, {"autoscaler": metrics})["services"]
    assert not told({"taints": [TEAM]}, metricsAdapter={"labels": "upstream"}, services=services)


PRICES = {"maxHourlyCost": 10000, "hourlyPrices": {FOUR_V100: 100, "ecs.gn6e-c12g1.12xlarge": 120}}


@pytest.mark.parametrize(
    ("pool", "budget", "gpus", "cost"),
    [
        (
            {"warmGpus": 1},
            {},
            "1 GPU running with nothing on it",
            "at least 1 node at any time, at a price that is not known without budget.hourlyPrices",
        ),
        (
            {"warmGpus": 5, "instanceTypes": [FOUR_V100, "ecs.gn6e-c12g1.12xlarge"]},
            PRICES,
            "5 GPUs running with nothing on them",
            "at least 2 nodes at any time, 240 an hour (2 x 120)",
        ),
    ],
)
def test_what_warm_gpus_cost_is_told(pool: dict[str, Any], budget: dict[str, Any], gpus: str, cost: str) -> None:
    [warning] = told(pool, budget=budget)
    assert warning == (
        f"gpuNodePool.warmGpus keeps {gpus}, for replicas that start without waiting for a node: {cost}."
    )


def test_warm_gpus_of_nodes_that_cannot_be_counted() -> None:
    _, warning = told({"warmGpus": 1, "instanceTypes": ["ecs.gn99.xlarge"]})
    assert warning.endswith("on how many nodes is not known without gpuNodePool.gpusPerNode.")


def test_the_args_are_those_of_the_settings() -> None:
    pool = parse(settings({"size": None, "autoscaling": {"max": 4}, "taints": [TEAM], "spot": {}})).gpu_node_pool
    spec = pool_spec(pool)
    assert (spec.taints, spec.spot) == ([NodeTaint(key="team", value="ml", effect="NoSchedule")], True)
    assert (spec.key_name, spec.driver_version, spec.vswitch_ids) == (None, None, ())


NEW_ONLY = "apply to new nodes only. Drain and remove the existing nodes; the pool replaces them."
OLD: dict[str, Any] = {
    "labels": [{"key": "ack.node.gpu.schedule", "value": "default"}],
    "taints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}],
    "systemDiskSize": 120,
}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scalingConfig": {"maxSize": 20}}, []),
        ({"systemDiskSize": 200, "systemDiskCategory": "cloud_essd"}, ["systemDisk"]),
        ({"labels": [{"key": "ack.node.gpu.schedule", "value": "cgpu"}], "keyName": "ops"}, ["cardMode", "keyName"]),
        (
            {"labels": [*OLD["labels"], {"key": "ack.aliyun.com/nvidia-driver-version", "value": "550.144.03"}]},
            ["driverVersion"],
        ),
        ({"taints": [{**OLD["taints"][0], "value": "web"}]}, ["taints"]),
    ],
)
def test_what_reaches_new_nodes_only_is_told(changes: dict[str, Any], told: list[str]) -> None:
    sentences = list(update_warnings(OLD, OLD | changes))
    assert sentences == ([f"gpuNodePool: changes of {', '.join(told)} {NEW_ONLY}"] if told else [])


def test_a_pool_without_the_label_is_in_the_default_mode() -> None:
    unlabelled = {**OLD, "labels": [{"key": "team", "value": "ml"}]}
    assert list(update_warnings(unlabelled, OLD)) == []
    shared = {**OLD, "labels": [{"key": "ack.node.gpu.schedule", "value": "cgpu"}]}
    assert list(update_warnings(unlabelled, shared)) == [f"gpuNodePool: changes of cardMode {NEW_ONLY}"]


def test_taints_that_the_provider_cannot_take_away_are_told() -> None:
    sentences = list(update_warnings(OLD, {name: value for name, value in OLD.items() if name != "taints"}))
    assert len(sentences) == 2
    assert sentences[1].startswith("gpuNodePool.taints: the provider cannot empty the list")
