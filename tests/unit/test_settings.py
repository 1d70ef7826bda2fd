"""Settings: their defaults, and several errors at once; `tests/wrong_settings.py` has single errors."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from autoscaling.settings import Settings, SettingsError, parse, warnings
from autoscaling.settings.field_types import duration_seconds

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
    """Copy the valid configuration and change a value; None removes the key."""
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


def test_a_quoted_number_is_a_number_as_the_engine_quotes_numbers() -> None:
    config = changed("services.0.autoscaler.maxReplicas", "7")
    assert parse(config).services[0].autoscaler.max_replicas == 7


def test_errors_of_single_values_are_reported_before_errors_between_settings() -> None:
    config = changed("services.0.autoscaler", {"metrics": [{"name": SM_UTIL, "target": -1}], "minReplicas": 12})
    config |= {"region": "mars", "cluster": {}}
    del config["services"][0]["image"]
    config["gpuNodePool"]["instanceTypes"] = ["ecs.gn8v-tee.4xlarge"]
    assert [fault.split(" ")[0].rstrip(":") for fault in faults(config)] == [
        "region",
        "services[0].image",
        "services[0].autoscaler.metrics[0].target",
    ]
    config["region"] = "cn-hangzhou"
    config["services"][0]["image"] = "registry.example/bert:1"
    config["services"][0]["autoscaler"]["metrics"][0]["target"] = 1
    assert [fault.split(" ")[0].rstrip(":") for fault in faults(config)] == [
        "cluster",
        "gpuNodePool.instanceTypes",
        "services[0].autoscaler.minReplicas",
    ]


@pytest.mark.parametrize(
    "path", ["services.0.autoscaler.maxReplicas", "gpuNodePool.autoscaling.max", "gpuNodePool.instanceTypes"]
)
def test_an_invalid_value_is_a_single_error(path: str) -> None:
    config = changed(path, "nonsense")
    config["services"].append({"name": "other", "image": "registry.example/other:1"})
    [fault] = faults(config)
    assert "is 'nonsense'" in fault


def test_refuses_encrypted_values_that_are_not_secrets() -> None:
    encrypted = ["prometheus", "metricsAdapter", "cluster", "region", "services", "aws:secretKey"]
    with pytest.raises(SettingsError) as raised:
        parse(GOOD, encrypted=encrypted)
    assert [sentence.partition(":")[0] for sentence in raised.value.faults] == [
        "cluster has encrypted values, but no secret settings",
        "region is encrypted, but this setting is not a secret",
        "services has encrypted values, but no secret settings",
    ]
    assert raised.value.faults[-1].endswith("Put secrets into a Kubernetes Secret that services[].envFrom names.")
    assert parse(GOOD, encrypted=encrypted[:2])


def leaves(value: Any, path: str = "") -> list[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    inner = [leaf for key, item in items for leaf in leaves(item, f"{path}.{key}" if path else str(key))]
    return [*([path] if path else []), *inner]


FULL: dict[str, Any] = parse(GOOD).model_dump(mode="json", by_alias=True, exclude_none=True)


@pytest.mark.parametrize("path", leaves(FULL))
def test_an_invalid_value_anywhere_is_reported_with_its_key(path: str) -> None:
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


def test_the_guides_ratio_is_not_a_percentage() -> None:
    config = changed("services.0.autoscaler.metrics.0.name", "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO")
    assert parse(config), "in percent with the default rules"
    [fault] = faults({**config, "metricsAdapter": {"rules": "seed"}})
    assert fault.endswith("with metricsAdapter.rules set to seed, its maximum is 1. Lower the target.")


def test_names_are_unique_in_a_namespace() -> None:
    service = {**GOOD["services"][0], "autoscaler": {"maxReplicas": 5}}
    assert "2 services are named default/bert" in faults({**GOOD, "services": [service, service]})[0]
    assert parse({**GOOD, "services": [service, {**service, "namespace": "other"}]})


@pytest.mark.parametrize(
    ("written", "mib"),
    [("10Gi", "10240"), ("1.5Gi", "1536"), ("4G", "3814.697"), ("500M", "476.837"), ("512Mi", "512"), (512, "512")],
)
def test_a_memory_target_may_have_a_unit(written: Any, mib: str) -> None:
    metric = {"name": "DCGM_CUSTOM_PROCESS_MEM_USED", "target": written}
    [service] = parse(changed("services.0.autoscaler.metrics.0", metric)).services
    assert f"{service.autoscaler.metrics[0].target:f}" == mib


@pytest.mark.parametrize(
    ("written", "seconds"), [("90s", 90), ("5m", 300), ("1m30s", 90), ("1h", 3600), ("1h30m", 5400), ("72h", 259200)]
)
def test_a_duration_may_have_hours_minutes_and_seconds(written: str, seconds: int) -> None:
    assert duration_seconds(written) == seconds
    assert parse(changed("cluster.temporaryCredential", written) if seconds > 900 else GOOD)


def test_a_pod_with_two_gpus_has_the_memory_of_both() -> None:
    # ecs.gn6v-c8g1.4xlarge has two V100 of 16 GiB.
    config = changed("gpuNodePool.instanceTypes", ["ecs.gn6v-c8g1.4xlarge"])
    config["services"][0]["gpus"] = 2
    metric = {"name": "DCGM_FI_DEV_FB_USED", "target": "32Gi"}
    config["services"][0]["autoscaler"] = {"metrics": [metric]}
    assert parse(config)
    metric["target"] = "33Gi"
    assert "the GPUs of a pod have 32768 MiB" in faults(config)[0]


def test_a_slice_among_whole_gpus_is_a_single_error() -> None:
    [fault] = faults(changed("gpuNodePool.instanceTypes", ["ecs.vgn6i-m4.xlarge", "ecs.gn6v-c8g1.2xlarge"]))
    assert "ecs.vgn6i-m4.xlarge, which has only part of a GPU" in fault


def test_warns_about_an_instance_type_that_the_table_does_not_list() -> None:
    config = changed("gpuNodePool.instanceTypes", ["ecs.gn99.xlarge"])
    [warning] = warnings(parse(config))
    assert "ecs.gn99.xlarge" in warning
    assert warning.endswith("set gpuNodePool.gpusPerNode.")
    config["gpuNodePool"]["gpusPerNode"] = 1
    assert not warnings(parse(config))


@pytest.mark.parametrize(
    "number",
    ["1e1000000", "1e-1000000", "0e5000000", "9" * 5000, f"{'9' * 5000}Gi", f"1.{'0' * 5000}", 10**4000],
    ids=range(7),
)
def test_a_number_of_any_size_is_reported_on_a_short_line(number: Any) -> None:
    config = changed("services.0.autoscaler.metrics.0.target", number)
    config["services"][0]["autoscaler"]["maxReplicas"] = number
    config["budget"] = {"maxHourlyCost": 100, "hourlyPrices": {"ecs.gn6v-c8g1.2xlarge": number}}
    messages = faults(config)
    assert [fault.split(" ")[0] for fault in messages] == [
        "budget.hourlyPrices.ecs.gn6v-c8g1.2xlarge",
        "services[0].autoscaler.metrics[0].target",
        "services[0].autoscaler.maxReplicas",
    ]
    assert max(map(len, messages)) < 250


def test_the_largest_numbers_are_the_limits_of_the_api_types() -> None:
    # k8s.io/api/autoscaling/v2: `MaxReplicas int32`.
    limits = {"maxReplicas": 2**31 - 1}
    pool = {"instanceTypes": ["ecs.gn99.xlarge"], "size": 1}
    config = {**GOOD, "gpuNodePool": pool, "services": [{**GOOD["services"][0], "autoscaler": limits}]}
    assert parse(config).services[0].autoscaler.max_replicas == 2147483647
    limits["maxReplicas"] += 1
    assert "must be a whole number from 1 to 2147483647." in faults(config)[0]


def test_reports_a_missing_credential_although_others_are_encrypted() -> None:
    config = changed("prometheus", {"auth": {"type": "basic", "accessKeySecret": "secret"}})
    with pytest.raises(SettingsError) as raised:
        parse(config, encrypted=["prometheus"])
    [sentence] = raised.value.faults
    assert sentence.startswith("prometheus.auth.accessKeyId is missing, although prometheus.auth.type is basic")
