"""The adapter's release and the node pool of the whole program on mocks."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
import yaml

from autoscaling.metrics.adapter_rules import RuleSet
from tests.unit.program import (
    CHECKOUT,
    CLUSTER_VSWITCHES,
    DEPLOYMENT,
    NODE_POOL,
    PROMETHEUS_URL,
    RELEASE,
    Recorder,
    dev_config,
    run_program,
    stack_config,
)


@pytest.fixture(scope="module")
def program() -> Recorder:
    return run_program(dev_config(), Recorder())


def test_the_release_has_the_name_namespace_and_chart_of_the_guide(program: Recorder) -> None:
    inputs = program.resource(RELEASE).inputs
    assert inputs["name"] == "ack-alibaba-cloud-metrics-adapter"
    assert inputs["namespace"] == "kube-system"
    assert inputs["chart"] == (
        "https://aliacs-app-catalog.oss-cn-hangzhou.aliyuncs.com/charts-incubator/"
        "ack-alibaba-cloud-metrics-adapter-1.3.2.tgz"
    )
    assert not inputs.get("skipAwait"), "Helm waits until the adapter serves"


def test_the_release_has_the_values_that_the_chart_reads_and_each_rule_byte_for_byte(program: Recorder) -> None:
    assert program.secret_values == {
        "global": {"ackgpu": {"stack": "ackgpu/unit"}},
        "AlibabaCloudMetricsAdapter": {
            "prometheus": {
                "enabled": True,
                "url": PROMETHEUS_URL,
                "logLevel": 5,
                "metricsRelistInterval": "1m",
                "adapter": {"rules": {"default": False, "custom": RuleSet().rules()}},
            }
        },
    }


# Each leaf of the chart's values, from its documentation up to 1.3.3.
VENDOR_VALUES = {
    "enabled",
    "url",
    "prometheusHeader",
    "logLevel",
    "metricsRelistInterval",
    "adapter.rules.default",
    "adapter.rules.custom",
}


@pytest.mark.case("F7")
@pytest.mark.parametrize("auth", [{}, {"type": "token", "token": "t"}])
def test_every_value_is_where_the_vendors_chart_reads_it(auth: dict[str, str]) -> None:
    """Only ACK's chart is deployed, not the community's chart with `rules` and `prometheus` at the top."""
    config = dev_config(prometheus={"auth": auth})
    values = run_program(config, Recorder(), encrypted=["ackgpu:prometheus"]).secret_values
    assert values.keys() == {"AlibabaCloudMetricsAdapter", "global"}, "what Helm hands to any chart, and no more"
    [prometheus] = values["AlibabaCloudMetricsAdapter"].values()

    def paths(value: Any, prefix: str = "") -> set[str]:
        if not isinstance(value, dict):
            return {prefix}
        return {path for key, inner in value.items() for path in paths(inner, f"{prefix}.{key}".lstrip("."))}

    assert paths(prometheus) == VENDOR_VALUES - (set() if auth else {"prometheusHeader"})
    assert values["AlibabaCloudMetricsAdapter"]["prometheus"]["enabled"] is True
    assert len(prometheus["adapter"]["rules"]["custom"]) == 5


def test_the_guides_rules_reach_the_release_unchanged() -> None:
    program = run_program(dev_config(metricsAdapter={"rules": "seed"}), Recorder())
    guide = yaml.safe_load((CHECKOUT / "tests" / "data" / "seed_rules_default.yaml").read_text())
    assert program.secret_values["AlibabaCloudMetricsAdapter"]["prometheus"]["adapter"]["rules"]["custom"] == guide


@pytest.mark.case("E3")
def test_an_autoscaling_pool_leaves_its_size_to_the_autoscaler(program: Recorder) -> None:
    pool = program.resource(NODE_POOL)
    assert pool.inputs["scalingConfig"] == {"enable": True, "type": "gpu", "minSize": 1, "maxSize": 10}
    assert "desiredSize" not in pool.inputs
    assert pool.ignore_changes == ("desiredSize",)
    assert pool.inputs["nodePoolName"] == "gpu", "the provider requires it, though the SDK does not"
    assert pool.inputs["labels"] == [{"key": "ack.node.gpu.schedule", "value": "default"}]


@pytest.mark.case("E3")
def test_a_fixed_pool_has_a_size_and_no_scaling_config() -> None:
    pool = {"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], "size": 10}
    made = run_program(dev_config(gpuNodePool=pool), Recorder()).resource(NODE_POOL)
    assert made.inputs["desiredSize"] == "10"
    assert "scalingConfig" not in made.inputs
    assert made.ignore_changes == (), "a change of the size reaches the pool"


@pytest.mark.case("E3")
@pytest.mark.parametrize(
    ("pool", "sentence"),
    [
        ({"autoscaling": {"min": 0, "max": 0}}, "gpuNodePool.autoscaling.max is 0"),
        (
            {"autoscaling": {"min": 1, "max": 3}, "size": 2},
            "set exactly one of size (a fixed number of nodes) or autoscaling",
        ),
    ],
)
def test_refuses_limits_that_drain_a_pool_or_conflict_with_the_autoscaler(pool: dict[str, Any], sentence: str) -> None:
    recorder = Recorder()
    with pytest.raises(pulumi.RunError) as raised:
        run_program(dev_config(gpuNodePool={"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], **pool}), recorder)
    assert sentence in str(raised.value)
    assert not recorder.of_type(NODE_POOL)


@pytest.mark.parametrize(
    ("mode", "asks", "scaling", "label", "limits"),
    [
        ("cgpu", {"gpuMemoryGiB": 4}, "gpushare", "cgpu", {"aliyun.com/gpu-mem": "4"}),
        ("share", {"gpuMemoryGiB": 4}, "gpushare", "share", {"aliyun.com/gpu-mem": "4"}),
        (
            "core_mem",
            {"gpuMemoryGiB": 4, "gpuCorePercent": 30},
            "gpushare",
            "core_mem",
            {"aliyun.com/gpu-mem": "4", "aliyun.com/gpu-core.percentage": "30"},
        ),
        ("mig", {"migProfile": "1g.10gb"}, "gpu", "mig", {"nvidia.com/mig-1g.10gb": "1"}),
        ("mig", {"migProfile": "1g.10gb+me"}, "gpu", "mig", {"nvidia.com/mig-1g.10gb.me": "1"}),
    ],
)
def test_label_resource_and_autoscaler_match_the_card_mode(
    mode: str, asks: dict[str, Any], scaling: str, label: str, limits: dict[str, str]
) -> None:
    [bert] = stack_config("dev")["ackgpu:services"]
    upstream = mode == "mig"
    metric = "DCGM_FI_PROF_GR_ENGINE_ACTIVE" if upstream else "DCGM_CUSTOM_PROCESS_SM_UTIL"
    autoscaler = {"metrics": [{"name": metric, "target": 20}], "maxReplicas": 2}
    types = {"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], "autoscaling": {"max": 1}}
    changes = {
        "gpuNodePool": {**types, "cardMode": mode},
        "services": [{**bert, **asks, "autoscaler": autoscaler}],
        "metricsAdapter": {"labels": "upstream" if upstream else "ack"},
    }
    program = run_program(dev_config(**changes), Recorder())
    pool = program.resource(NODE_POOL).inputs
    assert pool["labels"] == [{"key": "ack.node.gpu.schedule", "value": label}]
    assert pool["scalingConfig"]["type"] == scaling
    [container] = program.resource(DEPLOYMENT).inputs["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == limits


def test_the_pool_uses_the_clusters_vswitches_by_default(program: Recorder) -> None:
    assert program.resource(NODE_POOL).inputs["vswitchIds"] == list(CLUSTER_VSWITCHES)
    pool = {
        "instanceTypes": ["ecs.gn6v-c8g1.2xlarge"],
        "autoscaling": {"max": 10},
        "vswitchIds": ["vsw-mine"],
    }
    other = run_program(dev_config(gpuNodePool=pool), Recorder())
    assert other.resource(NODE_POOL).inputs["vswitchIds"] == ["vsw-mine"]
