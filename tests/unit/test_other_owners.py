"""A cluster in which something belongs to others: the run stops at preview, with both owners, and makes nothing."""

from __future__ import annotations

import logging
from typing import Any

import pulumi
import pytest

from autoscaling.other_owners import (
    SCALERS,
    STACK_ANNOTATION,
    Scaled,
    adapter_of_unknown_origin,
    other_adapters,
    other_autoscalers,
)
from autoscaling.versions import ADAPTER_SERVICE
from components.preflight import Sight
from tests.unit.fake_cluster import running
from tests.unit.program import Recorder, run_program, stack_config

CUSTOM, EXTERNAL = "v1beta1.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"
REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
HPAS = "/apis/autoscaling/v1/namespaces/demo/horizontalpodautoscalers"
HPA, SCALED_OBJECT, CRON_HPA = SCALERS
BERT = Scaled("demo", "bert", "bert-gpu")


def registration(name: str, owner: str | None, release: str | None = None) -> dict[str, Any]:
    version, _, group = name.partition(".")
    namespace, _, service = (owner or "").partition("/")
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    spec: dict[str, Any] = {"group": group, "version": version}
    if owner:
        spec["service"] = {"namespace": namespace, "name": service, "port": 443}
    return {"metadata": {"name": name, "annotations": annotations if release else None}, "spec": spec}


def scaler(name: str, target: str = "bert", *, kind: str | None = "Deployment", **annotations: str) -> dict[str, Any]:
    reference = {"name": target, "kind": kind} if kind else {"name": target}
    marks = {STACK_ANNOTATION: annotations["stack"]} if annotations else {}
    return {
        "metadata": {"name": name, "namespace": "demo", "annotations": marks},
        "spec": {"scaleTargetRef": reference},
    }


def config() -> dict[str, Any]:
    service = {"name": "bert", "namespace": "demo", "image": "i", "autoscaler": {"name": "bert-gpu"}}
    return {**stack_config("rehearsal"), "ackgpu:services": [service]}


PROMETHEUS_ADAPTER = registration(CUSTOM, "monitoring/prometheus-adapter", "prometheus-adapter")
KEDA = registration(EXTERNAL, "keda/keda-operator-metrics-apiserver", "keda")
BERT_CPU = scaler("bert-cpu")


@pytest.mark.case("F1")
@pytest.mark.case("C5")
@pytest.mark.parametrize("preview", [True, False])
def test_other_owners_stop_the_run_before_anything_is_made(preview: bool) -> None:
    sight = Sight([PROMETHEUS_ADAPTER, KEDA], {HPA: [BERT_CPU]})
    recorder = Recorder(preview=preview, sight=sight)
    with pytest.raises(pulumi.RunError) as failure:
        run_program(config(), recorder)
    _, *sentences = str(failure.value).splitlines()
    assert [sentence.partition(", and ")[0] for sentence in sentences] == [
        f"{CUSTOM} belongs to monitoring/prometheus-adapter (Helm release prometheus-adapter)",
        f"{EXTERNAL} belongs to keda/keda-operator-metrics-apiserver (Helm release keda)",
        "HorizontalPodAutoscaler demo/bert-cpu scales Deployment demo/bert",
    ]
    made = {one.type for one in recorder.registrations if not one.type.startswith(("ackgpu:", "pulumi:pulumi:"))}
    assert made == {"pulumi:providers:alicloud"}


@pytest.mark.case("F1")
@pytest.mark.case("C5")
def test_what_is_our_own_passes() -> None:
    ours = [
        registration(name, "kube-system/ack-alibaba-cloud-metrics-adapter-custom-service")
        for name in (CUSTOM, EXTERNAL)
    ]
    sight = Sight(ours, {HPA: [scaler("bert-gpu"), scaler("renamed", stack="ackgpu/unit")]})
    assert run_program(config(), Recorder(sight=sight)).of_type("kubernetes:autoscaling/v2:HorizontalPodAutoscaler")


def test_an_hpa_carries_the_name_of_its_stack() -> None:
    metadata = (
        run_program(config(), Recorder()).one("kubernetes:autoscaling/v2:HorizontalPodAutoscaler").inputs["metadata"]
    )
    assert metadata["annotations"] == {"ackgpu/stack": "ackgpu/unit"}


@pytest.mark.case("F1")
def test_an_owner_is_told_with_ours_and_what_to_do() -> None:
    assert list(other_adapters([PROMETHEUS_ADAPTER])) == [
        "v1beta1.custom.metrics.k8s.io belongs to monitoring/prometheus-adapter (Helm release prometheus-adapter), and "
        "the adapter of this stack, kube-system/ack-alibaba-cloud-metrics-adapter-custom-service, serves the same: a "
        "cluster has one adapter for each. Take the other one away: `helm uninstall prometheus-adapter -n monitoring`; "
        "what it left behind goes with `kubectl delete apiservice v1beta1.custom.metrics.k8s.io`."
    ]


@pytest.mark.case("F1")
@pytest.mark.parametrize(
    ("registrations", "beginnings"),
    [
        ([], []),
        ([registration("v1beta1.metrics.k8s.io", "kube-system/metrics-server")], []),
        ([registration("v1.apps", None)], []),
        # The version that an HPA reads is the one that the cluster prefers.
        (
            [registration(CUSTOM, ADAPTER_SERVICE), registration("v1beta2.custom.metrics.k8s.io", "monitoring/other")],
            ["v1beta2.custom.metrics.k8s.io belongs to monitoring/other, and"],
        ),
        (
            [registration(name, "monitoring/other") for name in (CUSTOM, EXTERNAL)],
            [f"{CUSTOM} and {EXTERNAL} belong to monitoring/other, and"],
        ),
        ([registration(CUSTOM, None)], [f"{CUSTOM} belongs to the API server itself, and"]),
        (
            [registration(CUSTOM, "default/ack-alibaba-cloud-metrics-adapter-custom-service")],
            [f"{CUSTOM} belongs to default/"],
        ),
    ],
)
def test_only_another_owner_of_a_metrics_api_is_told(registrations: list[Any], beginnings: list[str]) -> None:
    sentences = list(other_adapters(registrations))
    assert len(sentences) == len(beginnings)
    assert all(sentence.startswith(beginning) for sentence, beginning in zip(sentences, beginnings, strict=True))


@pytest.mark.parametrize(
    ("registrations", "hpas", "told"),
    [
        ([registration(CUSTOM, ADAPTER_SERVICE)], [], True),
        ([registration(CUSTOM, ADAPTER_SERVICE)], [scaler("theirs", stack="ackgpu/other")], True),
        ([registration(CUSTOM, ADAPTER_SERVICE)], [scaler("bert-gpu", stack="ackgpu/dev")], False),
        ([], [], False),
    ],
)
def test_an_adapter_that_the_stack_may_not_have_installed_is_told(
    registrations: list[Any], hpas: list[Any], told: bool
) -> None:
    sentences = list(adapter_of_unknown_origin(registrations, {HPA: hpas}, "ackgpu/dev"))
    assert bool(sentences) == told
    assert all("helm uninstall ack-alibaba-cloud-metrics-adapter -n kube-system" in one for one in sentences)


@pytest.mark.case("C5")
def test_another_autoscaler_is_told_with_ours_and_what_to_do() -> None:
    assert list(other_autoscalers([BERT], {HPA: [BERT_CPU]}, "ackgpu/dev")) == [
        "HorizontalPodAutoscaler demo/bert-cpu scales Deployment demo/bert, and so does HPA demo/bert-gpu of this "
        "stack: a Deployment takes one autoscaler. Delete the other (`kubectl delete horizontalpodautoscalers bert-cpu "
        "-n demo`), or take the service out of services."
    ]


@pytest.mark.case("C5")
@pytest.mark.parametrize(
    ("kind", "found", "told"),
    [
        (HPA, scaler("bert-gpu"), False),
        (HPA, scaler("before-a-rename", stack="ackgpu/dev"), False),
        (HPA, scaler("of-another-team", stack="ackgpu/other"), True),
        (HPA, scaler("bert-cpu", "other"), False),
        (HPA, scaler("bert-cpu", kind="StatefulSet"), False),
        (HPA, {**BERT_CPU, "metadata": {"name": "bert-cpu", "namespace": "other"}}, False),
        (SCALED_OBJECT, scaler("bert-gpu"), True),
        (SCALED_OBJECT, scaler("bert", kind=None), True),
        (SCALED_OBJECT, {**BERT_CPU, "spec": {}}, False),
        (CRON_HPA, scaler("nightly"), True),
        (CRON_HPA, scaler("nightly", "bert-gpu", kind="HorizontalPodAutoscaler"), False),
    ],
)
def test_only_another_autoscaler_of_the_same_deployment_is_told(kind: Any, found: Any, told: bool) -> None:
    sentences = list(other_autoscalers([BERT], {kind: [found]}, "ackgpu/dev"))
    assert [kind.kind in sentence for sentence in sentences] == ([True] if told else [])
    assert all(("let it point at the HPA" in sentence) == (kind is CRON_HPA) for sentence in sentences)


@pytest.mark.case("C5")
def test_of_a_scaled_object_and_its_hpa_the_first_is_told() -> None:
    keda, made = scaler("bert"), scaler("keda-hpa-bert")
    keda["metadata"]["uid"] = "1"
    made["metadata"]["ownerReferences"] = [{"kind": "ScaledObject", "name": "bert", "uid": "1"}]
    [sentence] = other_autoscalers([BERT], {HPA: [made], SCALED_OBJECT: [keda]}, "ackgpu/dev")
    assert sentence.startswith("ScaledObject demo/bert ")
    [sentence] = other_autoscalers([BERT], {HPA: [made], SCALED_OBJECT: []}, "ackgpu/dev")
    assert sentence.startswith("HorizontalPodAutoscaler demo/keda-hpa-bert "), "where the other can't be listed"


def look(answers: dict[str, Any], *, preview: bool = True) -> Recorder:
    """The program, before a cluster that answers."""
    empty: dict[str, Any] = {REGISTRATIONS: {"items": []}, HPAS: {"items": []}}
    with running({**empty, **answers}) as cluster:
        return run_program(config(), Recorder(kubeconfig=cluster.kubeconfig, preview=preview))


@pytest.mark.case("F1")
@pytest.mark.case("C5")
@pytest.mark.parametrize(
    ("path", "found", "name"),
    [
        (REGISTRATIONS, PROMETHEUS_ADAPTER, "monitoring/prometheus-adapter"),
        (HPAS, BERT_CPU, "HorizontalPodAutoscaler demo/bert-cpu"),
        ("/apis/keda.sh/v1alpha1/namespaces/demo/scaledobjects", BERT_CPU, "ScaledObject demo/bert-cpu"),
        (
            "/apis/autoscaling.alibabacloud.com/v1beta1/namespaces/demo/cronhorizontalpodautoscalers",
            BERT_CPU,
            "CronHorizontalPodAutoscaler demo/bert-cpu",
        ),
    ],
)
def test_the_cluster_is_asked_for_each_kind(path: str, found: dict[str, Any], name: str) -> None:
    with pytest.raises(pulumi.RunError, match=name):
        look({path: {"items": [found]}})


def test_a_cluster_without_the_definitions_of_others_passes(caplog: pytest.LogCaptureFixture) -> None:
    assert look({}).of_type("kubernetes:helm.sh/v3:Release")
    assert caplog.messages == []


def test_what_the_credential_may_not_list_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    look({HPAS: (403, {"message": "no"})})
    assert caplog.messages == [
        f"whether others own what this stack needs is not known in full: {HPAS} can't be listed."
    ]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((401, {"message": "Unauthorized"}), r"refuses the credential \(401\): get a new kubeconfig"),
        ((500, {"message": "etcd"}), "answers 500"),
        ("<html>", "gives an answer that is not a list of Kubernetes objects"),
    ],
)
def test_a_cluster_that_gives_no_answer_stops_up_and_is_told_at_preview(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert look({REGISTRATIONS: answer}).of_type("kubernetes:helm.sh/v3:Release")
    with pytest.raises(pulumi.RunError, match=rf"^nothing was changed, since the cluster {reason}\.$"):
        look({REGISTRATIONS: answer}, preview=False)
    [warning] = caplog.messages
    assert warning.startswith("whether others own what this stack needs is not known, since the cluster ")


@pytest.mark.parametrize(
    ("kubeconfig", "reason"),
    [
        (None, r"at 127\.0\.0\.1 can't be reached \(.*refused\)"),
        ("no: kubeconfig", "has a kubeconfig without a server"),
        ("[", "has a kubeconfig without a server"),
        (
            "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: "
            "{server: 'https://127.0.0.1:1', certificate-authority-data: c2VjcmV0}}], users: [{name: u, user: {}}]}",
            "or with a certificate that can't be read",
        ),
    ],
)
def test_a_cluster_that_cannot_be_reached_stops_up_alone(
    kubeconfig: str | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with running({}) as cluster:
        gone = cluster.kubeconfig
    program = Recorder(kubeconfig=kubeconfig or gone, preview=True)
    assert run_program(config(), program).of_type("kubernetes:helm.sh/v3:Release"), "as the provider, which goes on too"
    with pytest.raises(pulumi.RunError, match=reason) as failure:
        run_program(config(), Recorder(kubeconfig=kubeconfig or gone))
    assert len(caplog.messages) == 1
    assert "c2VjcmV0" not in str(failure.value) + caplog.text
