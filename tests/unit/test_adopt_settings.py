"""Which settings keep a live pool, release and service as they are, and how they are written into the file."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from autoscaling.ack.load_balancer import ADDRESS_TYPE
from autoscaling.ack.versions import ADAPTER_CHART
from autoscaling.metrics.adapter_rules import RuleSet
from autoscaling.settings import Settings
from commands.adopt.live_objects import ServiceObjects
from commands.adopt.pool_settings import propose_pool
from commands.adopt.proposal import Proposal, changed_settings, may_be_secret, with_settings
from commands.adopt.release_settings import propose_release
from commands.adopt.service_settings import propose_service
from live.helm_release import HelmRelease
from tests.unit.adoption import (
    CHECKOUT,
    DOWN_BY_DEFAULT,
    GUIDE_RULES,
    OWN_VSWITCHES,
    RULE,
    UP_BY_DEFAULT,
    URL,
    manifests,
    pool,
    release,
    settings,
)

# The pool


def proposed(live: Any) -> Proposal:
    proposal = Proposal()
    propose_pool(proposal, live, OWN_VSWITCHES)
    return proposal


def changed_pool(live: Any, **now: Any) -> dict[str, Any]:
    mine = settings(gpuNodePool={"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], **(now or {"autoscaling": {"max": 9}})})
    part = proposed(live)
    assert not part.problems
    return {".".join(map(str, key[1:])): value for key, value in changed_settings(part.settings, mine).items()}


def test_a_pool_as_in_the_settings_is_only_kept() -> None:
    assert changed_pool(pool(limits=(0, 9))) == {"adopted": True}


def test_an_autoscaling_pool_takes_the_size_out_and_a_fixed_one_the_limits() -> None:
    assert changed_pool(pool(limits=(2, 4)), size=3) == {
        "size": None,
        "autoscaling.min": 2,
        "autoscaling.max": 4,
        "adopted": True,
    }
    assert changed_pool(pool(limits=None)) == {"autoscaling": None, "size": 2, "adopted": True}


def test_what_the_pool_has_becomes_settings() -> None:
    live = pool(
        limits=(0, 9),
        instance_types=["ecs.gn7i-c8g1.2xlarge"],
        vswitch_ids=["vsw-other"],
        disk=("cloud_efficiency", 200),
        labels={"ack.node.gpu.schedule": "core_mem"},
        taints=[{"key": "gpu", "value": "", "effect": "NoSchedule"}],
        key_name="pair",
        spot_strategy="SpotWithPriceLimit",
        spot_limits={"ecs.gn7i-c8g1.2xlarge": "4.5"},
    )
    assert changed_pool(live) == {
        "instanceTypes": ["ecs.gn7i-c8g1.2xlarge"],
        "vswitchIds": ["vsw-other"],
        "systemDisk.category": "cloud_efficiency",
        "systemDisk.sizeGiB": 200,
        "cardMode": "core_mem",
        "taints": [{"key": "gpu", "effect": "NoSchedule"}],
        "keyName": "pair",
        "spot": {"hourlyPriceLimits": {"ecs.gn7i-c8g1.2xlarge": 4.5}},
        "adopted": True,
    }


def test_the_clusters_own_vswitches_in_another_order_are_not_a_setting() -> None:
    assert "vswitchIds" not in changed_pool(pool(limits=(0, 9), vswitch_ids=["vsw-b", "vsw-a"]))


def test_a_market_price_is_spot_without_limits() -> None:
    assert changed_pool(pool(limits=(0, 9), spot_strategy="SpotAsPriceGo"))["spot"] == {}


def test_a_label_without_a_setting_is_reported_and_an_unknown_way_to_share_cards_is_refused() -> None:
    [note] = proposed(pool(labels={"team": "vision"})).notes
    assert "would lose its label team" in note
    [problem] = proposed(pool(labels={"ack.node.gpu.schedule": "topology"})).problems
    assert "ack.node.gpu.schedule=topology" in problem


# The release


def changed_release(live: HelmRelease, now: Settings | None = None) -> tuple[dict[str, Any], list[str], list[str]]:
    now = now or settings()
    part = Proposal()
    propose_release(part, live, now, URL)
    named = {".".join(map(str, key[1:])): value for key, value in changed_settings(part.settings, now).items()}
    return named, part.notes, part.problems


def test_the_guides_release_keeps_its_rules_and_its_order() -> None:
    assert changed_release(release()) == ({"adopted": True, "rules": "seed"}, [], [])


def test_each_list_of_the_program_is_known_again() -> None:
    for preset in ("hardened", "seed-complete"):
        found, notes, problems = changed_release(release(RuleSet(preset=preset).rules()), settings())
        assert found.get("rules", "hardened") == preset
        assert (notes, problems) == ([], [])


def test_foreign_rules_follow_those_of_the_settings() -> None:
    mine = {**RULE, "name": {"as": "mine"}}
    now = settings(metricsAdapter={"extraRules": [mine]})
    found, notes, _ = changed_release(release([*GUIDE_RULES, RULE]), now)
    assert found["extraRules"] == [mine, RULE]
    assert notes == ["the adapter would restart, because its rules or their order would change."]


def test_a_foreign_rule_in_the_settings_is_not_added_again() -> None:
    now = settings(metricsAdapter={"extraRules": [RULE], "rules": "seed"})
    assert changed_release(release([*GUIDE_RULES, RULE]), now) == ({"adopted": True}, [], [])


def test_a_rule_under_a_name_of_the_program_gives_way_and_that_is_reported() -> None:
    other = {**RULE, "name": {"as": "DCGM_CUSTOM_PROCESS_SM_UTIL"}}
    found, notes, _ = changed_release(release([other, RULE]))
    assert (found["extraRules"], "rules" in found) == ([RULE], False)
    assert "the program's own rules would replace the live rules for DCGM_CUSTOM_PROCESS_SM_UTIL." in notes


def test_default_rules_of_the_adapter_would_go() -> None:
    _, notes, _ = changed_release(release(prometheus={"adapter": {"rules": {"default": True, "custom": GUIDE_RULES}}}))
    assert any("default rules" in note for note in notes)


def test_further_values_and_the_interval_become_settings_and_the_address_does_not() -> None:
    live = release(prometheus={"metricsRelistInterval": "2m"}, values={"replicas": 2, "nodeSelector": {"a": "b"}})
    found, _, problems = changed_release(live)
    assert found["values"] == {"AlibabaCloudMetricsAdapter": {"replicas": 2, "nodeSelector": {"a": "b"}}}
    assert found["relistInterval"] == "2m"
    assert "a-token" not in json.dumps(found)
    assert problems == []


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"ram": {"accessKeySecret": "k"}}, "AlibabaCloudMetricsAdapter.ram.accessKeySecret"),
        ({"env": [{"name": "URL", "value": f"{URL}/x"}]}, "AlibabaCloudMetricsAdapter.env[0].value"),
    ],
)
def test_a_value_that_may_be_secret_is_named_and_not_shown(values: dict[str, Any], where: str) -> None:
    found, _, [problem] = changed_release(release(values=values))
    assert where in problem
    assert "a-token" not in problem
    assert "values" not in found


def test_a_chart_of_another_version_is_kept_by_its_url_or_refused_as_a_folder() -> None:
    found, *_ = changed_release(release(version="1.3.1"))
    assert found["chart"] == ADAPTER_CHART.replace("1.3.2", "1.3.1")
    now = settings(metricsAdapter={"chart": str(CHECKOUT / "rehearsal" / "chart")})
    *_, [problem] = changed_release(release(version="1.3.1"), now)
    assert "has chart version 1.3.1, but metricsAdapter.chart has version 1.3.2" in problem


def test_a_release_that_a_stack_had_is_reported() -> None:
    live = release()
    values = {**live.values, "global": {"ackgpu": {"stack": "ackgpu/old"}}}
    found, [note], _ = changed_release(replace(live, values=values))
    assert "stack ackgpu/old installed release" in note
    assert "values" not in found


@pytest.mark.parametrize("status", ["pending-upgrade", "failed"])
def test_a_release_under_way_is_refused(status: str) -> None:
    *_, [problem] = changed_release(release(status=status))
    assert f"is {status}. First repair it" in problem


@pytest.mark.parametrize(("value", "kind"), [("Basic abc", "basic"), ("abc", "token")])
def test_an_authorization_has_to_be_set_first_and_is_not_shown(value: str, kind: str) -> None:
    live = release(prometheus={"prometheusHeader": [{"Authorization": value}]})
    *_, [problem] = changed_release(live)
    assert f"Set prometheus.auth with type {kind}" in problem
    assert "abc" not in problem
    secret = {"type": "token", "token": "abc"}
    assert changed_release(live, settings(prometheus={"auth": secret}))[2] == []


def test_another_prometheus_is_reported_without_its_address() -> None:
    _, [note], _ = changed_release(release(prometheus={"url": "http://elsewhere/other-token"}))
    assert "does not use the cluster's Prometheus instance" in note
    assert "token" not in note


# A service


def wanted(of: ServiceObjects, now: Settings | None = None) -> tuple[dict[str, Any], list[str], list[str]]:
    """Settings of the service without what is so already, notes, and problems."""
    now = now or settings()
    part = Proposal()
    propose_service(part, now.services[0], ("services", 0), of)
    named = {".".join(map(str, key[2:])): value for key, value in changed_settings(part.settings, now).items()}
    return named, part.notes, part.problems


NEW_BUDGET = (
    "PodDisruptionBudget default/bert would be created: draining a node then evicts only one of its pods at a time."
)


def test_the_guides_objects_need_their_names_and_to_be_kept() -> None:
    found, notes, problems = wanted(manifests())
    assert found == {
        "containerName": "bert-container",
        "image": "registry.cn-hangzhou.aliyuncs.com/ai-samples/bert:1.0.1",
        "autoscaler.name": "gpu-hpa",
        "adopted": True,
    }
    assert (notes, problems) == ([NEW_BUDGET], [])


def test_what_the_container_has_becomes_settings() -> None:
    live = manifests()
    assert live.deployment
    [container] = live.deployment["spec"]["template"]["spec"]["containers"]
    container |= {
        "args": ["--model", "bert"],
        "env": [{"name": "WORKERS", "value": "2"}, {"name": "HOST", "valueFrom": {"fieldRef": {}}}],
        "envFrom": [{"secretRef": {"name": "keys"}}],
        "ports": [{"containerPort": 8000}],
        "resources": {
            "limits": {"aliyun.com/gpu-mem": "4", "aliyun.com/gpu-core.percentage": "30"},
            "requests": {"cpu": "2", "memory": "8Gi", "aliyun.com/gpu-mem": "4"},
        },
    }
    found, *_ = wanted(live)
    assert found["args"] == ["--model", "bert"]
    assert found["env"] == {"WORKERS": "2"}
    assert found["envFrom"] == ["keys"]
    assert found["containerPort"] == 8000
    assert (found["cpu"], found["memory"]) == ("2", "8Gi")
    assert (found["gpuMemoryGiB"], found["gpuCorePercent"]) == (4, 30)


def test_mig_instances_become_their_profile() -> None:
    live = manifests()
    assert live.deployment
    live.deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"nvidia.com/mig-1g.10gb.me": "2"}
    }
    found, *_ = wanted(live)
    assert (found["migProfile"], found["gpus"]) == ("1g.10gb+me", 2)


def test_a_secret_in_the_environment_is_named_and_not_shown() -> None:
    live = manifests()
    assert live.deployment
    container = live.deployment["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "API_TOKEN", "value": "hush"}]
    found, _, [problem] = wanted(live)
    assert "API_TOKEN" in problem
    assert "hush" not in f"{found}{problem}"


def test_another_selector_would_be_a_new_deployment() -> None:
    live = manifests()
    assert live.deployment
    live.deployment["spec"]["selector"]["matchLabels"] = {"run": "bert"}
    *_, [problem] = wanted(live)
    assert "selects its pods by run=bert, the program by app=bert" in problem


def test_a_second_container_is_refused() -> None:
    live = manifests()
    assert live.deployment
    live.deployment["spec"]["template"]["spec"]["containers"].append({"name": "proxy", "image": "proxy"})
    *_, [problem] = wanted(live)
    assert "has 2 containers" in problem


def test_ports_and_the_kind_of_address_become_settings_and_what_can_not_is_reported() -> None:
    live = manifests()
    assert live.service
    live.service["metadata"].update(annotations={ADDRESS_TYPE: "intranet"})
    live.service["spec"]["ports"][0]["port"] = 8080
    found, *_ = wanted(live)
    assert (found["port"], found["loadBalancer"]) == (8080, "intranet")
    live.service["spec"].update({"type": "ClusterIP", "ports": [{"port": 80}, {"port": 9000}]})
    _, [_, note], [problem] = wanted(live)
    assert "has type ClusterIP, would become a LoadBalancer" in note
    assert "and lose 9000" in problem


def test_the_hpa_keeps_its_metrics_numbers_and_pace() -> None:
    live = manifests()
    hpa = live.autoscalers[0]
    metric = copy.deepcopy(hpa["spec"]["metrics"][0])
    metric["pods"] = {
        "metric": {"name": "DCGM_CUSTOM_PROCESS_MEM_USED_MAX"},
        "target": {"type": "AverageValue", "averageValue": "1500m"},
    }
    hpa["spec"].update(
        {
            "minReplicas": 2,
            "maxReplicas": 4,
            "metrics": [metric],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        }
    )
    found, *_ = wanted(live)
    assert found["autoscaler.metrics"] == [
        {"name": "DCGM_CUSTOM_PROCESS_MEM_USED", "aggregation": "max", "target": 1.5}
    ]
    assert (found["autoscaler.minReplicas"], found["autoscaler.maxReplicas"]) == (2, 4)
    assert found["autoscaler.scaleDown.stabilizationWindowSeconds"] == 60


PACE = {
    "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
    "scaleDown": {"stabilizationWindowSeconds": 15, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}]},
}


@pytest.mark.parametrize(
    ("behavior", "kept"),
    [
        (None, {}),
        # As the API server serves it: it fills in all but the window, which is the controller's.
        ({"scaleDown": {"policies": DOWN_BY_DEFAULT, "selectPolicy": "Max"}}, {}),
        ({"scaleDown": {"stabilizationWindowSeconds": 0}}, {"autoscaler.scaleDown.stabilizationWindowSeconds": 0}),
    ],
)
def test_where_the_hpa_says_nothing_of_its_pace_kubernetes_defaults_become_settings(
    behavior: Any, kept: dict[str, Any]
) -> None:
    live = manifests()
    live.autoscalers[0]["spec"].update({} if behavior is None else {"behavior": behavior})
    service = {"name": "bert", "image": "registry.example/bert:1", "autoscaler": PACE}
    found, *_ = wanted(live, settings(services=[service]))
    assert {key: value for key, value in found.items() if "scaleUp" in key or "scaleDown" in key} == {
        "autoscaler.scaleUp.stabilizationWindowSeconds": 0,
        "autoscaler.scaleUp.policies": UP_BY_DEFAULT,
        "autoscaler.scaleDown.stabilizationWindowSeconds": 300,
        "autoscaler.scaleDown.policies": DOWN_BY_DEFAULT,
        **kept,
    }


def test_a_budget_that_has_the_pods_already_is_reported_for_with_two_no_pod_is_evicted() -> None:
    budgets = [{"metadata": {"namespace": "default", "name": name}} for name in ("team", "other")]
    _, [note], _ = wanted(manifests(disruption_budgets=budgets))
    assert note == (
        "PodDisruptionBudget default/bert would be created, but its pods already have default/team, default/other. "
        "Kubernetes can't evict a pod with two. Delete default/team, default/other first."
    )


def test_an_hpa_of_the_old_api_and_one_on_other_metrics() -> None:
    live = manifests()
    hpa = live.autoscalers[0]
    hpa["spec"]["metrics"] = [
        {"type": "Pods", "pods": {"metricName": "queue_length", "targetAverageValue": "7"}},
        {"type": "Resource", "resource": {"name": "cpu"}},
    ]
    found, [_, note], _ = wanted(live)
    assert found["autoscaler.metrics"] == [{"name": "queue_length", "target": 7}]
    assert "no longer scale on its metrics of type Resource" in note


def test_two_hpas_of_one_deployment_are_refused_by_name() -> None:
    live = manifests()
    second = copy.deepcopy(live.autoscalers[0])
    second["metadata"]["name"] = "other"
    *_, [problem] = wanted(manifests(autoscalers=[live.autoscalers[0], second]))
    assert "has several HPAs: gpu-hpa, other" in problem


def test_nothing_of_a_service_there_is_nothing_to_keep() -> None:
    assert wanted(ServiceObjects(None, None, [])) == ({}, [], [])


# The stack's file

TEXT = """\
# mine
config:
  ackgpu:region: cn-hangzhou  # near
  gpuNodePool:
    size: 2  # for now
  ackgpu:services:
    - {name: 'bert', image: b}
    - name: t5
      image: t
encryptionsalt: v1:abc
"""


def test_settings_are_changed_in_place_and_all_else_stays_as_it_was_written() -> None:
    changed = with_settings(
        TEXT,
        {
            ("gpuNodePool", "size"): None,
            ("gpuNodePool", "autoscaling", "max"): 4,
            ("gpuNodePool", "spot", "gone"): None,
            ("services", 0, "port"): 8080,
            ("services", 1, "autoscaler", "name"): "hpa",
            ("metricsAdapter", "extraRules"): [RULE],
        },
    )
    assert changed == TEXT.replace("    size: 2  # for now\n", "    autoscaling:\n      max: 4\n").replace(
        "image: b}", "image: b, port: 8080}"
    ).replace("      image: t\n", "      image: t\n      autoscaler:\n        name: hpa\n").replace(
        "encryptionsalt",
        """\
  ackgpu:metricsAdapter:
    extraRules:
      - seriesQuery: queue_length{namespace!="",pod!=""}
        resources:
          overrides:
            namespace:
              resource: namespace
            pod:
              resource: pod
        metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
encryptionsalt""",
    )


@pytest.mark.parametrize("name", ["Pulumi.dev.yaml", "Pulumi.rehearsal.yaml"])
def test_a_stack_file_without_changes_stays_byte_for_byte(name: str) -> None:
    text = (CHECKOUT / name).read_text()
    assert with_settings(text, {}) == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("accessKeySecret", True),
        ("API_TOKEN", True),
        ("privateKey", True),
        ("dbPassword", True),
        ("secretName", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("keyName", False),
        ("accessKeys", False),
        ("logLevel", False),
    ],
)
def test_a_secret_is_known_by_its_name(name: str, secret: bool) -> None:
    assert may_be_secret(name) is secret
