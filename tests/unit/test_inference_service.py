"""What a service's pods are told and allowed, how they end, and under which names its objects go."""

from __future__ import annotations

import re
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
import yaml

from components.inference_service import InferenceService, InferenceServiceArgs
from tests.readme import README
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
    pod: dict[str, Any] = recorder.one(DEPLOYMENT).inputs["spec"]["template"]["spec"]
    return pod


def container_of(recorder: Recorder) -> dict[str, Any]:
    [container] = pod_of(recorder)["containers"]
    assert isinstance(container, dict)
    return container


def seconds(probe: dict[str, Any]) -> int:
    """How long it may fail."""
    return int(probe["periodSeconds"]) * int(probe["failureThreshold"])


def test_without_a_health_path_the_port_tells_readiness_and_nothing_kills_a_pod_that_serves() -> None:
    container = container_of(program(containerPort=8000))
    for name in ("startupProbe", "readinessProbe"):
        assert container[name]["tcpSocket"] == {"port": 8000}
        assert "httpGet" not in container[name], "the guide's /predict would put load on the GPU"
    # Under load a full queue refuses connections; Kubernetes' page on probes warns of liveness probes that cascade.
    assert "livenessProbe" not in container


def test_a_health_path_is_asked_by_all_three() -> None:
    container = container_of(program(containerPort=8000, healthPath="/health"))
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[name]["httpGet"] == {"path": "/health", "port": 8000}
        assert "tcpSocket" not in container[name]
    assert seconds(container["livenessProbe"]) >= 60, "a pod is killed later than it is taken out of the load balancer"
    assert seconds(container["readinessProbe"]) <= 15


@pytest.mark.parametrize(("startup", "minutes"), [({}, 30), ({"startupTime": "4m"}, 30), ({"startupTime": "20m"}, 40)])
def test_a_model_may_load_twice_as_long_as_it_usually_does(startup: dict[str, str], minutes: int) -> None:
    window = {"scaleDown": {"stabilizationWindowSeconds": 1200}}
    [bert] = stack_config("dev")["ackgpu:services"]
    recorder = program(**startup, autoscaler={**bert["autoscaler"], **window})
    assert seconds(container_of(recorder)["startupProbe"]) == minutes * 60
    deployment = recorder.one(DEPLOYMENT)
    assert deployment.inputs["spec"]["progressDeadlineSeconds"] == minutes * 60, "not given up before the pod is"
    assert deployment.timeouts == (f"{minutes}m", f"{minutes}m")


@pytest.mark.parametrize(("drain", "total"), [({}, 35), ({"drainTime": "1m"}, 90)])
def test_a_pod_serves_on_while_the_load_balancer_takes_it_out(drain: dict[str, str], total: int) -> None:
    recorder = program(**drain)
    # The kubelet counts the hook into the grace period; what is left is Kubernetes' default of 30 s.
    command = ["sleep", str(total - 30)]
    assert container_of(recorder)["lifecycle"] == {"preStop": {"exec": {"command": command}}}
    assert pod_of(recorder)["terminationGracePeriodSeconds"] == total


def test_a_pod_need_not_drain() -> None:
    recorder = program(drainTime="0s")
    assert "lifecycle" not in container_of(recorder)
    assert pod_of(recorder)["terminationGracePeriodSeconds"] == 30


def test_a_disruption_budget_lets_the_only_pod_of_a_service_go() -> None:
    recorder = program()
    budget, deployment = recorder.one(DISRUPTION_BUDGET).inputs, recorder.one(DEPLOYMENT).inputs
    assert budget["spec"] == {"maxUnavailable": 1, "selector": deployment["spec"]["selector"]}
    assert budget["metadata"]["namespace"] == deployment["metadata"]["namespace"]


def test_pods_get_no_rights_that_a_root_image_on_port_80_can_do_without() -> None:
    recorder = program()
    pod, security = pod_of(recorder), container_of(recorder)["securityContext"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert security["allowPrivilegeEscalation"] is False
    # https://github.com/moby/moby/blob/master/daemon/pkg/oci/caps/defaults.go, which containerd has too.
    given = {"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
             "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"}  # fmt: skip
    dropped = set(security["capabilities"]["drop"])
    assert dropped < given
    assert not dropped & {"NET_BIND_SERVICE", "SETUID", "SETGID", "CHOWN", "DAC_OVERRIDE", "KILL"}


def test_an_image_that_runs_as_root_can_be_refused() -> None:
    assert pod_of(program(runAsNonRoot=True, containerPort=8000))["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize(
    ("asked", "requests"),
    [
        ({}, {"cpu": "1", "memory": "2Gi"}),
        ({"cpu": 2, "memory": "16Gi"}, {"cpu": "2", "memory": "16Gi"}),
        ({"cpu": 0.5}, {"cpu": "0.5", "memory": "2Gi"}),
    ],
)
def test_the_scheduler_counts_cpus_and_memory_which_are_not_limited(
    asked: dict[str, Any], requests: dict[str, str]
) -> None:
    resources = container_of(program(**asked))["resources"]
    assert resources == {"limits": {"nvidia.com/gpu": "1"}, "requests": requests}


def test_a_stock_image_gets_its_arguments_and_environment() -> None:
    container = container_of(program(args=["--model", "org/model"], env={"VLLM_USE_V1": "1"}, envFrom=["hugging-face"]))
    assert container["args"] == ["--model", "org/model"]
    assert container["env"] == [{"name": "VLLM_USE_V1", "value": "1"}]
    assert container["envFrom"] == [{"secretRef": {"name": "hugging-face"}}]
    for name in ("args", "env", "envFrom", "command"):
        assert name not in container_of(program())


@pytest.mark.parametrize("later", [False, True])
def test_pods_tolerate_what_they_are_told(later: bool) -> None:
    toleration = {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}

    def alone() -> None:
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
            tolerations=pulumi.Output.from_input([toleration]) if later else [toleration],
        )
        InferenceService("llm", args, pulumi.ResourceOptions(providers=[provider]))

    assert pod_of(run(Recorder(), alone))["tolerations"] == [toleration]
    assert "tolerations" not in pod_of(program())


def test_the_load_balancer_is_the_guides_or_one_of_the_intranet() -> None:
    [guide] = [
        document
        for document in yaml.safe_load_all((CHECKOUT / "tests" / "data" / "seed_manifests.yaml").read_text())
        if document["kind"] == "Service"
    ]
    public, private = program(), program(loadBalancer="intranet")
    assert "annotations" not in public.one(SERVICE).inputs["metadata"], "as in the guide, which has no annotation"
    assert "annotations" not in guide["metadata"]
    assert private.one(SERVICE).inputs["metadata"]["annotations"] == {ADDRESS_TYPE: "intranet"}


def test_another_kind_of_load_balancer_takes_another_service_before_which_the_old_one_goes() -> None:
    public, private = (program(loadBalancer=kind).one(SERVICE) for kind in ("internet", "intranet"))
    assert (public.replacement_trigger, private.replacement_trigger) == ("internet", "intranet")
    assert private.delete_before_replace, "two Services can't have one name"


def _guides_pod() -> dict[str, Any]:
    documents = yaml.safe_load_all((CHECKOUT / "tests" / "data" / "seed_manifests.yaml").read_text())
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    return pod


def test_the_pods_of_a_service_that_is_adopted_from_the_guide_stay_as_they_are() -> None:
    recorder = program(adopted=True, startupTime="2m")
    # Kubernetes' own defaults make no other template.
    assert pod_of(recorder) == {**_guides_pod(), "terminationGracePeriodSeconds": 30}
    assert recorder.one(DEPLOYMENT).retain_on_delete
    assert recorder.one(SERVICE).retain_on_delete
    assert not recorder.one(DISRUPTION_BUDGET).retain_on_delete, "it is ours"


def test_an_adopted_service_gets_what_its_settings_ask_for() -> None:
    recorder = program(
        adopted=True, cpu="1", drainTime="5s", healthPath="/health", runAsNonRoot=True, containerPort=8000
    )
    container = container_of(recorder)
    assert container["resources"]["requests"] == {"cpu": "1"}
    assert container["lifecycle"] == {"preStop": {"exec": {"command": ["sleep", "5"]}}}
    assert container["readinessProbe"]["httpGet"]["path"] == "/health"
    assert pod_of(recorder)["securityContext"] == {"runAsNonRoot": True}


def test_a_retained_service_has_the_pods_of_every_other_service() -> None:
    retained, plain = program(retainOnDelete=True), program()
    inputs = [{made.urn: made.inputs for made in recorder.registrations} for recorder in (retained, plain)]
    assert inputs[0] == inputs[1], "the setting must not restart pods, or change anything else"
    kept = {registration.type for registration in retained.registrations if registration.retain_on_delete}
    assert kept == {DEPLOYMENT, SERVICE, HPA}


def _without_outputs(recorder: Recorder) -> list[Registration]:
    return sorted(recorder.registrations, key=lambda one: one.urn)


@pytest.mark.case("G5")
@pytest.mark.parametrize("hpa", [{}, {"name": "gpu-hpa"}])
def test_a_rename_with_the_former_name_registers_what_was_there(hpa: dict[str, str]) -> None:
    first = program(name="bert", autoscaler=hpa)
    second = program(name="intents", formerly="bert", autoscaler=hpa)
    third = program(name="intentions", formerly="bert", autoscaler=hpa)
    assert _without_outputs(first) == _without_outputs(second) == _without_outputs(third)
    [renamed] = third.outputs["services"]
    assert renamed["name"] == "intentions"
    assert renamed["deployment"] == first.one(DEPLOYMENT).inputs["metadata"]["name"] == "bert"
    assert renamed["service"] == "bert-svc"
    assert renamed["hpa"] == first.one(HPA).inputs["metadata"]["name"] == hpa.get("name", "bert-hpa")
    assert "kubectl get pods -n default -l app=bert -o wide" in third.outputs["checks"]


def test_the_image_of_the_readme_is_one_that_the_program_takes() -> None:
    [block] = [one for one in re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL) if "vllm" in one]
    recorder = run_program(dev_config(**{"services": yaml.safe_load(block)["ackgpu:services"]}), Recorder())
    container = container_of(recorder)
    assert container["args"] == ["--model", "Qwen/Qwen3-8B"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": 8000}
    assert recorder.one(SERVICE).inputs["spec"]["ports"][0]["targetPort"] == 8000
