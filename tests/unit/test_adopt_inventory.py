"""Live resources, the changes that `up` would make, and the import files."""

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

# Live, missing and owned resources


def test_ignores_resources_that_the_stack_has() -> None:
    owned = {
        (NODE_POOL, "c1:np1"),
        (RELEASE, f"kube-system/{ADAPTER_NAME}"),
        ("alicloud:arms/prometheus:Prometheus", "c1"),
        ("kubernetes:apps/v1:Deployment", "default/bert"),
        ("kubernetes:core/v1:Service", "default/bert-svc"),
        ("kubernetes:autoscaling/v2:HorizontalPodAutoscaler", "default/gpu-hpa"),
    }
    inventory = take_inventory(settings(), account(), live_objects(), owned)
    assert (inventory.found, inventory.missing, inventory.importable, inventory.proposal.settings) == ([], [], {}, {})
    assert len(inventory.owned) == 6


def test_lists_missing_resources() -> None:
    inventory = take_inventory(
        settings(), account(prometheus=None, pools=[]), LiveObjects([ServiceObjects(None, None, [])], None), ()
    )
    assert list(inventory.lines()) == [
        "missing  node pool gpu",
        "missing  Prometheus instance of the cluster",
        f"missing  release kube-system/{ADAPTER_NAME}",
        "missing  Deployment default/bert",
        "missing  Service default/bert-svc",
        "missing  HPA of Deployment default/bert",
    ]


def test_names_other_pools_and_services_when_ours_are_missing() -> None:
    pools = [
        pool(node_pool_name="system", instance_types=["ecs.g7.xlarge"]),
        pool(node_pool_name="gpu-v100"),
        pool(node_pool_name="gpu-t4", instance_types=["ecs.gn6i-c4g1.xlarge", "ecs.gn6i-c8g1.2xlarge"]),
    ]
    public = {"metadata": {"namespace": "default", "name": "bert-lb"}, "spec": {"type": "LoadBalancer"}}
    live = LiveObjects([manifests(service=None, other_services=[public])], release())
    assert take_inventory(settings(), account(pools=pools), live, ()).missing == [
        "node pool gpu: the cluster has gpu-v100 (ecs.gn6v-c8g1.2xlarge), gpu-t4 (ecs.gn6i-c4g1.xlarge, "
        "ecs.gn6i-c8g1.2xlarge); set gpuNodePool.name to adopt a pool, or `pulumi up` creates a new pool",
        "Service default/bert-svc: the pods already have default/bert-lb (LoadBalancer); `pulumi up` would add this "
        "Service with its own load balancer",
    ]


def test_finds_services_and_budgets_of_the_pods_by_their_selectors() -> None:
    def manifest(name: str, selector: Any) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector}}

    ours, in_values = {"app": "bert"}, {"key": "app", "operator": "In", "values": ["bert", "t5"]}
    answers = {
        "services": [
            *(manifest("bert-svc", ours), manifest("bert-lb", ours), manifest("narrower", {**ours, "tier": "x"})),
            *(manifest("t5-svc", {"app": "t5"}), manifest("external", {}), manifest("headless", None)),
        ],
        "poddisruptionbudgets": [
            *(manifest("equal", {"matchLabels": ours}), manifest("all", {}), manifest("none", None)),
            manifest("among", {"matchExpressions": [in_values]}),
            manifest("not-among", {"matchExpressions": [{**in_values, "operator": "NotIn"}]}),
            manifest("labelled", {"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
            manifest("unlabelled", {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
            manifest("both", {"matchLabels": {"app": "t5"}, "matchExpressions": [in_values]}),
        ],
        "deployments": [manifests().deployment],
    }
    client = mock.Mock(forbidden=[], list_objects=lambda path: answers.get(path.rpartition("/")[2], []))
    [found] = read_live_objects(client, settings()).services
    assert found.service
    assert found.service["metadata"]["name"] == "bert-svc"
    assert [service["metadata"]["name"] for service in found.other_services] == ["bert-lb"]
    budgets = [budget["metadata"]["name"] for budget in found.disruption_budgets]
    assert budgets == ["equal", "all", "among", "labelled", "unlabelled"]
    answers["deployments"] = []
    [without] = read_live_objects(client, settings()).services
    assert (without.other_services, without.disruption_budgets) == ([], [])


def test_refuses_two_pools_with_the_same_name() -> None:
    inventory = take_inventory(settings(), account(pools=[pool(), pool(node_pool_id="np2")]), live_objects(), ())
    assert "2 node pools named gpu" in inventory.proposal.problems[0]


def test_uses_an_existing_prometheus_instance() -> None:
    inventory = take_inventory(settings(), account(), live_objects(), ())
    assert inventory.proposal.settings["prometheus", "managedBy"] == "existing"


# Changes of `up`


def deployment(**template: Any) -> dict[str, Any]:
    metadata = {"name": "bert", "namespace": "default"}
    return {"kind": "Deployment", "metadata": metadata, "spec": {"template": {"spec": {"containers": [template]}}}}


def test_reports_why_pods_would_be_replaced() -> None:
    assert list(effects(deployment(image="a"), deployment(image="a", resources={}))) == []
    [note] = effects(deployment(image="a"), deployment(image="b"))
    assert "Deployment default/bert would replace its pods one at a time" in note
    assert "spec.template.spec.containers[0].image" in note


def test_reports_each_reason_for_new_pods_without_values() -> None:
    fields = ("args", "command", "env", "image", "livenessProbe", "ports", "resources")
    [note] = effects(deployment(**{field: ["hush"] for field in fields}), deployment())
    assert (
        note.partition("differ: ")[2]
        == ", ".join(f"spec.template.spec.containers[0].{field}" for field in fields) + "."
    )


def test_reports_another_rollout_strategy_but_not_another_replica_count() -> None:
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


def with_defaults(**scale_down: Any) -> dict[str, Any]:
    """Return a behavior as the API server does, with defaults."""
    up = {"stabilizationWindowSeconds": 0, "policies": UP_BY_DEFAULT, "selectPolicy": "Max"}
    return {"scaleUp": up, "scaleDown": {"policies": DOWN_BY_DEFAULT, "selectPolicy": "Max", **scale_down}}


@pytest.mark.parametrize("policy", ["Min", "Disabled"])
def test_reports_another_policy_selection_of_an_hpa(policy: str) -> None:
    wanted = hpa(with_defaults(stabilizationWindowSeconds=300))
    assert list(effects(hpa(with_defaults()), wanted)) == []
    assert list(effects(hpa(with_defaults(selectPolicy=policy)), wanted)) == [
        f"HPA default/gpu-hpa would change spec.behavior.scaleDown.selectPolicy ({policy} -> Max)."
    ]


def test_reports_an_hpa_without_a_behavior_if_kubernetes_defaults_differ() -> None:
    [note] = effects(hpa(None), hpa(with_defaults(stabilizationWindowSeconds=300)))
    assert note.startswith("HPA default/gpu-hpa has no `behavior` and would get the defaults of Kubernetes")
    # v2beta1 has no behavior.
    assert list(effects(hpa(None), hpa(None))) == []


def test_compares_a_service_without_fields_that_kubernetes_sets() -> None:
    metadata = {"name": "bert-svc", "namespace": "default"}
    live = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30000}]}
    rendered = {"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"], "ports": [{"port": 80, "nodePort": 30001}]}
    before, after = ({"kind": "Service", "metadata": metadata, "spec": spec} for spec in (live, rendered))
    assert list(effects(before, after)) == []
    before["spec"] = {**live, "externalTrafficPolicy": "Local"}
    assert list(effects(before, after)) == [
        "Service default/bert-svc would change spec.externalTrafficPolicy (Local -> none)."
    ]


def test_reports_lost_annotations_of_kubectl_but_not_of_other_managers() -> None:
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


def test_imports_live_resources_under_the_names_of_the_program() -> None:
    components, resources = import_files(
        plan(), {("Service", "default", "bert-svc"): LiveResource("default/bert-svc", service_live())}
    )
    assert [entry["name"] for entry in components["resources"]] == ["cluster", "bertGpuAutoscaler"]
    provider, service = resources["resources"]
    assert (provider, service["id"]) == (PROVIDER, "default/bert-svc")
    assert resources["nameTable"] == {
        "cluster": f"{STACK}::ackgpu:index:AckCluster::cluster",
        "bert": f"{STACK}::ackgpu:index:InferenceService::bert",
    }


def test_imports_a_service_without_its_cluster_ip() -> None:
    _, resources = import_files(
        plan(), {("Service", "default", "bert-svc"): LiveResource("default/bert-svc", service_live())}
    )
    service = resources["resources"][1]
    assert service["inputs"]["spec"] == {"type": "LoadBalancer", "ports": [{"port": 80}]}
    assert service["inputs"]["metadata"] == {"name": "bert-svc", "namespace": "default", "labels": {"app": "bert"}}
    assert service["outputs"]["spec"]["clusterIP"] == "10.0.0.1"
    assert service["outputs"]["__inputs"] == service["inputs"]


def test_imports_a_release_with_values_but_without_secrets() -> None:
    live = release(prometheus={"prometheusHeader": [{"Authorization": "Basic hush"}]}, version="1.3.1")
    _, resources = import_files(plan(), {(RELEASE,): LiveResource("kube-system/x", live)})
    text = json.dumps(resources)
    assert "a-token" not in text
    assert "hush" not in text
    [entry] = [entry for entry in resources["resources"] if entry["type"] == RELEASE]
    inputs = entry["inputs"]
    assert (inputs["version"], inputs["timeout"]) == ("1.3.1", 300)
    prometheus = inputs["values"]["AlibabaCloudMetricsAdapter"]["prometheus"]
    assert prometheus["adapter"]["rules"]["custom"] == GUIDE_RULES
    assert prometheus["url"]["plaintext"] == '""'
    assert live.values["AlibabaCloudMetricsAdapter"]["prometheus"]["url"] == URL


def test_writes_no_files_without_resources_to_import() -> None:
    assert import_files(plan(), {("Deployment", "default", "bert"): LiveResource("default/bert")}) == ({}, {})


# The program


def test_retains_adopted_resources_and_takes_their_fields_over_from_kubectl() -> None:
    config = dict(stack_config("rehearsal"))
    for key in ("gpuNodePool", "metricsAdapter"):
        config[f"ackgpu:{key}"] = {**config[f"ackgpu:{key}"], "adopted": True}
    config["ackgpu:services"] = [{**config["ackgpu:services"][0], "adopted": True}]
    adopted, ours = (run_program(values, Recorder()) for values in (config, stack_config("rehearsal")))
    kinds = ("apps/v1:Deployment", "core/v1:Service", "autoscaling/v2:HorizontalPodAutoscaler")
    objects = [f"kubernetes:{kind}" for kind in kinds]
    assert {resource.type for resource in adopted.registrations if resource.retain_on_delete} == {
        NODE_POOL,
        RELEASE,
        *objects,
    }
    assert [resource.type for resource in ours.registrations if resource.retain_on_delete] == []
    for kind in objects:
        annotations = adopted.resource(kind).inputs["metadata"]["annotations"]
        assert annotations["pulumi.com/patchForce"] == "true", "without patchForce, kubectl's fields conflict"
        assert "pulumi.com/patchForce" not in ours.resource(kind).inputs["metadata"].get("annotations", {})


def test_does_not_check_who_installed_an_adopted_adapter() -> None:
    config = dict(stack_config("rehearsal"))
    config["ackgpu:metricsAdapter"] = {**config["ackgpu:metricsAdapter"], "adopted": True}
    with mock.patch("program.args.no_other_owners", wraps=no_other_owners) as preflight:
        run_program(config, Recorder())
        run_program(stack_config("rehearsal"), Recorder())
    assert [call.kwargs["installs_adapter"] for call in preflight.call_args_list] == [False, True]
