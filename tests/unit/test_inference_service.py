"""Inference services: probes, shutdown, permissions and settings of the pods, and names of the objects."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
import yaml

from components.inference_service import InferenceService, InferenceServiceArgs
from tests.readme import yaml_block
from tests.unit.program import (
    CHECKOUT,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    HPA,
    SERVICE,
    Recorder,
    Registration,
    dev_config,
    run,
    run_program,
    stack_config,
)

ADDRESS_TYPE = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type"
"""https://www.alibabacloud.com/help/en/document_detail/86531.html"""


def program(**changes: Any) -> Recorder:
    [bert] = stack_config("dev")["ackgpu:services"]
    return run_program(dev_config(services=[{**bert, **changes}]), Recorder())


def pod_of(recorder: Recorder) -> dict[str, Any]:
    pod: dict[str, Any] = recorder.resource(DEPLOYMENT).inputs["spec"]["template"]["spec"]
    return pod


def container_of(recorder: Recorder) -> dict[str, Any]:
    [container] = pod_of(recorder)["containers"]
    assert isinstance(container, dict)
    return container


def seconds(probe: dict[str, Any]) -> int:
    """Return how long a probe may fail."""
    return int(probe["periodSeconds"]) * int(probe["failureThreshold"])


def test_a_service_without_a_health_path_has_port_probes_but_no_liveness_probe() -> None:
    container = container_of(program(containerPort=8000))
    for name in ("startupProbe", "readinessProbe"):
        assert container[name]["tcpSocket"] == {"port": 8000}
        assert "httpGet" not in container[name], "the guide's /predict would put load on the GPU"
    # A full queue refuses connections. Kubernetes' page on probes warns of cascading failures.
    assert "livenessProbe" not in container


def test_all_three_probes_use_the_health_path() -> None:
    container = container_of(program(containerPort=8000, healthPath="/health"))
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[name]["httpGet"] == {"path": "/health", "port": 8000}
        assert "tcpSocket" not in container[name]
    assert seconds(container["livenessProbe"]) >= 60, "a pod leaves the load balancer before it is killed"
    assert seconds(container["readinessProbe"]) <= 15


@pytest.mark.parametrize(("startup", "minutes"), [({}, 30), ({"startupTime": "4m"}, 30), ({"startupTime": "20m"}, 40)])
def test_a_model_may_take_twice_its_usual_time_to_load(startup: dict[str, str], minutes: int) -> None:
    window = {"scaleDown": {"stabilizationWindowSeconds": 1200}}
    [bert] = stack_config("dev")["ackgpu:services"]
    recorder = program(**startup, autoscaler={**bert["autoscaler"], **window})
    assert seconds(container_of(recorder)["startupProbe"]) == minutes * 60
    deployment = recorder.resource(DEPLOYMENT)
    assert deployment.inputs["spec"]["progressDeadlineSeconds"] == minutes * 60, (
        "the rollout must not fail before the pod does"
    )
    assert deployment.timeouts == (f"{minutes}m", f"{minutes}m")


@pytest.mark.parametrize(("drain", "total"), [({}, 35), ({"drainTime": "1m"}, 90)])
def test_a_pod_keeps_serving_while_the_load_balancer_removes_it(drain: dict[str, str], total: int) -> None:
    recorder = program(**drain)
    # The hook is part of the grace period; the rest is Kubernetes' default of 30 s.
    command = ["sleep", str(total - 30)]
    assert container_of(recorder)["lifecycle"] == {"preStop": {"exec": {"command": command}}}
    assert pod_of(recorder)["terminationGracePeriodSeconds"] == total


def test_draining_can_be_turned_off() -> None:
    recorder = program(drainTime="0s")
    assert "lifecycle" not in container_of(recorder)
    assert pod_of(recorder)["terminationGracePeriodSeconds"] == 30


def test_a_disruption_budget_allows_the_eviction_of_the_only_pod() -> None:
    recorder = program()
    budget, deployment = recorder.resource(DISRUPTION_BUDGET).inputs, recorder.resource(DEPLOYMENT).inputs
    assert budget["spec"] == {"maxUnavailable": 1, "selector": deployment["spec"]["selector"]}
    assert budget["metadata"]["namespace"] == deployment["metadata"]["namespace"]


def test_pods_get_only_the_permissions_of_a_root_image_on_port_80() -> None:
    recorder = program()
    pod, security = pod_of(recorder), container_of(recorder)["securityContext"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert security["allowPrivilegeEscalation"] is False
    # https://github.com/moby/moby/blob/master/daemon/pkg/oci/caps/defaults.go; containerd has the same list.
    given = {"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
             "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"}  # fmt: skip
    dropped = set(security["capabilities"]["drop"])
    assert dropped < given
    assert not dropped & {"NET_BIND_SERVICE", "SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE", "KILL"}


def test_run_as_non_root_refuses_root_images() -> None:
    assert pod_of(program(runAsNonRoot=True, containerPort=8000))["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({}, {"cpu": "1", "memory": "2Gi"}),
        ({"cpu": 2, "memory": "16Gi"}, {"cpu": "2", "memory": "16Gi"}),
        ({"cpu": 0.5}, {"cpu": "0.5", "memory": "2Gi"}),
    ],
)
def test_cpu_and_memory_are_requested_but_not_limited(resources: dict[str, Any], requests: dict[str, str]) -> None:
    container = container_of(program(**resources))
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": requests}


def test_args_and_environment_reach_the_container() -> None:
    container = container_of(program(args=["--model", "org/model"], env={"VLLM_USE_V1": "1"}, envFrom=["hugging-face"]))
    assert container["args"] == ["--model", "org/model"]
    assert container["env"] == [{"name": "VLLM_USE_V1", "value": "1"}]
    assert container["envFrom"] == [{"secretRef": {"name": "hugging-face"}}]
    for name in ("args", "env", "envFrom", "command"):
        assert name not in container_of(program())


@pytest.mark.parametrize("as_output", [False, True])
def test_pods_have_the_tolerations_of_the_args(as_output: bool) -> None:
    toleration = {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}

    def body() -> None:
        provider = kubernetes.Provider("theirs", kubeconfig="{}")
        args = InferenceServiceArgs(
            service_name="llm",
            kubernetes_service="llm-svc",
            namespace="default",
            container_name="server",
            image="example.com/llm:1",
            container_port=8000,
            port=80,
            gpu_limits={"nvidia.com/gpu": "1"},
            tolerations=pulumi.Output.from_input([toleration]) if as_output else [toleration],
        )
        InferenceService("llm", args, pulumi.ResourceOptions(providers=[provider]))

    assert pod_of(run(Recorder(), body))["tolerations"] == [toleration]
    assert "tolerations" not in pod_of(program())


def test_the_load_balancer_is_public_as_in_the_guide_or_on_the_intranet() -> None:
    [guide] = [
        document
        for document in yaml.safe_load_all((CHECKOUT / "tests" / "data" / "seed_manifests.yaml").read_text())
        if document["kind"] == "Service"
    ]
    public, private = program(), program(loadBalancer="intranet")
    assert "annotations" not in public.resource(SERVICE).inputs["metadata"], "the guide has no annotation"
    assert "annotations" not in guide["metadata"]
    assert private.resource(SERVICE).inputs["metadata"]["annotations"] == {ADDRESS_TYPE: "intranet"}


def test_changing_the_load_balancer_deletes_the_service_before_replacing_it() -> None:
    public, private = (program(loadBalancer=kind).resource(SERVICE) for kind in ("internet", "intranet"))
    assert (public.replacement_trigger, private.replacement_trigger) == ("internet", "intranet")
    assert private.delete_before_replace, "two Services cannot have the same name"


def _guides_pod() -> dict[str, Any]:
    documents = yaml.safe_load_all((CHECKOUT / "tests" / "data" / "seed_manifests.yaml").read_text())
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    return pod


def test_adopting_a_service_from_the_guide_does_not_change_its_pods() -> None:
    recorder = program(adopted=True, startupTime="2m")
    # Kubernetes' defaults do not change the pod template.
    assert pod_of(recorder) == {**_guides_pod(), "terminationGracePeriodSeconds": 30}
    assert recorder.resource(DEPLOYMENT).retain_on_delete
    assert recorder.resource(SERVICE).retain_on_delete
    assert not recorder.resource(DISRUPTION_BUDGET).retain_on_delete, "the stack created it"


def test_an_adopted_service_gets_its_explicit_settings() -> None:
    recorder = program(
        adopted=True, cpu="1", drainTime="5s", healthPath="/health", runAsNonRoot=True, containerPort=8000
    )
    container = container_of(recorder)
    assert container["resources"]["requests"] == {"cpu": "1"}
    assert container["lifecycle"] == {"preStop": {"exec": {"command": ["sleep", "5"]}}}
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"
    assert pod_of(recorder)["securityContext"] == {"runAsNonRoot": True}


def test_retaining_a_service_does_not_change_its_pods() -> None:
    retained, plain = program(retainOnDelete=True), program()
    inputs = [
        {registration.urn: registration.inputs for registration in recorder.registrations}
        for recorder in (retained, plain)
    ]
    assert inputs[0] == inputs[1], "the setting must not restart pods, or change anything else"
    kept = {registration.type for registration in retained.registrations if registration.retain_on_delete}
    assert kept == {DEPLOYMENT, SERVICE, HPA}


def _without_outputs(recorder: Recorder) -> list[Registration]:
    return sorted(recorder.registrations, key=lambda registration: registration.urn)


@pytest.mark.case("G5")
@pytest.mark.parametrize("hpa", [{}, {"name": "gpu-hpa"}])
def test_a_rename_with_the_former_name_keeps_the_registered_resources(hpa: dict[str, str]) -> None:
    first = program(name="bert", autoscaler=hpa)
    second = program(name="intents", formerly="bert", autoscaler=hpa)
    third = program(name="intentions", formerly="bert", autoscaler=hpa)
    assert _without_outputs(first) == _without_outputs(second) == _without_outputs(third)
    [renamed] = third.outputs["services"]
    assert renamed["name"] == "intentions"
    assert renamed["deployment"] == first.resource(DEPLOYMENT).inputs["metadata"]["name"] == "bert"
    assert renamed["service"] == "bert-svc"
    assert renamed["hpa"] == first.resource(HPA).inputs["metadata"]["name"] == hpa.get("name", "bert-hpa")
    assert "kubectl get pods -n default -l app=bert -o wide" in third.outputs["checks"]


def test_the_program_accepts_the_services_in_the_docs() -> None:
    services = yaml.safe_load(yaml_block("docs/services.md", "vllm"))["ackgpu:services"]
    recorder = run_program(dev_config(services=services), Recorder())
    container = container_of(recorder)
    assert container["args"] == ["--model", "Qwen/Qwen3-8B"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": 8000}
    assert recorder.resource(SERVICE).inputs["spec"]["ports"][0]["targetPort"] == 8000
