"""An HPA that can't work is refused with the reason and with what makes it work."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from autoscaling.gpu_metrics import catalogue
from autoscaling.settings import SettingsError, parse, warnings

SM_UTIL = "DCGM_CUSTOM_PROCESS_SM_UTIL"
PROF = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def settings(*metrics: dict[str, Any], pool: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A stack with one service on these metrics; `service` and `adapter` add to those parts."""
    service = {"name": "bert", "image": "registry.example/bert:1", **more.pop("service", {})}
    service["autoscaler"] = {"metrics": [*metrics], "maxReplicas": 4, **service.get("autoscaler", {})}
    return {
        "region": "cn-hangzhou",
        "cluster": {"id": "c1"},
        "gpuNodePool": {"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], "size": 4, **(pool or {})},
        "metricsAdapter": more.pop("adapter", {}),
        "services": [service],
        **more,
    }


def on(name: str, target: Any = 20, **more: Any) -> dict[str, Any]:
    return {"name": name, "target": target, **more}


def fault(config: dict[str, Any]) -> str:
    with pytest.raises(SettingsError) as raised:
        parse(config)
    [sentence] = raised.value.faults
    return sentence


CGPU: dict[str, Any] = {"pool": {"cardMode": "cgpu"}, "service": {"gpuMemoryGiB": 4}}
MIG: dict[str, Any] = {"pool": {"cardMode": "mig"}, "service": {"migProfile": "1g.10gb"}}
UPSTREAM = {"labels": "upstream-exported"}


@pytest.mark.case("A3")
def test_mig_is_refused_where_acks_monitoring_does_not_see_it() -> None:
    assert fault(settings(on("DCGM_FI_DEV_GPU_UTIL"), **MIG)) == (
        "gpuNodePool.cardMode is mig, and ACK's GPU monitoring does not cover MIG: run NVIDIA's dcgm-exporter, set "
        "metricsAdapter.labels to upstream and services[0].autoscaler.metrics[0].name to "
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE."
    )


@pytest.mark.case("A3")
def test_mig_with_the_upstream_exporter_takes_the_profiling_metric_and_no_other_of_the_card() -> None:
    sentence = fault(settings(on("DCGM_FI_DEV_GPU_UTIL"), adapter=UPSTREAM, **MIG))
    assert "DCGM_FI_DEV_GPU_UTIL', which is missing or always 0 on MIG instances: choose " in sentence
    assert PROF in sentence
    assert parse(settings(on(PROF), adapter=UPSTREAM, **MIG))


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", PROF])
def test_a_metric_of_a_whole_card_is_refused_where_pods_share_it(name: str) -> None:
    sentence = fault(settings(on(name), **CGPU))
    assert (
        f"{name!r}, which is that of a whole card, and with gpuNodePool.cardMode cgpu several pods share it" in sentence
    )
    assert SM_UTIL in sentence
    assert parse(settings(on(SM_UTIL), **CGPU))


def test_on_shared_cards_the_metrics_of_a_card_are_those_of_its_node() -> None:
    exposed = {one.name: one.resources for one in parse(settings(on(SM_UTIL), **CGPU)).rule_set.exposed}
    assert exposed["DCGM_FI_DEV_GPU_UTIL"] == ("node",)
    assert exposed[SM_UTIL] == ("namespace", "node", "pod")
    assert parse(settings(on(SM_UTIL))).rule_set.exposed[0].resources == ("namespace", "node", "pod")


def test_a_metric_that_only_acks_exporter_has_is_refused_with_the_labels_of_another() -> None:
    sentence = fault(settings(on(SM_UTIL), adapter={"labels": "upstream"}))
    assert (
        "which only ACK's exporter has, and metricsAdapter.labels is 'upstream': choose DCGM_FI_DEV_GPU_UTIL"
        in sentence
    )


def test_the_guides_rules_expose_the_guides_metrics_in_its_aggregation_only() -> None:
    seed = {"rules": "seed"}
    assert fault(settings(on("vllm_num_requests_waiting"), adapter=seed)).endswith(
        "and the rules 'seed' are the guide's own: set metricsAdapter.rules to hardened."
    )
    sentence = fault(settings(on(SM_UTIL, aggregation="max"), adapter=seed))
    assert sentence.startswith("services[0].autoscaler.metrics[0].aggregation is 'max', and the rules 'seed'")
    assert parse(settings(on(SM_UTIL, aggregation="avg"), adapter=seed)), "its own"


def test_the_guides_rules_are_for_acks_labels() -> None:
    metric = on("DCGM_FI_DEV_GPU_UTIL")
    with pytest.raises(SettingsError, match="the rules 'seed' are written for ACK's labels: set "):
        parse(settings(metric, adapter={"rules": "seed", "labels": "upstream"}))


@pytest.mark.parametrize("adapter", [{"labels": "upstream"}, {"rules": "seed"}])
def test_idle_pods_can_be_counted_only_where_the_exporter_says_who_has_a_gpu(adapter: dict[str, str]) -> None:
    config = settings(on("vllm_num_requests_waiting"), adapter={"idleAsZero": True, **adapter})
    with pytest.raises(SettingsError, match=r"metricsAdapter\.idleAsZero needs metricsAdapter\.rules hardened"):
        parse(config)
    assert parse(settings(on(SM_UTIL), adapter={"idleAsZero": True}))


def test_a_metric_is_in_an_hpa_once_for_each_aggregation() -> None:
    assert parse(settings(on(SM_UTIL), on(SM_UTIL, 50, aggregation="max")))
    assert fault(settings(on(SM_UTIL), on(SM_UTIL, 50, aggregation="avg"))) == (
        f"services[0].autoscaler.metrics[1].name is {SM_UTIL!r}, which the HPA has already: remove one."
    )


def test_another_aggregation_has_a_name_of_its_own() -> None:
    metric = catalogue().get(SM_UTIL)
    assert metric.exposed_as(None) == metric.exposed_as("avg") == SM_UTIL
    assert metric.exposed_as("max") == f"{SM_UTIL}_MAX"
    assert catalogue().get("vllm_kv_cache_usage_perc").exposed_as("max") == "vllm_kv_cache_usage_perc_max"


@pytest.mark.case("B9")
def test_a_profiling_ratio_has_a_target_in_percent() -> None:
    assert parse(settings(on(PROF, 60)))
    assert "it is at most 100 %" in fault(settings(on(PROF, 101)))
    [rule] = [one for one in parse(settings(on(PROF, 60))).rule_set.rules() if one["name"]["as"] == PROF]
    assert rule["metricsQuery"] == "100 * avg((<<.Series>>{<<.LabelMatchers>>} >= 0) <= 1) by (<<.GroupBy>>)"


@pytest.mark.case("B9")
def test_a_target_of_memory_is_written_in_mib() -> None:
    [service] = parse(settings(on("DCGM_CUSTOM_PROCESS_MEM_USED", "10Gi"))).services
    assert service.autoscaler.metrics[0].target == Decimal(10240)


def test_a_shared_cards_memory_bounds_the_target() -> None:
    assert fault(settings(on("DCGM_CUSTOM_PROCESS_MEM_USED", "5Gi"), **CGPU)).endswith(
        "is 5120 MiB, which DCGM_CUSTOM_PROCESS_MEM_USED never reaches: a pod is given 4096 MiB."
    )


def test_a_sum_over_a_pods_cards_can_be_more_than_one_card() -> None:
    two: dict[str, Any] = {"pool": {"instanceTypes": ["ecs.gn6v-c8g1.4xlarge"]}, "service": {"gpus": 2}}
    assert parse(settings(on(SM_UTIL, 150, aggregation="sum"), **two))
    assert "it is at most 200 %" in fault(settings(on(SM_UTIL, 201, aggregation="sum"), **two))
    assert "it is at most 100 %" in fault(settings(on(SM_UTIL, 150), **two))


@pytest.mark.parametrize(
    ("image", "engine"),
    [("vllm/vllm-openai:v0.32.0", "vllm"), ("registry.example/models/sglang-qwen@sha256:0", "sglang")],
)
@pytest.mark.parametrize("name", ["DCGM_CUSTOM_PROCESS_MEM_USED", "DCGM_FI_DEV_GPU_UTIL", SM_UTIL])
def test_an_llm_engine_on_a_gpu_metric_is_a_warning(image: str, engine: str, name: str) -> None:
    told = warnings(parse(settings(on(name, 90), service={"image": image})))
    [warning] = [one for one in told if f"looks like {engine}" in one]
    assert f"{engine}_" in warning.rpartition("consider ")[2]


def test_an_llm_engine_on_its_own_metric_and_a_classifier_on_the_gpu_are_fine() -> None:
    assert not warnings(parse(settings(on("vllm_num_requests_waiting", 5), service={"image": "vllm/vllm-openai:v1"})))
    assert not warnings(parse(settings(on(SM_UTIL))))


def test_an_engines_series_has_a_colon_and_the_exposed_name_has_none() -> None:
    engines = [metric for metric in catalogue().metrics if metric.level == "engine"]
    assert {metric.series for metric in engines} == {
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "sglang:num_queue_reqs",
        "sglang:token_usage",
    }
    assert not [metric.name for metric in engines if ":" in metric.name]


@pytest.mark.case("B11")
def test_a_relist_interval_below_two_scrapes_is_refused() -> None:
    config = settings(on(SM_UTIL), adapter={"relistInterval": "15s"}, prometheus={"scrapeInterval": "30s"})
    assert fault(config) == (
        "metricsAdapter.relistInterval is 15s, less than 2 x prometheus.scrapeInterval (30s): metrics would come and "
        "go; raise it."
    )
    assert parse(config | {"metricsAdapter": {"relistInterval": "1m"}})


@pytest.mark.case("C9")
def test_a_scale_down_window_shorter_than_a_pods_start_is_refused() -> None:
    window = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    config = settings(on(SM_UTIL), service={"startupTime": "90s", "autoscaler": window})
    assert "stabilizationWindowSeconds is 60, less than startupTime (90s)" in fault(config)
    config["services"][0]["startupTime"] = "1m"
    assert parse(config)


def test_the_old_api_has_no_behavior() -> None:
    old = {"cluster": {"id": "c1", "autoscalingApi": "v2beta1"}}
    assert parse(settings(on(SM_UTIL)) | old)
    config = settings(on(SM_UTIL), service={"autoscaler": {"scaleUp": {}}}) | old
    assert fault(config) == (
        "services[0].autoscaler.scaleUp can't be set with cluster.autoscalingApi v2beta1, which has no behavior: "
        "remove it."
    )


@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        (on(SM_UTIL, 0.8), "0.8 %: write 80 if that part of the whole is meant."),
        (on("vllm_kv_cache_usage_perc", "0.75"), "0.75 %: write 75 if that part of the whole is meant."),
        (on("DCGM_CUSTOM_PROCESS_MEM_USED", 10), "10 MiB: write 10Gi if GiB are meant."),
    ],
)
def test_a_target_in_another_unit_than_the_metrics_is_a_warning(metric: dict[str, Any], hint: str) -> None:
    [warning] = warnings(parse(settings(metric)))
    assert warning == f"services[0].autoscaler.metrics[0].target is {hint}"


def test_the_guides_own_ratio_is_a_part_of_the_whole() -> None:
    ratio = on("DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO", 0.8)
    assert warnings(parse(settings(ratio)))
    assert not warnings(parse(settings(ratio, adapter={"rules": "seed"})))
