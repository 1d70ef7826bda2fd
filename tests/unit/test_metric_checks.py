"""Errors and warnings about an HPA's metrics: the reason, and the fix."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from autoscaling.metrics.catalogue import catalogue
from autoscaling.settings import SettingsError, parse, warnings

SM_UTIL = "DCGM_CUSTOM_PROCESS_SM_UTIL"
PROF = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def settings(*metrics: dict[str, Any], pool: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a stack whose service scales on these metrics; `service` and `adapter` add settings."""
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
def test_refuses_mig_with_acks_exporter() -> None:
    assert fault(settings(on("DCGM_FI_DEV_GPU_UTIL"), **MIG)) == (
        "gpuNodePool.cardMode is mig, and ACK's GPU monitoring does not cover MIG: run NVIDIA's dcgm-exporter, set "
        "metricsAdapter.labels to upstream, and set services[0].autoscaler.metrics[0].name to "
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE."
    )


@pytest.mark.case("A3")
def test_mig_with_the_upstream_exporter_allows_only_the_profiling_metric() -> None:
    sentence = fault(settings(on("DCGM_FI_DEV_GPU_UTIL"), adapter=UPSTREAM, **MIG))
    assert "DCGM_FI_DEV_GPU_UTIL', which is missing or always 0 on MIG instances: choose " in sentence
    assert PROF in sentence
    assert parse(settings(on(PROF), adapter=UPSTREAM, **MIG))


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", PROF])
def test_refuses_a_metric_of_a_whole_card_if_pods_share_it(name: str) -> None:
    sentence = fault(settings(on(name), **CGPU))
    assert (
        f"{name!r}, which measures a whole card, but with gpuNodePool.cardMode set to cgpu, several pods share a card"
        in sentence
    )
    assert SM_UTIL in sentence
    assert parse(settings(on(SM_UTIL), **CGPU))


def test_metrics_of_shared_cards_belong_to_the_node() -> None:
    exposed = {metric.name: metric.resources for metric in parse(settings(on(SM_UTIL), **CGPU)).rule_set.exposed}
    assert exposed["DCGM_FI_DEV_GPU_UTIL"] == ("node",)
    assert exposed[SM_UTIL] == ("namespace", "node", "pod")
    assert parse(settings(on(SM_UTIL))).rule_set.exposed[0].resources == ("namespace", "node", "pod")


def test_refuses_a_metric_of_acks_exporter_with_upstream_labels() -> None:
    sentence = fault(settings(on(SM_UTIL), adapter={"labels": "upstream"}))
    assert (
        "which only ACK's exporter provides, but metricsAdapter.labels is 'upstream': choose DCGM_FI_DEV_GPU_UTIL"
        in sentence
    )


def test_the_guides_rules_expose_the_guides_metrics_in_its_aggregation_only() -> None:
    seed = {"rules": "seed"}
    assert fault(settings(on("vllm_num_requests_waiting"), adapter=seed)).endswith(
        "but with metricsAdapter.rules set to seed the adapter does not expose it: set metricsAdapter.rules to "
        "hardened."
    )
    sentence = fault(settings(on(SM_UTIL, aggregation="max"), adapter=seed))
    assert sentence.startswith("services[0].autoscaler.metrics[0].aggregation is 'max', but with metricsAdapter.rules")
    assert parse(settings(on(SM_UTIL, aggregation="avg"), adapter=seed)), "its own"


def test_the_guides_rules_are_for_acks_labels() -> None:
    metric = on("DCGM_FI_DEV_GPU_UTIL")
    with pytest.raises(SettingsError, match="set to seed, the rules read ACK's labels: set "):
        parse(settings(metric, adapter={"rules": "seed", "labels": "upstream"}))


@pytest.mark.parametrize("adapter", [{"labels": "upstream"}, {"rules": "seed"}])
def test_idle_pods_are_counted_only_if_the_exporter_reports_the_pod_of_a_gpu(adapter: dict[str, str]) -> None:
    config = settings(on("vllm_num_requests_waiting"), adapter={"idleAsZero": True, **adapter})
    with pytest.raises(SettingsError, match=r"metricsAdapter\.idleAsZero needs metricsAdapter\.rules set to hardened"):
        parse(config)
    assert parse(settings(on(SM_UTIL), adapter={"idleAsZero": True}))


def test_an_hpa_has_a_metric_once_for_each_aggregation() -> None:
    assert parse(settings(on(SM_UTIL), on(SM_UTIL, 50, aggregation="max")))
    assert fault(settings(on(SM_UTIL), on(SM_UTIL, 50, aggregation="avg"))) == (
        f"services[0].autoscaler.metrics[1].name is {SM_UTIL!r}, which the HPA already reads: remove one of the two."
    )


def test_each_aggregation_has_its_own_metric_name() -> None:
    metric = catalogue().get(SM_UTIL)
    assert metric.exposed_as(None) == metric.exposed_as("avg") == SM_UTIL
    assert metric.exposed_as("max") == f"{SM_UTIL}_MAX"
    assert catalogue().get("vllm_kv_cache_usage_perc").exposed_as("max") == "vllm_kv_cache_usage_perc_max"


@pytest.mark.case("B9")
def test_a_profiling_ratio_has_a_target_in_percent() -> None:
    assert parse(settings(on(PROF, 60)))
    assert "its maximum is 100 %" in fault(settings(on(PROF, 101)))
    [rule] = [rule for rule in parse(settings(on(PROF, 60))).rule_set.rules() if rule["name"]["as"] == PROF]
    assert rule["metricsQuery"] == "100 * avg((<<.Series>>{<<.LabelMatchers>>} >= 0) <= 1) by (<<.GroupBy>>)"


@pytest.mark.case("B9")
def test_a_target_of_memory_is_written_in_mib() -> None:
    [service] = parse(settings(on("DCGM_CUSTOM_PROCESS_MEM_USED", "10Gi"))).services
    assert service.autoscaler.metrics[0].target == Decimal(10240)


@pytest.mark.parametrize("target", ["0Gi", "999999999999999Gi"])
def test_refuses_a_memory_target_out_of_range(target: str) -> None:
    with pytest.raises(SettingsError, match=r"target is .*: must be a number above 0 and up to 1000000000000"):
        parse(settings(on("DCGM_CUSTOM_PROCESS_MEM_USED", target)))


def test_the_target_is_limited_by_the_memory_of_a_shared_card() -> None:
    assert fault(settings(on("DCGM_CUSTOM_PROCESS_MEM_USED", "5Gi"), **CGPU)).endswith(
        "is 5120 MiB, which DCGM_CUSTOM_PROCESS_MEM_USED never reaches: a pod gets 4096 MiB. Lower the target."
    )


def test_a_sum_over_a_pods_cards_may_exceed_a_card() -> None:
    two: dict[str, Any] = {"pool": {"instanceTypes": ["ecs.gn6v-c8g1.4xlarge"]}, "service": {"gpus": 2}}
    assert parse(settings(on(SM_UTIL, 150, aggregation="sum"), **two))
    assert "its maximum is 200 %" in fault(settings(on(SM_UTIL, 201, aggregation="sum"), **two))
    assert "its maximum is 100 %" in fault(settings(on(SM_UTIL, 150), **two))


@pytest.mark.parametrize(
    ("image", "engine"),
    [
        ("vllm/vllm-openai:v0.32.0", "vllm"),
        ("mirror/vLLM:1", "vllm"),
        ("registry.example/models/sglang-qwen@sha256:0", "sglang"),
    ],
)
@pytest.mark.parametrize("name", ["DCGM_CUSTOM_PROCESS_MEM_USED", "DCGM_FI_DEV_GPU_UTIL", SM_UTIL])
def test_warns_about_an_llm_engine_on_a_gpu_metric(image: str, engine: str, name: str) -> None:
    messages = warnings(parse(settings(on(name, 90), service={"image": image})))
    [warning] = [message for message in messages if f"looks like {engine}" in message]
    assert f"{engine}_" in warning.rpartition("consider ")[2]


def test_an_llm_engine_on_its_own_metric_and_a_classifier_on_the_gpu_are_fine() -> None:
    assert not warnings(parse(settings(on("vllm_num_requests_waiting", 5), service={"image": "vllm/vllm-openai:v1"})))
    assert not warnings(parse(settings(on(SM_UTIL))))


def test_the_exposed_name_of_an_engines_series_has_no_colon() -> None:
    engines = [metric for metric in catalogue().metrics if metric.level == "engine"]
    assert {metric.series for metric in engines} == {
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "sglang:num_queue_reqs",
        "sglang:token_usage",
    }
    assert not [metric.name for metric in engines if ":" in metric.name]


@pytest.mark.case("B11")
def test_refuses_a_relist_interval_above_the_adapters_maximum_age() -> None:
    assert "metricsAdapter.relistInterval is '20m1s'" in fault(
        settings(on(SM_UTIL), adapter={"relistInterval": "20m1s"})
    )
    assert parse(settings(on(SM_UTIL), adapter={"relistInterval": "20m"}))


@pytest.mark.case("C9")
def test_refuses_a_scale_down_window_shorter_than_a_pods_start() -> None:
    window = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    config = settings(on(SM_UTIL), service={"startupTime": "90s", "autoscaler": window})
    assert "stabilizationWindowSeconds is 60, less than startupTime (90s)" in fault(config)
    config["services"][0]["startupTime"] = "1m"
    assert parse(config)


@pytest.mark.case("C9")
def test_v2beta1_refuses_a_start_longer_than_the_default_window() -> None:
    old = {"cluster": {"id": "c1", "autoscalingApi": "v2beta1"}}
    config = settings(on(SM_UTIL), service={"startupTime": "301s"}) | old
    assert fault(config) == (
        "services[0].startupTime is 301s, but with cluster.autoscalingApi set to v2beta1, the scale-down window is "
        "always 300s. Pods would be removed before their replacements are Ready: set autoscalingApi to v2, or make "
        "startup faster."
    )
    config["services"][0]["startupTime"] = "5m"
    assert parse(config)


def test_v2beta1_has_no_behavior() -> None:
    old = {"cluster": {"id": "c1", "autoscalingApi": "v2beta1"}}
    assert parse(settings(on(SM_UTIL)) | old)
    config = settings(on(SM_UTIL), service={"autoscaler": {"scaleUp": {}}}) | old
    assert fault(config) == (
        "services[0].autoscaler.scaleUp needs cluster.autoscalingApi v2 (v2beta1 does not have the field `behavior`): "
        "remove scaleUp, or set autoscalingApi to v2."
    )


@pytest.mark.parametrize(
    ("metric", "hint"),
    [
        (on(SM_UTIL, 0.8), "0.8 %: if you meant 80 %, write 80."),
        (on("vllm_kv_cache_usage_perc", "0.75"), "0.75 %: if you meant 75 %, write 75."),
        (on("DCGM_CUSTOM_PROCESS_MEM_USED", 10), "10 MiB: if you meant GiB, write 10Gi."),
    ],
)
def test_warns_about_a_target_in_the_wrong_unit(metric: dict[str, Any], hint: str) -> None:
    [warning] = warnings(parse(settings(metric)))
    assert warning == f"services[0].autoscaler.metrics[0].target is {hint}"


@pytest.mark.parametrize(
    ("metric", "adapter", "highest", "most"),
    [
        # 100 / 90 is above Kubernetes' tolerance of 1.1, and 100 / 91 is not.
        (SM_UTIL, {}, "100", "90"),
        ("vllm_kv_cache_usage_perc", {}, "100", "90"),
        ("DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO", {"rules": "seed"}, "1", "0.909"),
        # A V100 has 16 GiB.
        ("DCGM_FI_DEV_FB_USED", {}, "16384", "14894"),
    ],
)
def test_warns_about_a_target_that_never_adds_a_replica(
    metric: str, adapter: dict[str, str], highest: str, most: str
) -> None:
    [warning] = warnings(parse(settings(on(metric, highest), adapter=adapter)))
    assert warning.startswith(f"services[0].autoscaler.metrics[0].target is {highest}")
    assert warning.endswith(f"use a target of at most {most}.")
    assert not warnings(parse(settings(on(metric, most), adapter=adapter)))
    step = Decimal("0.001") if "." in most else 1
    assert warnings(parse(settings(on(metric, str(Decimal(most) + step)), adapter=adapter)))
    assert "never reaches" in fault(settings(on(metric, str(Decimal(highest) + step)), adapter=adapter))


def test_a_ratio_of_exactly_the_tolerance_adds_no_replica() -> None:
    eleven: dict[str, Any] = {"pool": {"cardMode": "cgpu"}, "service": {"gpuMemoryGiB": 11}}
    [warning] = warnings(parse(settings(on("DCGM_CUSTOM_PROCESS_MEM_USED", "10Gi"), **eleven)))
    assert warning.endswith("is at most 11264 MiB: use a target of at most 10239.")


def test_only_a_sum_over_a_pods_cards_exceeds_a_card() -> None:
    two: dict[str, Any] = {"pool": {"instanceTypes": ["ecs.gn6v-c8g1.4xlarge"], "size": 4}, "service": {"gpus": 2}}
    assert parse(settings(on("DCGM_FI_DEV_FB_USED", "32Gi"), **two))
    for aggregation in ("avg", "max"):
        sentence = fault(settings(on("DCGM_FI_DEV_FB_USED", "17Gi", aggregation=aggregation), **two))
        assert sentence.endswith("never reaches: a GPU of the pool has 16384 MiB. Lower the target.")
        assert parse(settings(on("DCGM_FI_DEV_FB_USED", "16Gi", aggregation=aggregation), **two))


def test_without_isolation_a_pod_may_use_the_whole_card() -> None:
    share: dict[str, Any] = {"pool": {"cardMode": "share"}, "service": {"gpuMemoryGiB": 4}}
    assert parse(settings(on("DCGM_CUSTOM_PROCESS_MEM_USED", "16Gi"), **share))
    assert fault(settings(on("DCGM_CUSTOM_PROCESS_MEM_USED", "17Gi"), **share)).endswith(
        "never reaches: a card of the pool has 16384 MiB. Lower the target."
    )


def own_rule(name: str, *kinds: str) -> dict[str, Any]:
    return {
        "seriesQuery": "queue_length",
        "resources": {"overrides": {kind: {"resource": kind} for kind in kinds}},
        "name": {"as": name},
        "metricsQuery": "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
    }


@pytest.mark.parametrize(
    ("name", "aggregation", "exposed", "adapter"),
    [
        ("vllm_num_requests_waiting", None, "vllm_num_requests_waiting", {"rules": "seed"}),
        (SM_UTIL, None, SM_UTIL, {"labels": "upstream"}),
        (SM_UTIL, "max", f"{SM_UTIL}_MAX", {"rules": "seed"}),
    ],
)
def test_an_extra_rule_may_expose_other_metrics(
    name: str, aggregation: str | None, exposed: str, adapter: dict[str, Any]
) -> None:
    use = on(name, **({"aggregation": aggregation} if aggregation else {}))
    assert fault(settings(use, adapter=adapter))
    assert parse(settings(use, adapter={**adapter, "extraRules": [own_rule(exposed, "namespace", "pod")]}))
    nodes = {**adapter, "extraRules": [own_rule(exposed, "node")]}
    assert "exposes for node only, but an HPA reads metrics of pods" in fault(settings(use, adapter=nodes))


@pytest.mark.parametrize(
    ("image", "name", "own"),
    [
        ("lmsysorg/SGLang:v0.5", "vllm_num_requests_waiting", "sglang_num_queue_reqs or sglang_token_usage"),
        ("mirror/VLLM-openai:v1", "sglang_token_usage", "vllm_num_requests_waiting or vllm_kv_cache_usage_perc"),
    ],
)
def test_warns_about_the_metric_of_another_engine(image: str, name: str, own: str) -> None:
    [warning] = warnings(parse(settings(on(name, 50), service={"image": image})))
    assert warning.endswith(f", which does not have this metric: consider {own}.")
    assert not warnings(parse(settings(on(own.split(" ")[0], 50), service={"image": image})))


def test_the_guides_ratio_is_at_most_1() -> None:
    ratio = on("DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO", 0.8)
    assert warnings(parse(settings(ratio)))
    assert not warnings(parse(settings(ratio, adapter={"rules": "seed"})))
