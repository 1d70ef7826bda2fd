"""Wrong configuration: one sentence a fault, that names the key as the user wrote it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from autoscaling.settings import Settings, SettingsError, parse

GOOD: dict[str, Any] = {
    "region": "cn-hangzhou",
    "cluster": {"id": "c0123456789abcdef0123456789abcdef"},
    "gpuNodePool": {"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], "autoscaling": {"min": 1, "max": 10}},
    "services": [{"name": "bert", "image": "registry.example/bert:1", "autoscaler": {"target": 20, "maxReplicas": 10}}],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """A copy of the good configuration with one value set; None removes the key."""
    config = copy.deepcopy(GOOD)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    target: Any = config
    for part in parents:
        target = target.setdefault(part, {}) if isinstance(part, str) else target[part]
    if value is None:
        del target[last]
    else:
        target[last] = value
    return config


def faults(config: dict[str, Any]) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        parse(config)
    return raised.value.faults


def test_defaults_are_the_guides() -> None:
    settings = parse(GOOD)
    assert isinstance(settings, Settings)
    [service] = settings.services
    assert (service.namespace, service.port, service.container_port, service.gpus) == ("default", 80, 80, 1)
    assert service.autoscaler.metric == "DCGM_CUSTOM_PROCESS_SM_UTIL"
    assert settings.metrics_adapter.rules == "hardened"
    assert settings.prometheus.managed_by == "instance"


def test_a_number_in_quotes_is_a_number_since_the_engine_writes_it_so() -> None:
    config = changed("services.0.autoscaler.maxReplicas", "7")
    assert parse(config).services[0].autoscaler.max_replicas == 7


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("region", None, "region is missing: set it."),
        ("region", "cn-hangzou", "did you mean cn-hangzhou?"),
        ("regoin", "cn-hangzhou", "regoin is no setting: did you mean region?"),
        ("cluster", None, "cluster is missing: set it."),
        ("cluster.id", None, "cluster.id is missing: set it."),
        ("cluster.id", "<cluster id>", "cluster.id is '<cluster id>': fill it in."),
        ("cluster.id", 7, "cluster.id is 7: input should be a valid string."),
        ("gpuNodePool.instanceTypes", [], "gpuNodePool.instanceTypes is []"),
        ("gpuNodePool.instanceTypes", ["gn6v"], "an ECS instance type looks like ecs.gn6i-c4g1.xlarge"),
        ("gpuNodePool.instanceTypes", ["ecs.g7.xlarge"], "not in the table of GPU instance types"),
        (
            "gpuNodePool.instanceTypes",
            ["ecs.gn6v-c8g1.2xlarge", "ecs.gn6v-c8g1.8xlarge"],
            "gpuNodePool.instanceTypes mixes types with different numbers of GPUs (1, 4)",
        ),
        ("gpuNodePool.size", 3, "set exactly one of size (fixed) and autoscaling ({min, max})"),
        ("gpuNodePool.autoscaling", None, "set exactly one of size (fixed) and autoscaling ({min, max})"),
        ("gpuNodePool.autoscaling.min", 11, "gpuNodePool.autoscaling: min (11) is above max (10)"),
        ("gpuNodePool.autoscaling.max", 9, "offers at most 9 (9 nodes x 1)"),
        ("gpuNodePool.name", "GPU pool", "gpuNodePool.name is 'GPU pool': a Kubernetes name"),
        ("prometheus.managedBy", "me", "allowed are instance, addon, existing"),
        ("metricsAdapter.rules", "seeds", "did you mean seed?"),
        ("metricsAdapter.relistInterval", "21m", "the adapter's fixed maximum age"),
        ("metricsAdapter.relistInterval", "1 minute", "metricsAdapter.relistInterval is '1 minute'"),
        ("services", [], "services is []"),
        ("services", "bert", "services is 'bert': input should be a valid list."),
        ("services.0.name", "Bert_1", "services[0].name is 'Bert_1': a Kubernetes name"),
        ("services.0.image", None, "services[0].image is missing: set it."),
        ("services.0.port", 70000, "services[0].port is 70000: input should be less than or equal to 65535."),
        ("services.0.gpus", 0.5, "services[0].gpus is 0.5"),
        ("services.0.gpus", 2, "services[0].gpus is 2, but a node of the pool has 1: lower it."),
        ("services.0.autoscaler.target", 0, "services[0].autoscaler.target is 0"),
        ("services.0.autoscaler.target", "20%", "services[0].autoscaler.target is '20%'"),
        ("services.0.autoscaler.target", 101, "never reaches: with the rules 'hardened' it is at most 100 %"),
        ("services.0.autoscaler.minReplicas", 0, "services[0].autoscaler.minReplicas is 0"),
        ("services.0.autoscaler.minReplicas", 11, "minReplicas (11) is above maxReplicas (10)"),
        ("services.0.autoscaler.maxReplicas", 11, "services can ask for 11 GPUs"),
        (
            "services.0.autoscaler.metric",
            "DCGM_CUSTOM_PROCESS_SM_UTL",
            "which no rule exposes: did you mean DCGM_CUSTOM_PROCESS_SM_UTIL?",
        ),
        (
            "services.0.autoscaler.tagret",
            20,
            "services[0].autoscaler.tagret is no setting: did you mean target?",
        ),
        ("services.0.autoscaler.scaleUp", {"policies": []}, "services[0].autoscaler.scaleUp.policies is []"),
        (
            "services.0.autoscaler.scaleDown",
            {"stabilizationWindowSeconds": 3601},
            "services[0].autoscaler.scaleDown.stabilizationWindowSeconds is 3601",
        ),
    ],
)
def test_a_fault_is_one_sentence_with_the_key(path: str, value: Any, sentence: str) -> None:
    [fault] = faults(changed(path, value))
    assert sentence in fault


def test_all_faults_are_told_together() -> None:
    config = changed("services.0.autoscaler.target", -1) | {"region": "mars", "cluster": {}}
    keys = [fault.split(" ")[0] for fault in faults(config)]
    assert keys == ["region", "cluster.id", "services[0].autoscaler.target"]


def test_a_node_metric_is_refused_with_the_preset_that_makes_it_a_pod_metric() -> None:
    config = changed("services.0.autoscaler.metric", "DCGM_FI_DEV_GPU_UTIL")
    assert parse(config)
    [fault] = faults({**config, "metricsAdapter": {"rules": "seed"}})
    assert "set metricsAdapter.rules to hardened" in fault


def test_the_guides_ratio_is_no_percentage() -> None:
    config = changed("services.0.autoscaler.metric", "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO")
    assert parse(config), "in percent with the default rules"
    [fault] = faults({**config, "metricsAdapter": {"rules": "seed"}})
    assert "it is at most 1 of 1" in fault


def test_names_are_unique_in_a_namespace() -> None:
    service = {**GOOD["services"][0], "autoscaler": {"maxReplicas": 5}}
    assert "2 services are named default/bert" in faults({**GOOD, "services": [service, service]})[0]
    assert parse({**GOOD, "services": [service, {**service, "namespace": "other"}]})
