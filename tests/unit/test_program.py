"""The whole program on mocks: registered resources, their order, and secrets."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
import pytest
import yaml

from components.cluster import AckCluster, AckClusterArgs
from components.gpu_autoscaler import GpuAutoscaler, GpuAutoscalerArgs
from components.gpu_node_pool import NodeLimits, PoolSpec
from tests.unit.program import (
    ADDRESS,
    CHECKOUT,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    HPA,
    KUBECONFIG,
    NODE_POOL,
    PROMETHEUS,
    PROMETHEUS_URL,
    RELEASE,
    SERVICE,
    Recorder,
    Registration,
    dev_config,
    run,
    run_program,
    stack_config,
)


@pytest.fixture(scope="module")
def program() -> Recorder:
    return run_program(dev_config(), Recorder())


@pytest.fixture(scope="module")
def seed() -> dict[str, Any]:
    documents = yaml.safe_load_all((CHECKOUT / "tests" / "data" / "seed_manifests.yaml").read_text())
    return {document["kind"]: document for document in documents}


def test_the_stack_is_a_platform_its_parts_and_a_service_with_its_autoscaler(program: Recorder) -> None:
    components = [resource.type for resource in program.registrations if resource.type.startswith("ackgpu:")]
    assert sorted(components) == [
        "ackgpu:index:AckCluster",
        "ackgpu:index:ArmsPrometheus",
        "ackgpu:index:GpuAutoscaler",
        "ackgpu:index:GpuNodePool",
        "ackgpu:index:InferenceService",
        "ackgpu:index:MetricsAdapter",
        "ackgpu:index:Platform",
    ]


@pytest.mark.case("D1")
def test_the_deployment_is_the_guides(program: Recorder, seed: dict[str, Any]) -> None:
    inputs = program.resource(DEPLOYMENT).inputs
    expected = seed["Deployment"]
    assert inputs["metadata"]["name"] == expected["metadata"]["name"]
    assert inputs["spec"]["selector"] == expected["spec"]["selector"]
    assert inputs["spec"]["template"]["metadata"] == expected["spec"]["template"]["metadata"]
    [container] = inputs["spec"]["template"]["spec"]["containers"]
    [guide] = expected["spec"]["template"]["spec"]["containers"]
    assert container["name"] == guide["name"]
    assert container["image"] == guide["image"]
    assert container["ports"] == guide["ports"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}, "as a quantity"
    assert "nvidia.com/gpu" not in container["resources"]["requests"], "the API server copies it from the limits"


def test_the_deployment_leaves_the_number_of_replicas_to_the_hpa(program: Recorder) -> None:
    deployment = program.resource(DEPLOYMENT)
    assert "replicas" not in deployment.inputs["spec"]
    assert deployment.ignore_changes == ("spec.replicas",)


@pytest.mark.case("G7")
@pytest.mark.parametrize("type_", [DEPLOYMENT, SERVICE])
def test_a_deployment_waits_for_a_node_that_is_being_created(program: Recorder, type_: str) -> None:
    resource = program.resource(type_)
    assert program.resource(NODE_POOL).urn in program.comes_after(resource)
    assert resource.timeouts == ("30m", "30m"), "a GPU node takes minutes; the provider gives up after 10"


@pytest.mark.case("D3")
@pytest.mark.case("C7")
def test_a_rollout_frees_a_gpu_before_it_needs_one(program: Recorder) -> None:
    strategy = program.resource(DEPLOYMENT).inputs["spec"]["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_the_service_is_the_guides(program: Recorder, seed: dict[str, Any]) -> None:
    inputs = program.resource(SERVICE).inputs
    expected = seed["Service"]
    assert inputs["metadata"] == {**expected["metadata"], "namespace": "default"}
    assert inputs["spec"] == expected["spec"]


@pytest.mark.case("C1")
def test_the_hpa_is_the_guides_with_the_right_target_type(program: Recorder, seed: dict[str, Any]) -> None:
    inputs = program.resource(HPA).inputs
    expected = seed["HorizontalPodAutoscaler"]
    assert inputs["metadata"]["name"] == "gpu-hpa" == expected["metadata"]["name"]
    assert inputs["spec"]["scaleTargetRef"] == expected["spec"]["scaleTargetRef"]
    assert inputs["spec"]["minReplicas"] == expected["spec"]["minReplicas"] == 1
    assert inputs["spec"]["maxReplicas"] == expected["spec"]["maxReplicas"] == 10
    [metric] = inputs["spec"]["metrics"]
    assert metric == {
        "type": "Pods",
        "pods": {
            "metric": {"name": "DCGM_CUSTOM_PROCESS_SM_UTIL"},
            "target": {"type": "AverageValue", "averageValue": "20"},
        },
    }


@pytest.mark.case("C5")
def test_a_deployment_never_has_two_of_our_hpas(program: Recorder) -> None:
    assert program.resource(HPA).delete_before_replace, (
        "with two Kubernetes lets none scale, and up waits for the new one"
    )


def test_an_hpa_may_have_several_metrics_under_their_exposed_names() -> None:
    [bert] = stack_config("dev")["ackgpu:services"]
    metrics = [
        {"name": "DCGM_CUSTOM_PROCESS_SM_UTIL", "target": 60, "aggregation": "max"},
        {"name": "DCGM_CUSTOM_PROCESS_MEM_USED", "target": "10Gi"},
    ]
    program = run_program(dev_config(services=[{**bert, "autoscaler": {"metrics": metrics}}]), Recorder())
    pods = [metric["pods"] for metric in program.resource(HPA).inputs["spec"]["metrics"]]
    assert [(metric["metric"]["name"], metric["target"]["averageValue"]) for metric in pods] == [
        ("DCGM_CUSTOM_PROCESS_SM_UTIL_MAX", "60"),
        ("DCGM_CUSTOM_PROCESS_MEM_USED", "10240"),
    ]
    values = program.secret_values["AlibabaCloudMetricsAdapter"]
    exposed = [rule["name"]["as"] for rule in values["prometheus"]["adapter"]["rules"]["custom"]]
    assert {metric["metric"]["name"] for metric in pods} <= set(exposed)
    assert exposed == sorted(set(exposed), key=exposed.index), "each name once"


def test_below_kubernetes_1_23_the_hpa_is_the_guides_v2beta1_hpa() -> None:
    # The seed's manifest for clusters below 1.23, except for the Deployment's name.
    cluster = {"id": "c1", "autoscalingApi": "v2beta1"}
    program = run_program(dev_config(cluster=cluster), Recorder(cluster_version="1.22.15-aliyun.1"))
    inputs = program.resource("kubernetes:autoscaling/v2beta1:HorizontalPodAutoscaler").inputs
    assert inputs["apiVersion"] == "autoscaling/v2beta1"
    assert inputs["metadata"]["name"] == "gpu-hpa"
    assert inputs["spec"] == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "bert-intent-detection"},
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [
            {"type": "Pods", "pods": {"metricName": "DCGM_CUSTOM_PROCESS_SM_UTIL", "targetAverageValue": "20"}}
        ],
    }


@pytest.mark.case("D5")
@pytest.mark.parametrize("name", ["bert", "dev2-bert"])
def test_the_hpa_and_the_service_select_the_deployment(name: str) -> None:
    [bert] = stack_config("dev")["ackgpu:services"]
    program = run_program(dev_config(services=[{**bert, "name": name, "namespace": "demo"}]), Recorder())
    deployment, hpa = program.resource(DEPLOYMENT).inputs, program.resource(HPA).inputs
    assert hpa["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"] == name
    assert hpa["metadata"]["namespace"] == deployment["metadata"]["namespace"] == "demo"
    pods = deployment["spec"]["template"]["metadata"]["labels"]
    assert program.resource(SERVICE).inputs["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"] == pods
    assert program.comes_after(program.resource(HPA)) >= {program.resource(DEPLOYMENT).urn}


def test_the_hpa_has_a_behavior_in_both_directions(program: Recorder) -> None:
    inputs = program.resource(HPA).inputs
    behavior = inputs["spec"]["behavior"]
    # The Kubernetes defaults: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale, "Default Behavior".
    assert behavior["scaleUp"] == {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    }
    assert behavior["scaleDown"] == {
        "stabilizationWindowSeconds": 300,
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
    }


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        (RELEASE, PROMETHEUS),
        (DEPLOYMENT, NODE_POOL),
        (SERVICE, DEPLOYMENT),
        (HPA, RELEASE),
        (HPA, DEPLOYMENT),
        (HPA, SERVICE),
        (HPA, NODE_POOL),
        (HPA, PROMETHEUS),
    ],
)
def test_resources_are_created_in_order_and_deleted_in_reverse(program: Recorder, later: str, earlier: str) -> None:
    first, second = program.resource(earlier), program.resource(later)
    assert first.urn in program.comes_after(second), f"{later} is created after, and deleted before, {earlier}"
    assert second.urn not in program.comes_after(first), f"{earlier} does not wait for {later}"


def test_no_resource_uses_a_default_provider(program: Recorder) -> None:
    for resource in program.registrations:
        package = resource.type.split(":")[0]
        if package in ("alicloud", "kubernetes"):
            assert f"pulumi:providers:{package}::" in resource.provider, f"{resource.name} has no explicit provider"
    assert all("pulumi:providers:alicloud::alicloud" in str(call.provider) for call in program.calls), "functions too"
    for stack in ("dev", "rehearsal"):
        assert stack_config(stack)["pulumi:disable-default-providers"] == ["*"]


@pytest.mark.case("G3")
@pytest.mark.case("G9")
def test_the_kubernetes_provider_has_a_secret_kubeconfig_and_the_clusters_identity(program: Recorder) -> None:
    inputs = program.resource("pulumi:providers:kubernetes").inputs
    assert inputs["kubeconfig"] == "<secret>"
    assert inputs["clusterIdentifier"] == "c0123456789abcdef0123456789abcdef"


def test_the_credential_does_not_change_between_runs(program: Recorder) -> None:
    [call] = [call for call in program.calls if "getClusterCredential" in call.token]
    assert "temporaryDurationMinutes" not in call.args, "a temporary kubeconfig is an update at each run"


@pytest.mark.case("G3")
def test_no_secret_is_registered_or_exported_in_plain(program: Recorder) -> None:
    text = repr(program.registrations) + repr(program.outputs)
    assert KUBECONFIG not in text
    assert PROMETHEUS_URL not in text
    assert program.resource(RELEASE).inputs["values"] == "<secret>"


@pytest.mark.case("G1")
def test_no_output_is_converted_to_text(program: Recorder) -> None:
    text = repr(program.registrations) + repr(program.outputs)
    assert "pulumi.output.Output" not in text
    assert "Calling __str__" not in text


def test_outputs_list_commands_that_check_the_stack(program: Recorder) -> None:
    outputs = program.outputs
    assert outputs["clusterId"] == "c0123456789abcdef0123456789abcdef"
    assert outputs["customMetricsPath"] == "/apis/custom.metrics.k8s.io/v1beta1"
    assert "pods/DCGM_CUSTOM_PROCESS_SM_UTIL" in outputs["metricResources"]
    [service] = outputs["services"]
    assert service["address"] == ADDRESS
    assert service["predictUrl"] == f"http://{ADDRESS}/predict?query=Music"
    assert "kubectl get --raw /apis/custom.metrics.k8s.io/v1beta1" in outputs["checks"]
    assert f"curl -v 'http://{ADDRESS}/predict?query=Music'" in outputs["checks"]


def test_a_first_preview_registers_the_same_resources_as_up() -> None:
    preview = run_program(dev_config(), Recorder(preview=True))
    real = run_program(dev_config(), Recorder())
    assert {(resource.type, resource.name) for resource in preview.registrations} == {
        (resource.type, resource.name) for resource in real.registrations
    }


@pytest.mark.case("G5")
def test_names_and_parents_never_change_because_a_rename_deletes_live_resources(program: Recorder) -> None:
    names = {resource.urn: resource.name for resource in program.registrations}
    assert {(resource.type, resource.name, names.get(resource.parent)) for resource in program.registrations} == {
        ("pulumi:pulumi:Stack", "ackgpu-unit", None),
        ("pulumi:providers:alicloud", "alicloud", "ackgpu-unit"),
        ("ackgpu:index:Platform", "platform", "ackgpu-unit"),
        ("ackgpu:index:AckCluster", "cluster", "platform"),
        ("pulumi:providers:kubernetes", "cluster-kubernetes", "cluster"),
        ("ackgpu:index:GpuNodePool", "gpu", "platform"),
        (NODE_POOL, "gpu-nodes", "gpu"),
        ("ackgpu:index:ArmsPrometheus", "prometheus", "platform"),
        (PROMETHEUS, "prometheus-instance", "prometheus"),
        ("ackgpu:index:MetricsAdapter", "adapter", "platform"),
        (RELEASE, "adapter-release", "adapter"),
        ("ackgpu:index:InferenceService", "bert-intent-detection", "ackgpu-unit"),
        (DEPLOYMENT, "bert-intent-detection-deployment", "bert-intent-detection"),
        (DISRUPTION_BUDGET, "bert-intent-detection-disruption-budget", "bert-intent-detection"),
        (SERVICE, "bert-intent-detection-service", "bert-intent-detection"),
        ("ackgpu:index:GpuAutoscaler", "bert-intent-detection", "ackgpu-unit"),
        (HPA, "bert-intent-detection-hpa", "bert-intent-detection"),
    }


@pytest.mark.parametrize(("managed_by", "created"), [("instance", 1), ("addon", 1), ("existing", 0)])
def test_prometheus_has_one_owner(managed_by: str, created: int) -> None:
    program = run_program(dev_config(prometheus={"managedBy": managed_by}), Recorder())
    owners = program.of_type(PROMETHEUS) + program.of_type("alicloud:cs/kubernetesAddon:KubernetesAddon")
    assert len(owners) == created
    assert program.resource(RELEASE).inputs["values"] == "<secret>", "all three end in the same address"


def test_preview_refuses_a_prometheus_instance_of_another_owner() -> None:
    with pytest.raises(
        pulumi.RunError, match=r"that this stack does not manage: set prometheus\.managedBy to existing"
    ):
        run_program(dev_config(), Recorder(preview=True, prometheus_existed=True))
    for managed_by in ("addon", "existing"):
        run_program(dev_config(prometheus={"managedBy": managed_by}), Recorder(preview=True, prometheus_existed=True))
    run_program(dev_config(), Recorder(prometheus_existed=True))


@pytest.mark.parametrize(
    ("recorder", "sentence"),
    [
        (Recorder(cluster_exists=False), "has no such cluster in cn-beijing"),
        (
            Recorder(cluster_region="cn-hangzhou"),
            "is in cn-hangzhou, but region is set to cn-beijing: set region to cn-hangzhou",
        ),
        (Recorder(cluster_state="deleting"), "is deleting, but must be running"),
        (
            Recorder(cluster_version="1.22.15-aliyun.1"),
            "runs Kubernetes 1.22.15-aliyun.1, but autoscaling/v2 needs 1.23 or newer",
        ),
        (Recorder(cluster_vswitches=()), "has no vSwitches of its own: set gpuNodePool.vswitchIds"),
        (Recorder(kubeconfig=""), "has no kubeconfig for the cluster"),
        (Recorder(prometheus_exists=False), "has no Managed Prometheus instance: set prometheus.managedBy"),
        (Recorder(prometheus_url=""), "has no intranet HTTP API address yet"),
    ],
)
def test_reports_what_the_cloud_lacks_in_a_single_sentence(recorder: Recorder, sentence: str) -> None:
    with pytest.raises(pulumi.RunError, match=sentence):
        run_program(dev_config(), recorder)


def test_preview_reports_a_missing_chart() -> None:
    config = dev_config(metricsAdapter={"chart": "./no/such"})
    with pytest.raises(pulumi.RunError, match=r"metricsAdapter.chart is './no/such', which does not exist"):
        run_program(config, Recorder(preview=True))


def test_an_invalid_configuration_registers_nothing_and_reports_every_error() -> None:
    config = dev_config(cluster={}, prometheus={"managedBy": "me"})
    recorder = Recorder()
    with pytest.raises(pulumi.RunError) as raised:
        run_program(config, recorder)
    assert "cluster is missing" in str(raised.value)
    assert "prometheus.managedBy is 'me'" in str(raised.value)
    assert [resource.type for resource in recorder.registrations if resource.type != "pulumi:pulumi:Stack"] == []


def test_the_unedited_dev_stack_reports_what_to_fill_in() -> None:
    with pytest.raises(pulumi.RunError) as raised:
        run_program(stack_config("dev"), Recorder())
    assert "cluster.id" in str(raised.value)
    assert "gpuNodePool.instanceTypes[0]" in str(raised.value)


def test_services_share_a_platform_and_reordering_them_changes_nothing() -> None:
    [bert] = stack_config("dev")["ackgpu:services"]
    bert = {**bert, "autoscaler": {**bert["autoscaler"], "maxReplicas": 5}}
    other = {**bert, "name": "other", "autoscaler": {**bert["autoscaler"], "name": "other-hpa"}}

    def registered(services: list[dict[str, Any]]) -> list[Registration]:
        program = run_program(dev_config(services=services), Recorder())
        return sorted(program.registrations, key=lambda resource: resource.urn)

    forward, backward = registered([bert, other]), registered([other, bert])
    assert forward == backward
    assert len([resource for resource in forward if resource.type == RELEASE]) == 1
    assert [resource.inputs["metadata"]["name"] for resource in forward if resource.type == HPA] == [
        "gpu-hpa",
        "other-hpa",
    ]


def test_services_may_have_the_same_name_in_different_namespaces() -> None:
    [bert] = stack_config("dev")["ackgpu:services"]
    bert = {**bert, "autoscaler": {**bert["autoscaler"], "maxReplicas": 5}}
    program = run_program(dev_config(services=[bert, {**bert, "namespace": "other"}]), Recorder())
    urns = [resource.urn for resource in program.registrations]
    assert len(set(urns)) == len(urns)
    assert [
        resource.inputs["metadata"]["namespace"]
        for resource in sorted(program.of_type(HPA), key=lambda resource: resource.urn)
    ] == [
        "default",
        "other",
    ]
    assert [service["namespace"] for service in program.outputs["services"]] == ["default", "other"]


def test_the_rehearsal_stack_runs_the_same_program() -> None:
    dev = run_program(dev_config(), Recorder())
    rehearsal = run_program(stack_config("rehearsal"), Recorder())
    assert {(resource.type, resource.name) for resource in rehearsal.registrations} == {
        (resource.type, resource.name) for resource in dev.registrations
    }
    assert rehearsal.resource(RELEASE).inputs["chart"] == "./rehearsal/chart"


def test_another_program_can_use_a_single_component() -> None:
    def program() -> None:
        cluster = AckCluster(
            "theirs",
            AckClusterArgs(cluster_id="c1", region="cn-beijing"),
            pulumi.ResourceOptions(providers=[alicloud.Provider("account", region="cn-beijing")]),
        )
        GpuAutoscaler(
            "theirs",
            GpuAutoscalerArgs(
                autoscaler_name="hpa",
                stack="theirs/dev",
                namespace="default",
                deployment="llm",
                metrics={"DCGM_CUSTOM_PROCESS_SM_UTIL": Decimal("0.5")},
                min_replicas=1,
                max_replicas=2,
            ),
            pulumi.ResourceOptions(providers=[cluster.provider]),
        )

    recorder = run(Recorder(), program)
    assert recorder.resource(HPA).inputs["spec"]["scaleTargetRef"]["name"] == "llm"
    assert recorder.resource(HPA).inputs["spec"]["metrics"][0]["pods"]["target"]["averageValue"] == "0.5"


@pytest.mark.parametrize(
    "numbers", [{}, {"size": 1, "limits": NodeLimits(max=1)}, {"limits": NodeLimits(min=2, max=1)}]
)
def test_another_program_cannot_create_a_pool_with_contradictory_sizes(numbers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="pool"):
        PoolSpec(pool_name="gpu", instance_types=["ecs.gn6i-c4g1.xlarge"], **numbers)


def test_the_program_is_at_most_80_lines() -> None:
    assert len((CHECKOUT / "__main__.py").read_text().splitlines()) <= 80


def test_the_required_engine_is_not_newer_than_the_rehearsals(program: Recorder) -> None:
    [required] = program.engine_ranges
    pinned = re.search(r"pulumi/pkg/v3 v(\S+)", (CHECKOUT / "tools" / "pulumi" / "go.mod").read_text())
    assert pinned
    assert required.startswith(">=")
    assert _numbers(required.removeprefix(">=")) <= _numbers(pinned[1])


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]
