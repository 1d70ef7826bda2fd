"""What adopting a live thing means for the settings, for its users, and for the files that Pulumi imports."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

import commands.adopt.__main__ as command
from autoscaling.ack.load_balancer import ADDRESS_TYPE
from autoscaling.ack.versions import ADAPTER_CHART, ADAPTER_NAME
from autoscaling.metrics.adapter_rules import RuleSet
from autoscaling.settings import Settings
from commands.adopt import engine
from commands.adopt.account import Account, Pool
from commands.adopt.effects import effects
from commands.adopt.findings import different, findings
from commands.adopt.import_files import NODE_POOL, RELEASE, Thing, import_files
from commands.adopt.live import Live, LiveCluster, ServiceObjects
from commands.adopt.part import REMOVED, AdoptionError
from commands.adopt.plan import Plan, Step, preview
from commands.adopt.pool_settings import of_pool
from commands.adopt.release_settings import of_release
from commands.adopt.secret_names import may_be_secret
from commands.adopt.service_settings import of_service
from commands.adopt.stack_text import with_settings
from live.helm_release import HelmRelease
from live.preflight import no_other_owners
from tests.unit.program import Recorder, run_program, stack_config

DATA = Path(__file__).parents[1] / "data"
CHECKOUT = Path(__file__).parents[2]
GUIDES_RULES = yaml.safe_load((DATA / "seed_rules_default.yaml").read_text())
URL = "http://arms/api/v1/prometheus/a-token/1/c1/cn-hangzhou"
OWN_VSWITCHES = ["vsw-a", "vsw-b"]
RULE = {
    "seriesQuery": 'queue_length{namespace!="",pod!=""}',
    "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
    "metricsQuery": "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
}


def settings(**changes: Any) -> Settings:
    service = {"name": "bert", "image": "registry.example/bert:1"}
    values = {
        "region": "cn-hangzhou",
        "cluster": {"id": "c1"},
        "gpuNodePool": {"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], "autoscaling": {"min": 1, "max": 10}},
        "services": [service],
        **changes,
    }
    return Settings.model_validate(values)


def pool(**changes: Any) -> Pool:
    return Pool(
        **{
            "pool_id": "np1",
            "name": "gpu",
            "instance_types": ["ecs.gn6v-c8g1.2xlarge"],
            "vswitch_ids": OWN_VSWITCHES,
            "size": 2,
            "limits": (1, 10),
            "disk": ("cloud_essd", 120),
            "labels": {},
            "taints": [],
            "key_name": None,
            "spot_strategy": "NoSpot",
            "spot_limits": {},
            **changes,
        }
    )


def release(rules: Any = GUIDES_RULES, **changes: Any) -> HelmRelease:
    own = {"enabled": True, "url": URL, "logLevel": 5, "adapter": {"rules": {"default": False, "custom": rules}}}
    values = {"AlibabaCloudMetricsAdapter": {"prometheus": {**own, **changes.pop("prometheus", {})}}}
    values["AlibabaCloudMetricsAdapter"] |= changes.pop("values", {})
    known = {"chart": ADAPTER_NAME, "version": "1.3.2", "status": "deployed", "revision": 3, "manifest": ""}
    told = {**known, "changed": datetime(2026, 1, 1, tzinfo=UTC), **changes}
    return HelmRelease(name=ADAPTER_NAME, namespace="kube-system", values=values, **told)


def manifests(**changes: Any) -> ServiceObjects:
    """The guide's, for the service `bert`."""
    text = (DATA / "seed_manifests.yaml").read_text().replace("bert-intent-detection", "bert")
    deployment, service, hpa = yaml.safe_load_all(text)
    for one in (deployment, service, hpa):
        one["metadata"]["namespace"] = "default"
    return ServiceObjects(**{"deployment": deployment, "service": service, "autoscalers": [hpa], **changes})


def wanted(of: ServiceObjects, now: Settings | None = None) -> tuple[dict[str, Any], list[str], list[str]]:
    """Settings of the service without what is so already, notes, and problems."""
    now = now or settings()
    part = of_service(now.services[0], ("services", 0), of)
    named = {".".join(map(str, key[2:])): value for key, value in different(part.settings, now).items()}
    return named, part.notes, part.problems


# The pool


def changed_pool(live: Pool, **now: Any) -> dict[str, Any]:
    mine = settings(gpuNodePool={"instanceTypes": ["ecs.gn6v-c8g1.2xlarge"], **(now or {"autoscaling": {"max": 9}})})
    part = of_pool(live, OWN_VSWITCHES)
    assert not part.problems
    return {".".join(map(str, key[1:])): value for key, value in different(part.settings, mine).items()}


def test_a_pool_as_in_the_settings_is_only_kept() -> None:
    assert changed_pool(pool(limits=(0, 9))) == {"retainOnDelete": True}


def test_an_autoscaling_pool_takes_the_size_out_and_a_fixed_one_the_limits() -> None:
    assert changed_pool(pool(limits=(2, 4)), size=3) == {
        "size": REMOVED,
        "autoscaling.min": 2,
        "autoscaling.max": 4,
        "retainOnDelete": True,
    }
    assert changed_pool(pool(limits=None)) == {"autoscaling": REMOVED, "size": 2, "retainOnDelete": True}


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
        "retainOnDelete": True,
    }


def test_the_clusters_own_vswitches_in_another_order_are_no_setting() -> None:
    assert "vswitchIds" not in changed_pool(pool(limits=(0, 9), vswitch_ids=["vsw-b", "vsw-a"]))


def test_a_market_price_is_spot_without_limits() -> None:
    assert changed_pool(pool(limits=(0, 9), spot_strategy="SpotAsPriceGo"))["spot"] == {}


def test_a_label_without_a_setting_is_told_and_an_unknown_way_to_share_cards_is_refused() -> None:
    [note] = of_pool(pool(labels={"team": "vision"}), OWN_VSWITCHES).notes
    assert "would lose its label team" in note
    [problem] = of_pool(pool(labels={"ack.node.gpu.schedule": "topology"}), OWN_VSWITCHES).problems
    assert "ack.node.gpu.schedule=topology" in problem


# The release


def changed_release(live: HelmRelease, now: Settings | None = None) -> tuple[dict[str, Any], list[str], list[str]]:
    now = now or settings()
    part = of_release(live, now, URL)
    named = {".".join(map(str, key[1:])): value for key, value in different(part.settings, now).items()}
    return named, part.notes, part.problems


def test_the_guides_release_keeps_its_rules_and_its_order() -> None:
    assert changed_release(release()) == ({"retainOnDelete": True, "rules": "seed"}, [], [])


def test_each_list_of_the_program_is_known_again() -> None:
    for preset in ("hardened", "seed-complete"):
        found, notes, problems = changed_release(release(RuleSet(preset=preset).rules()), settings())
        assert found.get("rules", "hardened") == preset
        assert (notes, problems) == ([], [])


def test_foreign_rules_follow_those_of_the_settings() -> None:
    mine = {**RULE, "name": {"as": "mine"}}
    now = settings(metricsAdapter={"extraRules": [mine]})
    found, notes, _ = changed_release(release([*GUIDES_RULES, RULE]), now)
    assert found["extraRules"] == [mine, RULE]
    assert notes == ["the adapter would get other rules, or the same in another order, and start once more."]


def test_a_foreign_rule_in_the_settings_is_not_added_again() -> None:
    now = settings(metricsAdapter={"extraRules": [RULE], "rules": "seed"})
    assert changed_release(release([*GUIDES_RULES, RULE]), now) == ({"retainOnDelete": True}, [], [])


def test_a_rule_under_a_name_of_the_program_gives_way_and_that_is_told() -> None:
    other = {**RULE, "name": {"as": "DCGM_CUSTOM_PROCESS_SM_UTIL"}}
    found, notes, _ = changed_release(release([other, RULE]))
    assert (found["extraRules"], "rules" in found) == ([RULE], False)
    assert "the rule for DCGM_CUSTOM_PROCESS_SM_UTIL would become the program's own." in notes


def test_default_rules_of_the_adapter_would_go() -> None:
    _, notes, _ = changed_release(release(prometheus={"adapter": {"rules": {"default": True, "custom": GUIDES_RULES}}}))
    assert any("default rules on" in note for note in notes)


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
    assert "is of chart 1.3.1, and metricsAdapter.chart is of 1.3.2" in problem


def test_a_release_that_a_stack_had_is_told() -> None:
    live = release()
    values = {**live.values, "global": {"ackgpu": {"stack": "ackgpu/old"}}}
    found, [note], _ = changed_release(replace(live, values=values))
    assert "has the name of stack ackgpu/old in it" in note
    assert "values" not in found


@pytest.mark.parametrize("status", ["pending-upgrade", "failed"])
def test_a_release_under_way_is_refused(status: str) -> None:
    *_, [problem] = changed_release(release(status=status))
    assert f"is {status}: end that first" in problem


@pytest.mark.parametrize(("value", "kind"), [("Basic abc", "basic"), ("abc", "token")])
def test_an_authorization_has_to_be_set_first_and_is_not_shown(value: str, kind: str) -> None:
    live = release(prometheus={"prometheusHeader": [{"Authorization": value}]})
    *_, [problem] = changed_release(live)
    assert f"set prometheus.auth, of type {kind}" in problem
    assert "abc" not in problem
    secret = {"type": "token", "token": "abc"}
    assert changed_release(live, settings(prometheus={"auth": secret}))[2] == []


def test_another_prometheus_is_told_without_its_address() -> None:
    _, [note], _ = changed_release(release(prometheus={"url": "http://elsewhere/other-token"}))
    assert "another address" in note
    assert "token" not in note


# A service

NEW_BUDGET = (
    "PodDisruptionBudget default/bert would be made: whoever drains nodes then takes one of its pods at a time."
)


def test_the_guides_objects_need_their_names_and_to_be_kept() -> None:
    found, notes, problems = wanted(manifests())
    assert found == {
        "containerName": "bert-container",
        "image": "registry.cn-hangzhou.aliyuncs.com/ai-samples/bert:1.0.1",
        "autoscaler.name": "gpu-hpa",
        "retainOnDelete": True,
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


def test_ports_and_the_kind_of_address_become_settings_and_what_can_not_is_told() -> None:
    live = manifests()
    assert live.service
    live.service["metadata"].update(annotations={ADDRESS_TYPE: "intranet"})
    live.service["spec"]["ports"][0]["port"] = 8080
    found, *_ = wanted(live)
    assert (found["port"], found["loadBalancer"]) == (8080, "intranet")
    live.service["spec"].update({"type": "ClusterIP", "ports": [{"port": 80}, {"port": 9000}]})
    _, [_, note], [problem] = wanted(live)
    assert "is of type ClusterIP, and would become a LoadBalancer" in note
    assert "would lose 9000" in problem


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
UP_BY_DEFAULT = [
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
]
DOWN_BY_DEFAULT = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
"""As kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale has them under "Default Behavior"."""


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


def test_a_budget_that_has_the_pods_already_is_told_for_with_two_no_pod_is_evicted() -> None:
    budgets = [{"metadata": {"namespace": "default", "name": name}} for name in ("team", "other")]
    _, [note], _ = wanted(manifests(disruption_budgets=budgets))
    assert note == (
        "PodDisruptionBudget default/bert would be made, and its pods have default/team, default/other: Kubernetes "
        "evicts no pod that has two, so delete that first."
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
    assert "has the HPAs gpu-hpa, other" in problem


def test_nothing_of_a_service_there_is_nothing_to_keep() -> None:
    assert wanted(ServiceObjects(None, None, [])) == ({}, [], [])


# What there is, and what the stack has


def account(**changes: Any) -> Account:
    known = {"cluster_id": "c1", "kubeconfig": "", "vswitch_ids": OWN_VSWITCHES, "prometheus": URL, "pools": [pool()]}
    return Account(**{**known, "other_gpu_pools": {}, **changes})


def live_things() -> Live:
    return Live([manifests()], release())


def test_what_the_stack_has_is_left_alone() -> None:
    owned = {
        (NODE_POOL, "c1:np1"),
        (RELEASE, f"kube-system/{ADAPTER_NAME}"),
        ("alicloud:arms/prometheus:Prometheus", "c1"),
        ("kubernetes:apps/v1:Deployment", "default/bert"),
        ("kubernetes:core/v1:Service", "default/bert-svc"),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "default/gpu-hpa"),
    }
    found = findings(settings(), account(), live_things(), owned)
    assert (found.found, found.missing, found.things, found.part.settings) == ([], [], {}, {})
    assert len(found.owned) == 6


def test_what_is_missing_is_named() -> None:
    found = findings(settings(), account(prometheus=None, pools=[]), Live([ServiceObjects(None, None, [])], None), ())
    assert list(found.lines()) == [
        "missing  node pool gpu",
        "missing  Prometheus instance of the cluster",
        f"missing  release kube-system/{ADAPTER_NAME}",
        "missing  Deployment default/bert",
        "missing  Service default/bert-svc",
        "missing  HPA of Deployment default/bert",
    ]


def test_what_is_there_in_the_place_of_a_missing_pool_or_service_is_named() -> None:
    pools = {"gpu-v100": ["ecs.gn6v-c8g1.2xlarge"], "gpu-t4": ["ecs.gn6i-c4g1.xlarge", "ecs.gn6i-c8g1.2xlarge"]}
    public = {"metadata": {"namespace": "default", "name": "bert-lb"}, "spec": {"type": "LoadBalancer"}}
    live = Live([manifests(service=None, other_services=[public])], release())
    assert findings(settings(), account(pools=[], other_gpu_pools=pools), live, ()).missing == [
        "node pool gpu: there is gpu-v100 (ecs.gn6v-c8g1.2xlarge), gpu-t4 (ecs.gn6i-c4g1.xlarge, "
        "ecs.gn6i-c8g1.2xlarge); set gpuNodePool.name to the one that is meant, or `up` makes another",
        "Service default/bert-svc: the pods have default/bert-lb (LoadBalancer), and `up` makes this one beside, with "
        "a load balancer of its own",
    ]


def test_services_and_budgets_of_the_deployments_pods_are_found_by_their_selectors() -> None:
    def named(name: str, selector: Any) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector}}

    mine, one_of = {"app": "bert"}, {"key": "app", "operator": "In", "values": ["bert", "t5"]}
    answers = {
        "services": [
            *(named("bert-svc", mine), named("bert-lb", mine), named("narrower", {**mine, "tier": "x"})),
            *(named("t5-svc", {"app": "t5"}), named("external", {}), named("headless", None)),
        ],
        "poddisruptionbudgets": [
            *(named("equal", {"matchLabels": mine}), named("all", {}), named("none", None)),
            named("among", {"matchExpressions": [one_of]}),
            named("not-among", {"matchExpressions": [{**one_of, "operator": "NotIn"}]}),
            named("labelled", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            named("unlabelled", {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
            named("both", {"matchLabels": {"app": "t5"}, "matchExpressions": [one_of]}),
        ],
        "deployments": [manifests().deployment],
    }
    client = mock.Mock(hidden=[], listed=lambda path: answers.get(path.rpartition("/")[2], []))
    [found] = LiveCluster(client).look(settings()).services
    assert found.service
    assert found.service["metadata"]["name"] == "bert-svc"
    assert [one["metadata"]["name"] for one in found.other_services] == ["bert-lb"]
    budgets = [one["metadata"]["name"] for one in found.disruption_budgets]
    assert budgets == ["equal", "all", "among", "labelled", "unlabelled"]
    answers["deployments"] = []
    [without] = LiveCluster(client).look(settings()).services
    assert (without.other_services, without.disruption_budgets) == ([], [])


def test_two_pools_of_one_name_are_refused() -> None:
    found = findings(settings(), account(pools=[pool(), pool(pool_id="np2")]), live_things(), ())
    assert "2 node pools of the name gpu" in found.part.problems[0]


def test_an_instance_that_is_there_is_used_and_not_made() -> None:
    found = findings(settings(), account(), live_things(), ())
    assert found.part.settings["prometheus", "managedBy"] == "existing"


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
            ("gpuNodePool", "size"): REMOVED,
            ("gpuNodePool", "autoscaling", "max"): 4,
            ("gpuNodePool", "spot", "gone"): REMOVED,
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


# What up would change


def deployment(**template: Any) -> dict[str, Any]:
    metadata = {"name": "bert", "namespace": "default"}
    return {"kind": "Deployment", "metadata": metadata, "spec": {"template": {"spec": {"containers": [template]}}}}


def test_pods_that_would_be_replaced_are_told_with_the_reason() -> None:
    assert list(effects(deployment(image="a"), deployment(image="a", resources={}))) == []
    [sentence] = effects(deployment(image="a"), deployment(image="b"))
    assert "the pods of Deployment default/bert would be replaced one by one" in sentence
    assert "spec.template.spec.containers[0].image" in sentence


def test_each_reason_for_new_pods_is_told_and_no_value_of_the_environment() -> None:
    fields = ("args", "command", "env", "image", "livenessProbe", "ports", "resources")
    [sentence] = effects(deployment(**{one: ["hush"] for one in fields}), deployment())
    assert (
        sentence.partition("differ: ")[2]
        == ", ".join(f"spec.template.spec.containers[0].{one}" for one in fields) + "."
    )


def test_another_way_to_roll_out_is_told_and_another_number_of_pods_is_not() -> None:
    live, new = deployment(image="a"), deployment(image="a")
    live["spec"].update({"replicas": 3, "strategy": {"type": "Recreate"}})
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    new["spec"].update({"replicas": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
    assert list(effects(live, new)) == [
        "Deployment default/bert would change in spec.strategy.rollingUpdate "
        '(none -> {"maxSurge": 0, "maxUnavailable": 1}), spec.strategy.type (Recreate -> RollingUpdate).'
    ]
    live["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert list(effects(live, new)) == [
        "Deployment default/bert would change in spec.strategy.rollingUpdate.maxSurge (25% -> 0), "
        "spec.strategy.rollingUpdate.maxUnavailable (25% -> 1)."
    ]


def hpa(behavior: Any) -> dict[str, Any]:
    spec = {"maxReplicas": 3} | ({} if behavior is None else {"behavior": behavior})
    return {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "gpu-hpa", "namespace": "default"},
        "spec": spec,
    }


def served(**scale_down: Any) -> dict[str, Any]:
    """A behavior as the API server serves it, the defaults written out."""
    up = {"stabilizationWindowSeconds": 0, "policies": UP_BY_DEFAULT, "selectPolicy": "Max"}
    return {"scaleUp": up, "scaleDown": {"policies": DOWN_BY_DEFAULT, "selectPolicy": "Max", **scale_down}}


@pytest.mark.parametrize("policy", ["Min", "Disabled"])
def test_another_choice_among_the_policies_of_an_hpa_is_told(policy: str) -> None:
    wanted = hpa(served(stabilizationWindowSeconds=300))
    assert list(effects(hpa(served()), wanted)) == []
    assert list(effects(hpa(served(selectPolicy=policy)), wanted)) == [
        f"HPA default/gpu-hpa would change in spec.behavior.scaleDown.selectPolicy ({policy} -> Max)."
    ]


def test_an_hpa_without_a_behavior_is_told_where_kubernetes_defaults_are_not_the_same() -> None:
    [sentence] = effects(hpa(None), hpa(served(stabilizationWindowSeconds=300)))
    assert sentence.startswith("HPA default/gpu-hpa has no behavior, and would get Kubernetes' defaults as one")
    # v2beta1 has none.
    assert list(effects(hpa(None), hpa(None))) == []


def test_a_service_is_compared_without_what_kubernetes_fills_in() -> None:
    metadata = {"name": "bert-svc", "namespace": "default"}
    live = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30000}]}
    other = {"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"], "ports": [{"port": 80, "nodePort": 30001}]}
    one, two = ({"kind": "Service", "metadata": metadata, "spec": spec} for spec in (live, other))
    assert list(effects(one, two)) == []
    one["spec"] = {**live, "externalTrafficPolicy": "Local"}
    assert list(effects(one, two)) == [
        "Service default/bert-svc would change in spec.externalTrafficPolicy (Local -> none)."
    ]


def test_annotations_that_kubectl_set_would_go_and_those_of_others_stay() -> None:
    fields: dict[str, Any] = {"f:metadata": {"f:annotations": {".": {}, "f:slb-id": {}, "f:kept": {}}}}
    others: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:hash": {}}}}
    applied: dict[str, Any] = {"f:metadata": {"f:annotations": {"f:team": {}}}}
    live = deployment(image="a")
    live["metadata"]["managedFields"] = [
        {"manager": "kubectl-create", "operation": "Update", "fieldsV1": fields},
        {"manager": "kubectl", "operation": "Apply", "fieldsV1": applied},
        {"manager": "kubectl", "operation": "Update", "subresource": "status", "fieldsV1": others},
        {"manager": "cloud-controller-manager", "operation": "Update", "fieldsV1": others},
    ]
    new = deployment(image="a")
    new["metadata"]["annotations"] = {"kept": "yes"}
    assert list(effects(live, new)) == [
        "Deployment default/bert would lose its annotations slb-id, team, for which there is no setting."
    ]


# The import files

STACK = "urn:pulumi:dev::ackgpu"
PROVIDER = {"type": "pulumi:providers:kubernetes", "name": "cluster-kubernetes", "parent": "cluster", "inputs": {}}


def plan() -> Plan:
    component = {"type": "ackgpu:index:AckCluster", "name": "cluster", "component": True}
    inner = {"id": "<PLACEHOLDER>", "provider": "cluster-kubernetes"}
    entries: list[dict[str, Any]] = [
        component,
        PROVIDER,
        {"type": "ackgpu:index:GpuAutoscaler", "name": "bertGpuAutoscaler", "logicalName": "bert", "component": True},
        {"type": "kubernetes:core/v1:Service", "name": "bert-service", "parent": "bert", **inner},
        {"type": RELEASE, "name": "adapter-release", "parent": "adapter", **inner},
    ]
    names = {"bert": f"{STACK}::ackgpu:index:InferenceService::bert", "adapter": f"{STACK}::ackgpu:index:A::adapter"}
    service = {"kind": "Service", "metadata": {"namespace": "default", "name": "bert-svc"}}
    inputs = {"name": ADAPTER_NAME, "namespace": "kube-system", "values": {"new": True}, "timeout": 300}
    steps = {
        f"{STACK}::pulumi:pulumi:Stack::ackgpu-dev": Step("create", "pulumi:pulumi:Stack", {}),
        f"{STACK}::ackgpu:index:AckCluster::cluster": Step("create", "ackgpu:index:AckCluster", {}),
        f"{STACK}::ackgpu:index:AckCluster$pulumi:providers:kubernetes::cluster-kubernetes": Step("create", "p", {}),
        f"{STACK}::ackgpu:index:GpuAutoscaler::bert": Step("create", "ackgpu:index:GpuAutoscaler", {}),
        f"{STACK}::ackgpu:index:InferenceService$kubernetes:core/v1:Service::bert-service": Step(
            "create", "kubernetes:core/v1:Service", service
        ),
        f"{STACK}::ackgpu:index:A${RELEASE}::adapter-release": Step("create", RELEASE, inputs),
    }
    return Plan(steps, entries, names)


def service_live() -> dict[str, Any]:
    metadata = {"name": "bert-svc", "namespace": "default", "uid": "u", "labels": {"app": "bert"}}
    spec = {"clusterIP": "10.0.0.1", "type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30000}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def test_what_was_found_is_imported_with_its_id_under_the_names_of_the_program() -> None:
    components, resources = import_files(
        plan(), {("Service", "default", "bert-svc"): Thing("default/bert-svc", service_live())}
    )
    assert [one["name"] for one in components["resources"]] == ["cluster", "bertGpuAutoscaler"]
    provider, service = resources["resources"]
    assert (provider, service["id"]) == (PROVIDER, "default/bert-svc")
    assert resources["nameTable"] == {
        "cluster": f"{STACK}::ackgpu:index:AckCluster::cluster",
        "bert": f"{STACK}::ackgpu:index:InferenceService::bert",
    }


def test_a_service_is_told_without_its_address_in_the_cluster() -> None:
    _, resources = import_files(plan(), {("Service", "default", "bert-svc"): Thing("default/bert-svc", service_live())})
    service = resources["resources"][1]
    assert service["inputs"]["spec"] == {"type": "LoadBalancer", "ports": [{"port": 80}]}
    assert service["inputs"]["metadata"] == {"name": "bert-svc", "namespace": "default", "labels": {"app": "bert"}}
    assert service["outputs"]["spec"]["clusterIP"] == "10.0.0.1"
    assert service["outputs"]["__inputs"] == service["inputs"]


def test_a_release_is_told_with_its_values_and_without_its_secrets() -> None:
    live = release(prometheus={"prometheusHeader": [{"Authorization": "Basic hush"}]}, version="1.3.1")
    _, resources = import_files(plan(), {(RELEASE, "kube-system", ADAPTER_NAME): Thing("kube-system/x", live)})
    told = json.dumps(resources)
    assert "a-token" not in told
    assert "hush" not in told
    [told_release] = [one for one in resources["resources"] if one["type"] == RELEASE]
    inputs = told_release["inputs"]
    assert (inputs["version"], inputs["timeout"]) == ("1.3.1", 300)
    prometheus = inputs["values"]["AlibabaCloudMetricsAdapter"]["prometheus"]
    assert prometheus["adapter"]["rules"]["custom"] == GUIDES_RULES
    assert prometheus["url"]["plaintext"] == '""'
    assert live.values["AlibabaCloudMetricsAdapter"]["prometheus"]["url"] == URL


def test_without_a_thing_to_import_there_are_no_files() -> None:
    assert import_files(plan(), {("Deployment", "default", "bert"): Thing("default/bert")}) == ({}, {})


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


# The command


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a stack `dev`, whose account and cluster answer what a test says."""
    monkeypatch.setattr(command, "CHECKOUT", tmp_path)
    text = (CHECKOUT / "Pulumi.rehearsal.yaml").read_text().replace("bert-intent-detection", "bert")
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    monkeypatch.setattr(command, "owned", lambda stack: set())
    monkeypatch.setattr(command, "look_at_account", lambda now: account(kubeconfig=KUBECONFIG))
    return tmp_path


KUBECONFIG = yaml.safe_dump(
    {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"token": "hush"}}],
    }
)


def test_an_unknown_stack_is_told_with_the_known_ones(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--stack", "prod"]) == 1
    assert capsys.readouterr().err == "Pulumi.prod.yaml: there is no such file: the stacks with a file are dev.\n"


def test_a_cluster_that_does_not_answer_is_told_and_files_of_an_earlier_run_are_gone(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = checkout / "build" / "adopt" / "dev" / "resources.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    assert command.main(["--stack", "dev"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("The cluster at 127.0.0.1 can't be reached")
    assert "hush" not in told
    assert not stale.parent.exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ackgpu:cluster": {"create": {"zones": ["cn-hangzhou-h"]}}}, "cluster.create makes a new cluster"),
        ({"ackgpu:platform": "organization/ackgpu/platform"}, "platform is 'organization/ackgpu/platform'"),
    ],
)
def test_a_stack_without_a_cluster_that_is_there_has_nothing_to_adopt(
    checkout: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], told: str
) -> None:
    content = yaml.safe_load((checkout / "Pulumi.dev.yaml").read_text())
    if "ackgpu:platform" in changes:
        content["config"] = {"ackgpu:services": content["config"]["ackgpu:services"]}
    content["config"] |= changes
    (checkout / "Pulumi.dev.yaml").write_text(yaml.safe_dump(content))
    assert command.main(["--stack", "dev"]) == 1
    assert told in capsys.readouterr().err


def test_a_problem_stops_before_anything_is_written(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = manifests()
    assert broken.deployment
    broken.deployment["spec"]["selector"]["matchLabels"] = {"run": "bert"}
    monkeypatch.setattr(LiveCluster, "look", lambda self, now: Live([broken], release()))
    before = (checkout / "Pulumi.dev.yaml").read_text()
    assert command.main(["--stack", "dev", "--write"]) == 1
    seen = capsys.readouterr()
    assert "found    node pool gpu (np1)" in seen.out
    assert "What can't be adopted as it is:\nDeployment default/bert selects" in seen.err
    assert not (checkout / "build").exists()
    assert (checkout / "Pulumi.dev.yaml").read_text() == before


def test_a_rule_that_the_program_can_not_keep_is_told_with_what_to_do(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = {**RULE, "seriesQuery": '{__name__=~"^queue_.*"}'}
    monkeypatch.setattr(LiveCluster, "look", lambda self, now: Live([manifests()], release([*GUIDES_RULES, loose])))
    assert command.main(["--stack", "dev"]) == 1
    told = capsys.readouterr().err
    assert "metricsAdapter.extraRules[0].seriesQuery" in told
    assert "has to be rewritten in the release, or taken out of it" in told
    assert "kubectl" not in told
    # The lines that are told are of a file that can be looked at.
    assert [path.name for path in (checkout / "build" / "adopt" / "dev").iterdir()] == ["Pulumi.dev.yaml"]


def test_live_values_that_do_not_fit_together_are_told_with_where_to_change_them(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = account(kubeconfig=KUBECONFIG, pools=[pool(limits=(1, 6))])
    monkeypatch.setattr(command, "look_at_account", lambda now: small)
    monkeypatch.setattr(LiveCluster, "look", lambda self, now: live_things())
    assert command.main(["--stack", "dev", "--write"]) == 1
    seen = capsys.readouterr()
    draft = checkout / "build" / "adopt" / "dev" / "Pulumi.dev.yaml"
    assert "+    autoscaling: {min: 1, max: 6}" in seen.out
    _, told, fault, way_out = seen.err.splitlines()
    assert told == "These settings can't be used:"
    at = re.fullmatch(r"build/adopt/dev/Pulumi\.dev\.yaml:(\d+): services can ask for 10 GPUs .*", fault)
    assert at
    assert "ackgpu:services:" in draft.read_text().splitlines()[int(at[1]) - 1]
    assert way_out == (
        "The lines with a + are what is live, and are written over what Pulumi.dev.yaml says: change them where they "
        "are (the pool in the ACK console, Deployment, Service and HPA by kubectl, such as `kubectl edit hpa -n "
        "default gpu-hpa`), and run `make adopt` again."
    )
    assert "max: 10" in (checkout / "Pulumi.dev.yaml").read_text()


def test_files_and_settings_are_written_and_the_next_commands_told(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveCluster, "look", lambda self, now: live_things())
    monkeypatch.setattr(LiveCluster, "as_served", lambda self, inputs: service_live())
    monkeypatch.setattr(command, "preview", lambda stack, settings: plan())
    before = (checkout / "Pulumi.dev.yaml").read_text()
    folder = checkout / "build" / "adopt" / "dev"
    assert command.main(["--stack", "team/ackgpu/dev"]) == 0
    first = capsys.readouterr().out
    assert first.partition("Next:\n")[2].splitlines() == [
        "  pulumi import --stack team/ackgpu/dev --file build/adopt/dev/components.json --generate-code=false",
        "  pulumi import --stack team/ackgpu/dev --file build/adopt/dev/resources.json --generate-code=false",
        "  cp build/adopt/dev/Pulumi.dev.yaml Pulumi.dev.yaml",
        "  pulumi preview --stack team/ackgpu/dev",
        "  pulumi up --stack team/ackgpu/dev",
    ]
    assert "+    managedBy: existing" in first
    assert (checkout / "Pulumi.dev.yaml").read_text() == before
    assert {path.name for path in folder.iterdir()} == {"Pulumi.dev.yaml", "components.json", "resources.json"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.glob("*.json"))
    assert command.main(["--stack", "dev", "--write"]) == 0
    assert "cp build" not in capsys.readouterr().out
    assert (checkout / "Pulumi.dev.yaml").read_text() == (folder / "Pulumi.dev.yaml").read_text() != before


def test_where_only_prometheus_is_there_the_setting_is_told_and_nothing_is_imported(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "look_at_account", lambda now: account(kubeconfig=KUBECONFIG, pools=[]))
    monkeypatch.setattr(LiveCluster, "look", lambda self, now: Live([ServiceObjects(None, None, [])], None))
    assert command.main(["--stack", "dev"]) == 0
    told = capsys.readouterr().out
    assert "+    managedBy: existing" in told
    assert told.partition("Next:\n")[2].splitlines()[0] == "  cp build/adopt/dev/Pulumi.dev.yaml Pulumi.dev.yaml"
    assert "pulumi import" not in told


def test_what_is_in_the_stack_already_leaves_nothing_to_do(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = {(NODE_POOL, "c1:np1")}
    monkeypatch.setattr(command, "owned", lambda stack: owned)
    monkeypatch.setattr(command, "look_at_account", lambda now: account(kubeconfig=KUBECONFIG, prometheus=None))
    monkeypatch.setattr(LiveCluster, "look", lambda self, now: Live([ServiceObjects(None, None, [])], None))
    assert command.main(["--stack", "dev"]) == 0
    assert capsys.readouterr().out.endswith("\nAll that was found is in the stack already.\n")
    assert not (checkout / "build" / "adopt" / "dev").exists()


@pytest.mark.parametrize("op", ["delete", "replace", "create-replacement"])
def test_a_plan_that_takes_something_from_the_stack_is_refused(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    monkeypatch.setattr(LiveCluster, "look", lambda self, now: live_things())
    gone = {f"{STACK}::t::old-nodes": Step(op, "t", {})}
    monkeypatch.setattr(command, "preview", lambda stack, settings: Plan({**plan().steps, **gone}, [], {}))
    assert command.main(["--stack", "dev"]) == 1
    assert "would delete or replace what it has: old-nodes" in capsys.readouterr().err
    assert list((checkout / "build" / "adopt" / "dev").glob("*.json")) == []


# The engine


def fake_pulumi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "pulumi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_what_the_stack_has_is_read_from_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"deployment": {"resources": [{"type": "t", "id": "i"}, {"type": "component"}]}}
    fake_pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(state)}'")
    assert engine.owned("dev") == {("t", "i")}
    fake_pulumi(tmp_path, monkeypatch, """echo '{"deployment": {"manifest": {}}}'""")
    assert engine.owned("dev") == set()


def test_a_stack_without_a_state_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_pulumi(tmp_path, monkeypatch, "echo \"error: no stack named 'dev' found\" >&2; exit 255")
    with pytest.raises(AdoptionError, match=r"no stack named 'dev' found\. A new stack begins with `pulumi stack init"):
        engine.owned("dev")


def test_a_machine_without_pulumi_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AdoptionError, match="pulumi is not on PATH"):
        engine.owned("dev")


def test_a_preview_that_fails_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"steps": [], "diagnostics": [{"severity": "error", "message": "the cluster is gone "}]}
    fake_pulumi(tmp_path, monkeypatch, f"echo '{json.dumps(answer)}'; exit 1")
    with pytest.raises(AdoptionError, match=r"fails:\nthe cluster is gone$"):
        preview("dev", tmp_path / "Pulumi.dev.yaml")


def test_the_engine_leaves_its_temporary_files_where_they_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_pulumi(tmp_path, monkeypatch, 'echo hush > "$TMPDIR/kubeconfig1"; echo "$TMPDIR"')
    folder = Path(engine.pulumi("preview").stdout.strip())
    assert folder != tmp_path
    assert not folder.exists()


# The program


def test_what_was_adopted_is_retained_and_taken_over_from_kubectl_and_what_is_ours_is_not() -> None:
    config = dict(stack_config("rehearsal"))
    for key in ("gpuNodePool", "metricsAdapter"):
        config[f"ackgpu:{key}"] = {**config[f"ackgpu:{key}"], "adopted": True}
    config["ackgpu:services"] = [{**config["ackgpu:services"][0], "adopted": True}]
    adopted, ours = (run_program(one, Recorder()) for one in (config, stack_config("rehearsal")))
    kinds = ("apps/v1:Deployment", "core/v1:Service", "autoscaling/v2:HorizontalPodAutoscaler")
    objects = [f"kubernetes:{kind}" for kind in kinds]
    assert {one.type for one in adopted.registrations if one.retain_on_delete} == {NODE_POOL, RELEASE, *objects}
    assert [one.type for one in ours.registrations if one.retain_on_delete] == []
    for kind in objects:
        annotations = adopted.one(kind).inputs["metadata"]["annotations"]
        assert annotations["pulumi.com/patchForce"] == "true", "kubectl's fields are a conflict otherwise"
        assert "pulumi.com/patchForce" not in ours.one(kind).inputs["metadata"].get("annotations", {})


def test_of_an_adapter_that_was_adopted_nobody_asks_who_installed_it() -> None:
    config = dict(stack_config("rehearsal"))
    config["ackgpu:metricsAdapter"] = {**config["ackgpu:metricsAdapter"], "adopted": True}
    with mock.patch("program.platform.no_other_owners", wraps=no_other_owners) as preflight:
        run_program(config, Recorder())
        run_program(stack_config("rehearsal"), Recorder())
    assert [one.kwargs["installs_adapter"] for one in preflight.call_args_list] == [False, True]
