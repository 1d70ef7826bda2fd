"""Proposed settings for a live pool, release and service, and changes to the settings file."""

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


def changed_pool(live: Any, **size: Any) -> dict[str, Any]:
    current = settings(
        gpuNodePool={"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], **(size or {"autoscaling": {"max": 9}})}
    )
    proposal = proposed(live)
    assert not proposal.problems
    return {".".join(map(str, key[1:])): value for key, value in changed_settings(proposal.settings, current).items()}


def test_only_marks_a_pool_that_matches_the_settings() -> None:
    assert changed_pool(pool(limits=(0, 9))) == {"adopted": True}


def test_an_autoscaling_pool_removes_the_size_and_a_fixed_pool_removes_the_limits() -> None:
    assert changed_pool(pool(limits=(2, 4)), size=3) == {
        "size": None,
        "autoscaling.min": 2,
        "autoscaling.max": 4,
        "adopted": True,
    }
    assert changed_pool(pool(limits=None)) == {"autoscaling": None, "size": 2, "adopted": True}


def test_proposes_the_settings_of_a_live_pool() -> None:
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


def test_ignores_the_order_of_the_cluster_vswitches() -> None:
    assert "vswitchIds" not in changed_pool(pool(limits=(0, 9), vswitch_ids=["vsw-b", "vsw-a"]))


def test_a_market_price_becomes_spot_without_limits() -> None:
    assert changed_pool(pool(limits=(0, 9), spot_strategy="SpotAsPriceGo"))["spot"] == {}


def test_reports_a_lost_label_and_refuses_an_unknown_card_mode() -> None:
    [note] = proposed(pool(labels={"team": "vision"})).notes
    assert "would lose its label team" in note
    [problem] = proposed(pool(labels={"ack.node.gpu.schedule": "topology"})).problems
    assert "ack.node.gpu.schedule=topology" in problem


# The release


def changed_release(live: HelmRelease, current: Settings | None = None) -> tuple[dict[str, Any], list[str], list[str]]:
    current = current or settings()
    proposal = Proposal()
    propose_release(proposal, live, current, URL)
    changed = {
        ".".join(map(str, key[1:])): value for key, value in changed_settings(proposal.settings, current).items()
    }
    return changed, proposal.notes, proposal.problems


def test_keeps_the_rules_and_the_order_of_the_guides_release() -> None:
    assert changed_release(release()) == ({"adopted": True, "rules": "seed"}, [], [])


def test_recognizes_each_preset_of_the_program() -> None:
    for preset in ("hardened", "seed-complete"):
        changes, notes, problems = changed_release(release(RuleSet(preset=preset).rules()), settings())
        assert changes.get("rules", "hardened") == preset
        assert (notes, problems) == ([], [])


def test_foreign_rules_follow_the_rules_in_the_settings() -> None:
    own = {**RULE, "name": {"as": "mine"}}
    current = settings(metricsAdapter={"extraRules": [own]})
    changes, notes, _ = changed_release(release([*GUIDE_RULES, RULE]), current)
    assert changes["extraRules"] == [own, RULE]
    assert notes == ["the adapter would restart, because its rules or their order would change."]


def test_does_not_add_a_foreign_rule_twice() -> None:
    current = settings(metricsAdapter={"extraRules": [RULE], "rules": "seed"})
    assert changed_release(release([*GUIDE_RULES, RULE]), current) == ({"adopted": True}, [], [])


def test_reports_a_live_rule_that_the_program_replaces() -> None:
    other = {**RULE, "name": {"as": "DCGM_CUSTOM_PROCESS_SM_UTIL"}}
    changes, notes, _ = changed_release(release([other, RULE]))
    assert (changes["extraRules"], "rules" in changes) == ([RULE], False)
    assert "the program's own rules would replace the live rules for DCGM_CUSTOM_PROCESS_SM_UTIL." in notes


def test_reports_the_loss_of_the_adapters_default_rules() -> None:
    _, notes, _ = changed_release(release(prometheus={"adapter": {"rules": {"default": True, "custom": GUIDE_RULES}}}))
    assert any("default rules" in note for note in notes)


def test_proposes_values_and_interval_but_not_the_address() -> None:
    live = release(prometheus={"metricsRelistInterval": "2m"}, values={"replicas": 2, "nodeSelector": {"a": "b"}})
    changes, _, problems = changed_release(live)
    assert changes["values"] == {"AlibabaCloudMetricsAdapter": {"replicas": 2, "nodeSelector": {"a": "b"}}}
    assert changes["relistInterval"] == "2m"
    assert "a-token" not in json.dumps(changes)
    assert problems == []


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"ram": {"accessKeySecret": "k"}}, "AlibabaCloudMetricsAdapter.ram.accessKeySecret"),
        ({"env": [{"name": "URL", "value": f"{URL}/x"}]}, "AlibabaCloudMetricsAdapter.env[0].value"),
    ],
)
def test_names_a_possible_secret_without_its_value(values: dict[str, Any], path: str) -> None:
    changes, _, [problem] = changed_release(release(values=values))
    assert path in problem
    assert "a-token" not in problem
    assert "values" not in changes


def test_keeps_another_chart_version_by_url_but_refuses_it_as_a_folder() -> None:
    changes, *_ = changed_release(release(version="1.3.1"))
    assert changes["chart"] == ADAPTER_CHART.replace("1.3.2", "1.3.1")
    current = settings(metricsAdapter={"chart": str(CHECKOUT / "rehearsal" / "chart")})
    *_, [problem] = changed_release(release(version="1.3.1"), current)
    assert "has chart version 1.3.1, but metricsAdapter.chart has version 1.3.2" in problem


def test_reports_a_release_of_another_stack() -> None:
    live = release()
    values = {**live.values, "global": {"ackgpu": {"stack": "ackgpu/old"}}}
    changes, [note], _ = changed_release(replace(live, values=values))
    assert "stack ackgpu/old installed release" in note
    assert "values" not in changes


@pytest.mark.parametrize("status", ["pending-upgrade", "failed"])
def test_refuses_an_unfinished_or_failed_release(status: str) -> None:
    *_, [problem] = changed_release(release(status=status))
    assert f"is {status}. First repair the release" in problem


@pytest.mark.parametrize(("value", "kind"), [("Basic abc", "basic"), ("abc", "token")])
def test_requires_an_authorization_in_the_settings_without_showing_it(value: str, kind: str) -> None:
    live = release(prometheus={"prometheusHeader": [{"Authorization": value}]})
    *_, [problem] = changed_release(live)
    assert f"Set prometheus.auth with type {kind}" in problem
    assert "abc" not in problem
    secret = {"type": "token", "token": "abc"}
    assert changed_release(live, settings(prometheus={"auth": secret}))[2] == []


def test_reports_another_prometheus_without_its_address() -> None:
    _, [note], _ = changed_release(release(prometheus={"url": "http://elsewhere/other-token"}))
    assert "does not use the cluster's Prometheus instance" in note
    assert "token" not in note


# A service


def changed_service(
    live: ServiceObjects, current: Settings | None = None
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return changed settings of the service, notes and problems."""
    current = current or settings()
    proposal = Proposal()
    propose_service(proposal, current.services[0], ("services", 0), live)
    changed = {
        ".".join(map(str, key[2:])): value for key, value in changed_settings(proposal.settings, current).items()
    }
    return changed, proposal.notes, proposal.problems


NEW_BUDGET = (
    "PodDisruptionBudget default/bert would be created: draining a node then evicts only one pod of the service at a "
    "time."
)


def test_the_guides_objects_need_only_their_names() -> None:
    changes, notes, problems = changed_service(manifests())
    assert changes == {
        "containerName": "bert-container",
        "image": "registry.cn-hangzhou.aliyuncs.com/ai-samples/bert:1.0.1",
        "autoscaler.name": "gpu-hpa",
        "adopted": True,
    }
    assert (notes, problems) == ([NEW_BUDGET], [])


def test_proposes_the_settings_of_a_live_container() -> None:
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
    changes, *_ = changed_service(live)
    assert changes["args"] == ["--model", "bert"]
    assert changes["env"] == {"WORKERS": "2"}
    assert changes["envFrom"] == ["keys"]
    assert changes["containerPort"] == 8000
    assert (changes["cpu"], changes["memory"]) == ("2", "8Gi")
    assert (changes["gpuMemoryGiB"], changes["gpuCorePercent"]) == (4, 30)


def test_mig_instances_become_a_profile() -> None:
    live = manifests()
    assert live.deployment
    live.deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"nvidia.com/mig-1g.10gb.me": "2"}
    }
    changes, *_ = changed_service(live)
    assert (changes["migProfile"], changes["gpus"]) == ("1g.10gb+me", 2)


def test_names_a_secret_environment_variable_without_its_value() -> None:
    live = manifests()
    assert live.deployment
    container = live.deployment["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "API_TOKEN", "value": "hush"}]
    changes, _, [problem] = changed_service(live)
    assert "API_TOKEN" in problem
    assert "hush" not in f"{changes}{problem}"


def test_refuses_another_selector() -> None:
    live = manifests()
    assert live.deployment
    live.deployment["spec"]["selector"]["matchLabels"] = {"run": "bert"}
    *_, [problem] = changed_service(live)
    assert "selects pods by run=bert, but the program selects app=bert" in problem


def test_refuses_a_second_container() -> None:
    live = manifests()
    assert live.deployment
    live.deployment["spec"]["template"]["spec"]["containers"].append({"name": "proxy", "image": "proxy"})
    *_, [problem] = changed_service(live)
    assert "has 2 containers" in problem


def test_proposes_port_and_address_type_and_reports_what_would_be_lost() -> None:
    live = manifests()
    assert live.service
    live.service["metadata"].update(annotations={ADDRESS_TYPE: "intranet"})
    live.service["spec"]["ports"][0]["port"] = 8080
    changes, *_ = changed_service(live)
    assert (changes["port"], changes["loadBalancer"]) == (8080, "intranet")
    live.service["spec"].update({"type": "ClusterIP", "ports": [{"port": 80}, {"port": 9000}]})
    _, [_, note], [problem] = changed_service(live)
    assert "has type ClusterIP. It would become a LoadBalancer" in note
    assert "and lose 9000" in problem


def test_an_hpa_keeps_its_metrics_limits_and_policies() -> None:
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
    changes, *_ = changed_service(live)
    assert changes["autoscaler.metrics"] == [
        {"name": "DCGM_CUSTOM_PROCESS_MEM_USED", "aggregation": "max", "target": 1.5}
    ]
    assert (changes["autoscaler.minReplicas"], changes["autoscaler.maxReplicas"]) == (2, 4)
    assert changes["autoscaler.scaleDown.stabilizationWindowSeconds"] == 60


POLICIES = {
    "scaleUp": {"stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]},
    "scaleDown": {"stabilizationWindowSeconds": 15, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}]},
}


@pytest.mark.parametrize(
    ("behavior", "kept"),
    [
        (None, {}),
        # As the API server returns it: with all defaults except the window, which the controller sets.
        ({"scaleDown": {"policies": DOWN_BY_DEFAULT, "selectPolicy": "Max"}}, {}),
        ({"scaleDown": {"stabilizationWindowSeconds": 0}}, {"autoscaler.scaleDown.stabilizationWindowSeconds": 0}),
    ],
)
def test_proposes_kubernetes_defaults_for_an_hpa_without_policies(behavior: Any, kept: dict[str, Any]) -> None:
    live = manifests()
    live.autoscalers[0]["spec"].update({} if behavior is None else {"behavior": behavior})
    service = {"name": "bert", "image": "registry.example/bert:1", "autoscaler": POLICIES}
    changes, *_ = changed_service(live, settings(services=[service]))
    assert {key: value for key, value in changes.items() if "scaleUp" in key or "scaleDown" in key} == {
        "autoscaler.scaleUp.stabilizationWindowSeconds": 0,
        "autoscaler.scaleUp.policies": UP_BY_DEFAULT,
        "autoscaler.scaleDown.stabilizationWindowSeconds": 300,
        "autoscaler.scaleDown.policies": DOWN_BY_DEFAULT,
        **kept,
    }


def test_reports_a_live_budget_because_two_budgets_block_evictions() -> None:
    budgets = [{"metadata": {"namespace": "default", "name": name}} for name in ("team", "other")]
    _, [note], _ = changed_service(manifests(disruption_budgets=budgets))
    assert note == (
        "PodDisruptionBudget default/bert would be created, but another PodDisruptionBudget already selects the same "
        "pods: default/team, default/other. Kubernetes can't evict a pod that two budgets select. Delete default/team, "
        "default/other first."
    )


def test_reads_an_hpa_of_the_old_api_and_reports_unsupported_metrics() -> None:
    live = manifests()
    hpa = live.autoscalers[0]
    hpa["spec"]["metrics"] = [
        {"type": "Pods", "pods": {"metricName": "queue_length", "targetAverageValue": "7"}},
        {"type": "Resource", "resource": {"name": "cpu"}},
    ]
    changes, [_, note], _ = changed_service(live)
    assert changes["autoscaler.metrics"] == [{"name": "queue_length", "target": 7}]
    assert "no longer scale on its metrics of type Resource" in note


def test_refuses_two_hpas_of_a_deployment_and_names_both() -> None:
    live = manifests()
    second = copy.deepcopy(live.autoscalers[0])
    second["metadata"]["name"] = "other"
    *_, [problem] = changed_service(manifests(autoscalers=[live.autoscalers[0], second]))
    assert "has several HPAs: gpu-hpa, other" in problem


def test_proposes_nothing_for_a_service_without_live_objects() -> None:
    assert changed_service(ServiceObjects(None, None, [])) == ({}, [], [])


# The stack's file

TEXT = """\
# ours
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


def test_changes_settings_in_place_and_keeps_everything_else() -> None:
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
def test_keeps_a_file_without_changes_byte_for_byte(name: str) -> None:
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
def test_recognizes_a_secret_by_its_name(name: str, secret: bool) -> None:
    assert may_be_secret(name) is secret
