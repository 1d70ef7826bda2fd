"""Wrong configuration: one sentence a fault, that names the key as the user wrote it."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from autoscaling.settings import Settings, SettingsError, parse, warnings

SM_UTIL = "DCGM_CUSTOM_PROCESS_SM_UTIL"

GOOD: dict[str, Any] = {
    "region": "cn-hangzhou",
    "cluster": {"id": "c0123456789abcdef0123456789abcdef"},
    "gpuNodePool": {"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], "autoscaling": {"min": 1, "max": 10}},
    "services": [
        {
            "name": "bert",
            "image": "registry.example/bert:1",
            "autoscaler": {"metrics": [{"name": SM_UTIL, "target": 20}], "maxReplicas": 10},
        }
    ],
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
    assert service.autoscaler.metrics[0].name == "DCGM_CUSTOM_PROCESS_SM_UTIL"
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
        ("cluster.id", 7, "cluster.id is 7: a text is expected; write it in quotes."),
        ("gpuNodePool.instanceTypes", [], "gpuNodePool.instanceTypes is []"),
        ("gpuNodePool.instanceTypes", ["gn6v"], "an ECS instance type looks like ecs.gn6i-c4g1.xlarge"),
        ("gpuNodePool.instanceTypes", ["ecs.g7.xlarge"], "has ecs.g7.xlarge, which has no GPU"),
        (
            "gpuNodePool.instanceTypes",
            ["ecs.gn6v-c8g1.2xlarge", "ecs.gn6v-c8g1.8xlarge"],
            "gpuNodePool.instanceTypes mixes types with different numbers of GPUs (1, 4)",
        ),
        ("region", "<region>", "region is '<region>': fill it in."),
        ("gpuNodePool.instanceTypes", ["<GPU type>"], "gpuNodePool.instanceTypes[0] is '<GPU type>': fill it in."),
        (
            "gpuNodePool.instanceTypes",
            ["ecs.gn8v-tee.4xlarge"],
            "which ACK does not support: choose a type without -tee",
        ),
        (
            "gpuNodePool.instanceTypes",
            ["ecs.vgn6i-m4.xlarge"],
            "a slice of a GPU (0.25), and a pod asks for whole GPUs",
        ),
        ("gpuNodePool.gpusPerNode", 8, "gpuNodePool.gpusPerNode is 8, but ecs.gn6v-c8g1.2xlarge has 1: remove it"),
        (
            "gpuNodePool.systemDisk",
            {"sizeGiB": 10},
            "gpuNodePool.systemDisk.sizeGiB is 10: a whole number from 40 to 500",
        ),
        ("gpuNodePool.size", 3, "set exactly one of size (fixed) and autoscaling ({min, max})"),
        ("gpuNodePool.autoscaling", None, "set exactly one of size (fixed) and autoscaling ({min, max})"),
        ("gpuNodePool.autoscaling.min", 11, "gpuNodePool.autoscaling.min is 11, above max (10)"),
        ("gpuNodePool.autoscaling.max", 9, "offers at most 9 (9 nodes x 1)"),
        ("gpuNodePool.name", "GPU pool", "gpuNodePool.name is 'GPU pool': a Kubernetes name"),
        ("prometheus.managedBy", "me", "allowed are instance, addon, existing"),
        ("metricsAdapter.rules", "seeds", "did you mean seed?"),
        ("metricsAdapter.relistInterval", "21m", "the adapter's fixed maximum age"),
        ("metricsAdapter.relistInterval", "1 minute", "metricsAdapter.relistInterval is '1 minute'"),
        ("services", [], "services is []"),
        ("services", "bert", "services is 'bert': a list is expected."),
        ("services.0.name", "Bert_1", "services[0].name is 'Bert_1': a Kubernetes name"),
        ("services.0.name", "7b", "the Service 7b-svc needs a name that starts with a letter"),
        ("services.0.name", "b" * 60, "has at most 59 characters before -svc"),
        (
            "services.0.autoscaler",
            20,
            "services[0].autoscaler is 20: a map is expected, with the keys name, metrics, minReplicas",
        ),
        ("services.0.probe", {"path": "predict"}, "services[0].probe.path is 'predict': a path starts with /"),
        ("services.0.image", None, "services[0].image is missing: set it."),
        ("services.0.port", 70000, "services[0].port is 70000: a whole number from 1 to 65535 is expected."),
        ("services.0.gpus", 0.5, "services[0].gpus is 0.5"),
        ("services.0.gpus", 2, "services[0].gpus is 2, but a node of the pool has 1: lower it."),
        ("services.0.autoscaler.metrics.0.target", 0, "services[0].autoscaler.metrics[0].target is 0"),
        ("services.0.autoscaler.metrics.0.target", "20%", "services[0].autoscaler.metrics[0].target is '20%'"),
        (
            "services.0.autoscaler.metrics.0.target",
            True,
            "services[0].autoscaler.metrics[0].target is True: a number above 0 is expected.",
        ),
        ("services.0.autoscaler.metrics.0.target", "0.0001", "at most 3 decimals are allowed"),
        (
            "services.0.autoscaler.metrics.0.target",
            "10Gi",
            "services[0].autoscaler.metrics[0].target is '10Gi': a number above 0 is expected.",
        ),
        ("services.0.autoscaler.metrics.0.target", 101, "never reaches: with the rules 'hardened' it is at most 100 %"),
        ("services.0.autoscaler.minReplicas", 0, "services[0].autoscaler.minReplicas is 0"),
        (
            "services.0.autoscaler.minReplicas",
            11,
            "services[0].autoscaler.minReplicas is 11, above maxReplicas (10)",
        ),
        ("services.0.autoscaler.maxReplicas", 11, "services can ask for 11 GPUs"),
        (
            "services.0.autoscaler.metrics.0.name",
            "DCGM_CUSTOM_PROCESS_SM_UTL",
            "which no rule exposes: did you mean DCGM_CUSTOM_PROCESS_SM_UTIL?",
        ),
        (
            "services.0.autoscaler.metrcs",
            [],
            "services[0].autoscaler.metrcs is no setting: did you mean metrics?",
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
    config = changed("services.0.autoscaler", {"metrics": [{"name": SM_UTIL, "target": -1}], "minReplicas": 12}) | {
        "region": "mars",
        "cluster": {},
    }
    del config["services"][0]["image"]
    config["gpuNodePool"]["instanceTypes"] = ["ecs.gn8v-tee.4xlarge"]
    keys = [fault.split(" ")[0].rstrip(":") for fault in faults(config)]
    assert keys == [
        "region",
        "cluster.id",
        "services[0].image",
        "services[0].autoscaler.metrics[0].target",
        "gpuNodePool.instanceTypes",
        "services[0].autoscaler.minReplicas",
    ]


@pytest.mark.parametrize(
    "path", ["services.0.autoscaler.maxReplicas", "gpuNodePool.autoscaling.max", "gpuNodePool.instanceTypes"]
)
def test_no_fault_is_made_up_from_a_value_that_could_not_be_read(path: str) -> None:
    config = changed(path, "nonsense")
    config["services"].append({"name": "other", "image": "registry.example/other:1"})
    [fault] = faults(config)
    assert "is 'nonsense'" in fault


def leaves(value: Any, path: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [leaf for key, item in items for leaf in leaves(item, f"{path}.{key}" if path else str(key))]
    return [*([path] if path else []), *inner]


FULL: dict[str, Any] = parse(GOOD).model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.mark.parametrize("path", leaves(FULL))
def test_nonsense_anywhere_is_told_with_its_key_and_never_breaks_the_program(path: str) -> None:
    key = re.sub(r"\.(\d+)", r"[\1]", path)
    nonsenses: tuple[Any, ...] = (True, -1, 1.5, "", "?", [], [[]], {}, {"?": 1}, 10**30)
    for nonsense in nonsenses:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        config = copy.deepcopy(FULL)
        target: Any = config
        for part in parents:
            target = target[part]
        target[last] = nonsense
        try:
            parse(config)
        except SettingsError as error:
            assert any(key in fault or "maxReplicas" in fault for fault in error.faults), (nonsense, error.faults)
            assert not re.search("(?i)input|valid|pydantic|instance of", str(error)), "words of the library"


def test_a_node_metric_is_refused_with_the_preset_that_makes_it_a_pod_metric() -> None:
    config = changed("services.0.autoscaler.metrics.0.name", "DCGM_FI_DEV_GPU_UTIL")
    assert parse(config)
    [fault] = faults({**config, "metricsAdapter": {"rules": "seed"}})
    assert "set metricsAdapter.rules to hardened" in fault


def test_the_guides_ratio_is_no_percentage() -> None:
    config = changed("services.0.autoscaler.metrics.0.name", "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO")
    assert parse(config), "in percent with the default rules"
    [fault] = faults({**config, "metricsAdapter": {"rules": "seed"}})
    assert fault.endswith("with the rules 'seed' it is at most 1.")


def test_names_are_unique_in_a_namespace() -> None:
    service = {**GOOD["services"][0], "autoscaler": {"maxReplicas": 5}}
    assert "2 services are named default/bert" in faults({**GOOD, "services": [service, service]})[0]
    assert parse({**GOOD, "services": [service, {**service, "namespace": "other"}]})


@pytest.mark.parametrize(("written", "mib"), [("10Gi", "10240"), ("512Mi", "512"), (512, "512")])
def test_a_target_of_memory_may_carry_its_unit(written: Any, mib: str) -> None:
    metric = {"name": "DCGM_CUSTOM_PROCESS_MEM_USED", "target": written}
    [service] = parse(changed("services.0.autoscaler.metrics.0", metric)).services
    assert f"{service.autoscaler.metrics[0].target:f}" == mib


def test_a_target_of_memory_fits_the_gpus_of_a_pod() -> None:
    # A V100 of ecs.gn6v has 16 GiB.
    metric = {"name": "DCGM_CUSTOM_PROCESS_MEM_USED", "target": "17Gi"}
    [fault] = faults(changed("services.0.autoscaler.metrics.0", metric))
    assert fault == (
        "services[0].autoscaler.metrics[0].target is 17408 MiB, which DCGM_CUSTOM_PROCESS_MEM_USED never reaches: "
        "the GPUs of a pod have 16384 MiB."
    )


def test_a_pod_with_two_gpus_has_the_memory_of_both() -> None:
    # ecs.gn6v-c8g1.4xlarge has two V100 of 16 GiB.
    config = changed("gpuNodePool.instanceTypes", ["ecs.gn6v-c8g1.4xlarge"])
    config["services"][0]["gpus"] = 2
    metric = {"name": "DCGM_FI_DEV_FB_USED", "target": "32Gi"}
    config["services"][0]["autoscaler"] = {"metrics": [metric]}
    assert parse(config)
    metric["target"] = "33Gi"
    assert "the GPUs of a pod have 32768 MiB" in faults(config)[0]


def test_a_slice_among_whole_gpus_is_one_fault() -> None:
    [fault] = faults(changed("gpuNodePool.instanceTypes", ["ecs.vgn6i-m4.xlarge", "ecs.gn6v-c8g1.2xlarge"]))
    assert "ecs.vgn6i-m4.xlarge with a slice of a GPU" in fault


def test_a_type_that_is_newer_than_the_table_is_a_warning_that_asks_for_its_gpus() -> None:
    config = changed("gpuNodePool.instanceTypes", ["ecs.gn99.xlarge"])
    [warning] = warnings(parse(config))
    assert "ecs.gn99.xlarge" in warning
    assert warning.endswith("set gpuNodePool.gpusPerNode.")
    config["gpuNodePool"]["gpusPerNode"] = 1
    assert not warnings(parse(config))
