"""Which live resources are found, what `up` would change them, and what Pulumi imports."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest

from autoscaling.ack.versions import ADAPTER_NAME
from commands.adopt.effects import effects
from commands.adopt.import_files import NODE_POOL, RELEASE, LiveResource, import_files
from commands.adopt.inventory import take_inventory
from commands.adopt.live_objects import LiveObjects, ServiceObjects, read_live_objects
from live.preflight import no_other_owners
from tests.unit.adoption import (
    DOWN_BY_DEFAULT,
    GUIDE_RULES,
    PROVIDER,
    STACK,
    UP_BY_DEFAULT,
    URL,
    account,
    live_objects,
    manifests,
    plan,
    pool,
    release,
    service_live,
    settings,
)
from tests.unit.program import Recorder, run_program, stack_config

# What there is, and what the stack has


def test_what_the_stack_has_is_left_alone() -> None:
    owned = {
        (NODE_POOL, "c1:np1"),
        (RELEASE, f"kube-system/{ADAPTER_NAME}"),
        ("alicloud:arms/prometheus:Prometheus", "c1"),
        ("kubernetes:apps/v1:Deployment", "default/bert"),
        ("kubernetes:core/v1:Service", "default/bert-svc"),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "default/gpu-hpa"),
    }
    found = take_inventory(settings(), account(), live_objects(), owned)
    assert (found.found, found.missing, found.importable, found.proposal.settings) == ([], [], {}, {})
    assert len(found.owned) == 6


def test_what_is_missing_is_named() -> None:
    found = take_inventory(
        settings(), account(prometheus=None, pools=[]), LiveObjects([ServiceObjects(None, None, [])], None), ()
    )
    assert list(found.lines()) == [
        "missing  node pool gpu",
        "missing  Prometheus instance of the cluster",
        f"missing  release kube-system/{ADAPTER_NAME}",
        "missing  Deployment default/bert",
        "missing  Service default/bert-svc",
        "missing  HPA of Deployment default/bert",
    ]


def test_what_is_there_in_the_place_of_a_missing_pool_or_service_is_named() -> None:
    pools = [
        pool(node_pool_name="system", instance_types=["ecs.g7.xlarge"]),
        pool(node_pool_name="gpu-v100"),
        pool(node_pool_name="gpu-t4", instance_types=["ecs.gn6i-c4g1.xlarge", "ecs.gn6i-c8g1.2xlarge"]),
    ]
    public = {"metadata": {"namespace": "default", "name": "bert-lb"}, "spec": {"type": "LoadBalancer"}}
    live = LiveObjects([manifests(service=None, other_services=[public])], release())
    assert take_inventory(settings(), account(pools=pools), live, ()).missing == [
        "node pool gpu: the cluster has gpu-v100 (ecs.gn6v-c8g1.2xlarge), gpu-t4 (ecs.gn6i-c4g1.xlarge, "
        "ecs.gn6i-c8g1.2xlarge); set gpuNodePool.name to adopt a pool, or `up` creates a new pool",
        "Service default/bert-svc: the pods already have default/bert-lb (LoadBalancer); `up` would add this Service "
        "with its own load balancer",
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
    [found] = read_live_objects(client, settings()).services
    assert found.service
    assert found.service["metadata"]["name"] == "bert-svc"
    assert [one["metadata"]["name"] for one in found.other_services] == ["bert-lb"]
    budgets = [one["metadata"]["name"] for one in found.disruption_budgets]
    assert budgets == ["equal", "all", "among", "labelled", "unlabelled"]
    answers["deployments"] = []
    [without] = read_live_objects(client, settings()).services
    assert (without.other_services, without.disruption_budgets) == ([], [])


def test_two_pools_of_one_name_are_refused() -> None:
    found = take_inventory(settings(), account(pools=[pool(), pool(node_pool_id="np2")]), live_objects(), ())
    assert "2 node pools named gpu" in found.proposal.problems[0]


def test_an_instance_that_is_there_is_used_and_not_made() -> None:
    found = take_inventory(settings(), account(), live_objects(), ())
    assert found.proposal.settings["prometheus", "managedBy"] == "existing"


# What up would change


def deployment(**template: Any) -> dict[str, Any]:
    metadata = {"name": "bert", "namespace": "default"}
    return {"kind": "Deployment", "metadata": metadata, "spec": {"template": {"spec": {"containers": [template]}}}}


def test_pods_that_would_be_replaced_are_reported_with_the_reason() -> None:
    assert list(effects(deployment(image="a"), deployment(image="a", resources={}))) == []
    [sentence] = effects(deployment(image="a"), deployment(image="b"))
    assert "Deployment default/bert would replace its pods one at a time" in sentence
    assert "spec.template.spec.containers[0].image" in sentence


def test_each_reason_for_new_pods_is_reported_and_no_value_of_the_environment() -> None:
    fields = ("args", "command", "env", "image", "livenessProbe", "ports", "resources")
    [sentence] = effects(deployment(**{one: ["hush"] for one in fields}), deployment())
    assert (
        sentence.partition("differ: ")[2]
        == ", ".join(f"spec.template.spec.containers[0].{one}" for one in fields) + "."
    )


def test_another_way_to_roll_out_is_reported_and_another_number_of_pods_is_not() -> None:
    live, new = deployment(image="a"), deployment(image="a")
    live["spec"].update({"replicas": 3, "strategy": {"type": "Recreate"}})
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    new["spec"].update({"replicas": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}})
    assert list(effects(live, new)) == [
        "Deployment default/bert would change spec.strategy.rollingUpdate "
        '(none -> {"maxSurge": 0, "maxUnavailable": 1}), spec.strategy.type (Recreate -> RollingUpdate).'
    ]
    live["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert list(effects(live, new)) == [
        "Deployment default/bert would change spec.strategy.rollingUpdate.maxSurge (25% -> 0), "
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
def test_another_choice_among_the_policies_of_an_hpa_is_reported(policy: str) -> None:
    wanted = hpa(served(stabilizationWindowSeconds=300))
    assert list(effects(hpa(served()), wanted)) == []
    assert list(effects(hpa(served(selectPolicy=policy)), wanted)) == [
        f"HPA default/gpu-hpa would change spec.behavior.scaleDown.selectPolicy ({policy} -> Max)."
    ]


def test_an_hpa_without_a_behavior_is_reported_where_kubernetes_defaults_are_not_the_same() -> None:
    [sentence] = effects(hpa(None), hpa(served(stabilizationWindowSeconds=300)))
    assert sentence.startswith("HPA default/gpu-hpa has no behavior and would get the Kubernetes defaults")
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
        "Service default/bert-svc would change spec.externalTrafficPolicy (Local -> none)."
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
        "Deployment default/bert would lose its annotations slb-id, team: no setting can keep them."
    ]


# The import files


def test_what_was_found_is_imported_with_its_id_under_the_names_of_the_program() -> None:
    components, resources = import_files(
        plan(), {("Service", "default", "bert-svc"): LiveResource("default/bert-svc", service_live())}
    )
    assert [one["name"] for one in components["resources"]] == ["cluster", "bertGpuAutoscaler"]
    provider, service = resources["resources"]
    assert (provider, service["id"]) == (PROVIDER, "default/bert-svc")
    assert resources["nameTable"] == {
        "cluster": f"{STACK}::ackgpu:index:AckCluster::cluster",
        "bert": f"{STACK}::ackgpu:index:InferenceService::bert",
    }


def test_a_service_is_reported_without_its_address_in_the_cluster() -> None:
    _, resources = import_files(
        plan(), {("Service", "default", "bert-svc"): LiveResource("default/bert-svc", service_live())}
    )
    service = resources["resources"][1]
    assert service["inputs"]["spec"] == {"type": "LoadBalancer", "ports": [{"port": 80}]}
    assert service["inputs"]["metadata"] == {"name": "bert-svc", "namespace": "default", "labels": {"app": "bert"}}
    assert service["outputs"]["spec"]["clusterIP"] == "10.0.0.1"
    assert service["outputs"]["__inputs"] == service["inputs"]


def test_a_release_is_reported_with_its_values_and_without_its_secrets() -> None:
    live = release(prometheus={"prometheusHeader": [{"Authorization": "Basic hush"}]}, version="1.3.1")
    _, resources = import_files(plan(), {(RELEASE,): LiveResource("kube-system/x", live)})
    told = json.dumps(resources)
    assert "a-token" not in told
    assert "hush" not in told
    [told_release] = [one for one in resources["resources"] if one["type"] == RELEASE]
    inputs = told_release["inputs"]
    assert (inputs["version"], inputs["timeout"]) == ("1.3.1", 300)
    prometheus = inputs["values"]["AlibabaCloudMetricsAdapter"]["prometheus"]
    assert prometheus["adapter"]["rules"]["custom"] == GUIDE_RULES
    assert prometheus["url"]["plaintext"] == '""'
    assert live.values["AlibabaCloudMetricsAdapter"]["prometheus"]["url"] == URL


def test_without_a_thing_to_import_there_are_no_files() -> None:
    assert import_files(plan(), {("Deployment", "default", "bert"): LiveResource("default/bert")}) == ({}, {})


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
    with mock.patch("program.args.no_other_owners", wraps=no_other_owners) as preflight:
        run_program(config, Recorder())
        run_program(stack_config("rehearsal"), Recorder())
    assert [one.kwargs["installs_adapter"] for one in preflight.call_args_list] == [False, True]
