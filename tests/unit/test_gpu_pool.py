"""Options of the node pool and warm GPUs: registered resources and warnings."""

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


def pool_settings(**pool: Any) -> dict[str, Any]:
    return {"instanceTypes": [V100], "autoscaling": {"min": 1, "max": 10}, **pool}


def run_with_pool(**pool: Any) -> Recorder:
    return run_program(dev_config(gpuNodePool=pool_settings(**pool)), Recorder())


def placeholders(program: Recorder) -> Any:
    [found] = [deployment for deployment in program.of_type(DEPLOYMENT) if deployment.name == "gpu-placeholders"]
    return found


@pytest.mark.parametrize(("pools", "warned"), [(("gpu",), True), (("other",), False), ((), False)])
def test_a_preview_warns_about_an_unmanaged_pool_of_the_same_name(
    pools: tuple[str, ...], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    run_program(dev_config(), Recorder(preview=True, pools=pools))
    assert bool([message for message in caplog.messages if "already has a node pool named gpu" in message]) is warned
    caplog.clear()
    run_program(dev_config(), Recorder(pools=pools))
    assert not [message for message in caplog.messages if "has a node pool" in message], "only previews warn"


def test_a_plain_pool_has_no_optional_inputs() -> None:
    inputs = run_with_pool().resource(NODE_POOL).inputs
    assert not {"taints", "keyName", "spotStrategy", "spotPriceLimits", "password"} & inputs.keys()


def test_taints_have_all_three_fields() -> None:
    # The provider drops an omitted effect, and then no node can join.
    inputs = run_with_pool(taints=[TEAM, {"key": "gpu", "effect": "NoExecute"}]).resource(NODE_POOL).inputs
    assert inputs["taints"] == [
        {"key": "team", "value": "ml", "effect": "NoSchedule"},
        {"key": "gpu", "value": "", "effect": "NoExecute"},
    ]


def test_driver_and_key_pair_reach_the_nodes() -> None:
    inputs = run_with_pool(driverVersion="550.144.03", keyName="ops", cardMode="exclusive").resource(NODE_POOL).inputs
    assert inputs["labels"] == [
        {"key": "ack.node.gpu.schedule", "value": "default"},
        {"key": "ack.aliyun.com/nvidia-driver-version", "value": "550.144.03"},
    ]
    assert inputs["keyName"] == "ops"


def test_spot_instances_have_the_market_price_or_a_price_limit() -> None:
    market = run_with_pool(spot={}).resource(NODE_POOL).inputs
    assert market["spotStrategy"] == "SpotAsPriceGo"
    assert "spotPriceLimits" not in market
    limited = run_with_pool(spot={"hourlyPriceLimits": {V100: 12.5}}).resource(NODE_POOL).inputs
    assert limited["spotStrategy"] == "SpotWithPriceLimit"
    assert limited["spotPriceLimits"] == [{"instanceType": V100, "priceLimit": "12.5"}]


def test_a_pool_without_warm_gpus_has_no_placeholders() -> None:
    program = run_with_pool()
    assert not program.of_type(PRIORITY_CLASS)
    names = [deployment.inputs["metadata"]["name"] for deployment in program.of_type(DEPLOYMENT)]
    assert names == ["bert-intent-detection"]


def test_any_other_pod_preempts_a_placeholder_and_never_the_reverse() -> None:
    program = run_with_pool(warmGpus=3, taints=[TEAM])
    priority = program.resource(PRIORITY_CLASS)
    # Below -10, the cluster autoscaler would not add nodes for it.
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


def test_placeholders_do_not_delay_operations_and_are_not_services() -> None:
    program = run_with_pool(warmGpus=1)
    deployment = placeholders(program)
    assert deployment.inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    # The cluster autoscaler does not remove nodes with pods of kube-system.
    assert deployment.inputs["metadata"]["namespace"] != "kube-system"
    assert deployment.inputs["spec"]["strategy"] == {"type": "Recreate"}, "a rolling update would add nodes"
    assert [service["name"] for service in program.outputs["services"]] == ["bert-intent-detection"]
    assert len(program.of_type(HPA)) == 1
    [service] = [other for other in program.of_type(DEPLOYMENT) if other is not deployment]
    assert deployment.urn not in program.comes_after(service)


@pytest.mark.parametrize(
    ("mode", "types", "limits"),
    [
        ("exclusive", [V100], {"nvidia.com/gpu": "1"}),
        ("exclusive", ["ecs.gn99.xlarge"], {"nvidia.com/gpu": "1"}),
        # The driver reports 22 of an A10's 24 GiB.
        ("cgpu", ["ecs.gn7i-c8g1.2xlarge"], {"aliyun.com/gpu-mem": "21"}),
        ("share", ["ecs.gn7i-c8g1.2xlarge", V100], {"aliyun.com/gpu-mem": "14"}),
        ("core_mem", [V100], {"aliyun.com/gpu-mem": "14", "aliyun.com/gpu-core.percentage": "100"}),
        ("share", [V100, "ecs.gn99.xlarge"], None),
        ("mig", [V100], None),
    ],
)
def test_a_placeholder_requests_a_whole_card_in_the_pools_card_mode(mode: Any, types: list[str], limits: Any) -> None:
    assert placeholder_limits(mode, types) == limits


def test_the_component_refuses_a_placeholder_without_a_whole_card() -> None:
    pool = PoolSpec(pool_name="gpu", instance_types=[V100], size=1, card_mode="mig")
    with pytest.raises(ValueError, match="a placeholder pod cannot request a whole card of pool gpu"):
        WarmCapacityArgs(pool=pool, node_pool_id="np1", region="cn-hangzhou", gpus=1)


def warnings_of(pool: dict[str, Any], **more: Any) -> list[str]:
    config = settings(None, **more)
    return warnings(parse(config | {"gpuNodePool": pool_settings(**pool)}))


def test_warns_about_a_taint_that_can_block_the_exporter() -> None:
    [warning] = warnings_of({"taints": [TEAM, {"key": "soft", "effect": "PreferNoSchedule"}]})
    assert warning.startswith("gpuNodePool.taints has team=ml:NoSchedule, which can keep ACK's GPU exporter off")
    assert "kubectl edit daemonset -n arms-prom ack-prometheus-gpu-exporter" in warning
    assert not warnings_of({"taints": [{"key": "soft", "effect": "PreferNoSchedule"}]})


def test_does_not_warn_about_taints_for_another_exporter() -> None:
    metrics = {"metrics": [{"name": "DCGM_FI_DEV_GPU_UTIL", "target": 20}]}
    services = settings(None, {"autoscaler": metrics})["services"]
    assert not warnings_of({"taints": [TEAM]}, metricsAdapter={"labels": "upstream"}, services=services)


PRICES = {"maxHourlyCost": 10000, "hourlyPrices": {FOUR_V100: 100, "ecs.gn6e-c12g1.12xlarge": 120}}


@pytest.mark.parametrize(
    ("pool", "budget", "gpus", "cost"),
    [
        (
            {"warmGpus": 1},
            {},
            "1 idle GPU running",
            "at least 1 node at all times, at an unknown price without budget.hourlyPrices",
        ),
        (
            {"warmGpus": 5, "instanceTypes": [FOUR_V100, "ecs.gn6e-c12g1.12xlarge"]},
            PRICES,
            "5 idle GPUs running",
            "at least 2 nodes at all times, 240 an hour (2 x 120)",
        ),
    ],
)
def test_warns_about_the_cost_of_warm_gpus(pool: dict[str, Any], budget: dict[str, Any], gpus: str, cost: str) -> None:
    [warning] = warnings_of(pool, budget=budget)
    assert warning == (
        f"gpuNodePool.warmGpus keeps {gpus} so that new replicas start without waiting for a node. Cost: {cost}."
    )


def test_warns_about_warm_gpus_on_an_unknown_number_of_nodes() -> None:
    _, warning = warnings_of({"warmGpus": 1, "instanceTypes": ["ecs.gn99.xlarge"]})
    assert warning.endswith("Cost: unknown without gpuNodePool.gpusPerNode.")


def test_settings_become_the_args_of_the_pool() -> None:
    pool = parse(settings({"size": None, "autoscaling": {"max": 4}, "taints": [TEAM], "spot": {}})).gpu_node_pool
    spec = pool_spec(pool)
    assert (spec.taints, spec.spot) == ([NodeTaint(key="team", value="ml", effect="NoSchedule")], True)
    assert (spec.key_name, spec.driver_version, spec.vswitch_ids) == (None, None, ())


NEW_ONLY = "apply to new nodes only. To change the existing nodes, drain and remove them; the pool replaces them."
OLD: dict[str, Any] = {
    "labels": [{"key": "ack.node.gpu.schedule", "value": "default"}],
    "taints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}],
    "systemDiskSize": 120,
}


@pytest.mark.parametrize(
    ("changes", "names"),
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
def test_warns_about_changes_that_apply_to_new_nodes_only(changes: dict[str, Any], names: list[str]) -> None:
    sentences = list(update_warnings(OLD, OLD | changes))
    assert sentences == ([f"gpuNodePool: changes to {', '.join(names)} {NEW_ONLY}"] if names else [])


def test_a_pool_without_the_label_is_in_the_default_card_mode() -> None:
    unlabelled = {**OLD, "labels": [{"key": "team", "value": "ml"}]}
    assert list(update_warnings(unlabelled, OLD)) == []
    shared = {**OLD, "labels": [{"key": "ack.node.gpu.schedule", "value": "cgpu"}]}
    assert list(update_warnings(unlabelled, shared)) == [f"gpuNodePool: changes to cardMode {NEW_ONLY}"]


def test_warns_about_taints_that_the_provider_cannot_remove() -> None:
    sentences = list(update_warnings(OLD, {name: value for name, value in OLD.items() if name != "taints"}))
    assert len(sentences) == 2
    assert sentences[1].startswith("gpuNodePool.taints: the provider can't clear the list of taints")
