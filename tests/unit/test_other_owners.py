"""A cluster with other owners of adapters or autoscalers: preview fails, names both owners, and changes nothing."""

from __future__ import annotations

import logging
import re
import socket
from typing import Any
from unittest import mock

import pulumi
import pytest

from autoscaling.ack.versions import ADAPTER_SERVICE
from autoscaling.settings.autoscaler import Autoscaler
from autoscaling.settings.services import Service
from live.other_owners import (
    SCALERS,
    STACK_ANNOTATION,
    adapter_of_unknown_origin,
    other_adapters,
    other_autoscalers,
    unknown_former_names,
)
from live.preflight import LiveAdapter, Snapshot, take_snapshot
from tests.unit.fake_cluster import kubeconfig_of as access
from tests.unit.fake_cluster import running
from tests.unit.program import Recorder, run_program, stack_config

CUSTOM, EXTERNAL = "v1beta1.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"
REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
NOT_A_LIST = "sends a response that is not a list of Kubernetes objects: check the server in the kubeconfig"
HPAS = "/apis/autoscaling/v1/namespaces/demo/horizontalpodautoscalers"
HPA, SCALED_OBJECT, CRON_HPA = SCALERS


def service(name: str = "bert", **keys: Any) -> Service:
    autoscaler = Autoscaler.model_construct(name="bert-gpu")
    return Service.model_construct(name=name, namespace="demo", autoscaler=autoscaler, **keys)


BERT = service()


def registration(name: str, owner: str | None, release: str | None = None) -> dict[str, Any]:
    version, _, group = name.partition(".")
    namespace, _, service = (owner or "").partition("/")
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    spec: dict[str, Any] = {"group": group, "version": version}
    if owner:
        spec["service"] = {"namespace": namespace, "name": service, "port": 443}
    return {"metadata": {"name": name, "annotations": annotations if release else None}, "spec": spec}


NO_KIND = "no such key"


def scaler(name: str, target: str = "bert", *, kind: str | None = "Deployment", **annotations: str) -> dict[str, Any]:
    reference = {"name": target} if kind == NO_KIND else {"name": target, "kind": kind}
    found = {STACK_ANNOTATION: annotations["stack"]} if annotations else None
    return {
        "metadata": {"name": name, "namespace": "demo", "annotations": found},
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
def test_other_owners_stop_the_run_before_any_change(preview: bool) -> None:
    snapshot = Snapshot([PROMETHEUS_ADAPTER, KEDA], {HPA: [BERT_CPU]})
    recorder = Recorder(preview=preview, snapshot=snapshot)
    with pytest.raises(pulumi.RunError) as failure:
        run_program(config(), recorder)
    _, *sentences = str(failure.value).splitlines()
    assert [re.split(", (?:and|but) ", sentence)[0] for sentence in sentences] == [
        f"{CUSTOM} belongs to monitoring/prometheus-adapter (Helm release prometheus-adapter)",
        f"{EXTERNAL} belongs to keda/keda-operator-metrics-apiserver (Helm release keda)",
        "HorizontalPodAutoscaler demo/bert-cpu scales Deployment demo/bert",
    ]
    types = {entry.type for entry in recorder.registrations}
    created = {name for name in types if not name.startswith(("ackgpu:", "pulumi:pulumi:"))}
    assert created == {"pulumi:providers:alicloud"}


@pytest.mark.case("F1")
@pytest.mark.case("C5")
def test_accepts_the_stacks_own_objects() -> None:
    own = [
        registration(name, "kube-system/ack-alibaba-cloud-metrics-adapter-custom-service")
        for name in (CUSTOM, EXTERNAL)
    ]
    snapshot = Snapshot(own, {HPA: [scaler("bert-gpu"), scaler("renamed", stack="ackgpu/unit")]})
    assert run_program(config(), Recorder(snapshot=snapshot)).of_type(
        "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"
    )


def test_an_hpa_carries_the_name_of_its_stack() -> None:
    metadata = (
        run_program(config(), Recorder())
        .resource("kubernetes:autoscaling/v2:HorizontalPodAutoscaler")
        .inputs["metadata"]
    )
    assert metadata["annotations"] == {"ackgpu/stack": "ackgpu/unit"}


@pytest.mark.case("F1")
def test_names_both_adapters_and_what_to_do() -> None:
    assert list(other_adapters([PROMETHEUS_ADAPTER])) == [
        "v1beta1.custom.metrics.k8s.io belongs to monitoring/prometheus-adapter (Helm release prometheus-adapter), but "
        "the adapter of this stack, kube-system/ack-alibaba-cloud-metrics-adapter-custom-service, serves the same API. "
        "Each API can have only a single adapter. Uninstall the other adapter: `helm uninstall prometheus-adapter "
        "-n monitoring`. If an APIService remains, run `kubectl delete apiservice v1beta1.custom.metrics.k8s.io`."
    ]


@pytest.mark.case("F1")
@pytest.mark.parametrize(
    ("registrations", "beginnings"),
    [
        ([], []),
        ([registration("v1beta1.metrics.k8s.io", "kube-system/metrics-server")], []),
        ([registration("v1.apps", None)], []),
        # HPAs read the version that the cluster prefers.
        (
            [registration(CUSTOM, ADAPTER_SERVICE), registration("v1beta2.custom.metrics.k8s.io", "monitoring/other")],
            ["v1beta2.custom.metrics.k8s.io belongs to monitoring/other, but"],
        ),
        (
            [registration(name, "monitoring/other") for name in (CUSTOM, EXTERNAL)],
            [f"{CUSTOM} and {EXTERNAL} belong to monitoring/other, but"],
        ),
        ([registration(CUSTOM, None)], [f"{CUSTOM} belongs to the API server itself, but"]),
        (
            [registration(CUSTOM, "default/ack-alibaba-cloud-metrics-adapter-custom-service")],
            [f"{CUSTOM} belongs to default/"],
        ),
        ([registration(CUSTOM, ADAPTER_SERVICE, "ack-alibaba-cloud-metrics-adapter")], []),
        (
            [registration(CUSTOM, ADAPTER_SERVICE, "by-hand")],
            [
                f"{CUSTOM} belongs to {ADAPTER_SERVICE} (Helm release by-hand), but the adapter of this stack, Helm "
                "release ack-alibaba-cloud-metrics-adapter, serves the same API"
            ],
        ),
    ],
)
def test_reports_only_another_owner_of_a_metrics_api(registrations: list[Any], beginnings: list[str]) -> None:
    sentences = list(other_adapters(registrations))
    assert len(sentences) == len(beginnings)
    assert all(sentence.startswith(beginning) for sentence, beginning in zip(sentences, beginnings, strict=True))


@pytest.mark.parametrize(
    ("registrations", "hpas", "reported"),
    [
        ([registration(CUSTOM, ADAPTER_SERVICE)], [], True),
        ([registration(CUSTOM, ADAPTER_SERVICE)], [scaler("theirs", stack="ackgpu/other")], True),
        ([registration(CUSTOM, ADAPTER_SERVICE)], [scaler("bert-gpu", stack="ackgpu/dev")], False),
        ([], [], False),
    ],
)
def test_warns_about_an_adapter_that_the_stack_may_not_have_installed(
    registrations: list[Any], hpas: list[Any], reported: bool
) -> None:
    sentences = list(adapter_of_unknown_origin(registrations, {HPA: hpas}, "ackgpu/dev"))
    assert bool(sentences) == reported
    assert all("helm uninstall ack-alibaba-cloud-metrics-adapter -n kube-system" in sentence for sentence in sentences)


@pytest.mark.parametrize(("installer", "reported"), [("ackgpu/unit", False), ("ackgpu/other", True), (None, True)])
def test_a_release_with_the_stacks_name_has_a_known_origin(
    installer: str | None, reported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with mock.patch.object(LiveAdapter, "installer", installer):
        run_program(config(), Recorder(snapshot=Snapshot([registration(CUSTOM, ADAPTER_SERVICE)])))
    assert bool([message for message in caplog.messages if "already serves" in message]) is reported


@pytest.mark.parametrize(
    ("retained", "hpa", "reported"),
    [(True, "old", True), (False, "old", False), (True, "bert-gpu", False)],
)
def test_reports_an_own_hpa_that_would_remain_beside_its_successor(retained: bool, hpa: str, reported: bool) -> None:
    bert = service(retain_on_delete=retained)
    sentences = list(other_autoscalers([bert], {HPA: [scaler(hpa, stack="ackgpu/dev")]}, "ackgpu/dev"))
    assert bool(sentences) is reported
    assert all(
        "Set autoscaler.name back to old, or first run `kubectl delete hpa old -n demo`." in sentence
        for sentence in sentences
    )


@pytest.mark.parametrize("setting", ["adopted", "retainOnDelete"])
def test_a_run_does_not_rename_a_retained_hpa(setting: str) -> None:
    kept = config()
    kept["ackgpu:services"][0][setting] = True
    snapshot = Snapshot([], {HPA: [scaler("old", stack="ackgpu/unit")]})
    with pytest.raises(pulumi.RunError, match="`pulumi up` would not delete old"):
        run_program(kept, Recorder(snapshot=snapshot))


@pytest.mark.parametrize(
    ("renamed", "hpas", "reported"),
    [
        (True, [scaler("bert-gpu", stack="ackgpu/dev")], False),
        (True, [], False),
        (True, [scaler("theirs", stack="ackgpu/other")], False),
        (True, [scaler("other", target="other", stack="ackgpu/dev")], True),
        (False, [scaler("other", target="other", stack="ackgpu/dev")], False),
    ],
)
def test_warns_about_an_unknown_former_name(renamed: bool, hpas: list[Any], reported: bool) -> None:
    bert = service("new", formerly="bert") if renamed else BERT
    sentences = list(unknown_former_names([bert], {HPA: hpas}, "ackgpu/dev"))
    assert bool(sentences) is reported
    beginning = "formerly of service new is 'bert', but this stack has no such service in namespace demo"
    assert all(sentence.startswith(beginning) for sentence in sentences)


@pytest.mark.case("C5")
def test_names_both_autoscalers_and_what_to_do() -> None:
    assert list(other_autoscalers([BERT], {HPA: [BERT_CPU]}, "ackgpu/dev")) == [
        "HorizontalPodAutoscaler demo/bert-cpu scales Deployment demo/bert, and so does HPA demo/bert-gpu of this "
        "stack. A Deployment can have only a single autoscaler. Delete the other autoscaler (`kubectl delete "
        "horizontalpodautoscalers bert-cpu -n demo`), or remove the service from services."
    ]


@pytest.mark.case("C5")
@pytest.mark.parametrize(
    ("kind", "found", "reported"),
    [
        (HPA, scaler("bert-gpu"), False),
        (HPA, scaler("before-a-rename", stack="ackgpu/dev"), False),
        (HPA, scaler("of-another-team", stack="ackgpu/other"), True),
        (HPA, scaler("bert-gpu", "before-a-rename", stack="ackgpu/dev"), False),
        (HPA, scaler("bert-cpu", "other"), False),
        (HPA, scaler("bert-cpu", kind="StatefulSet"), False),
        (HPA, {**BERT_CPU, "metadata": {"name": "bert-cpu", "namespace": "other"}}, False),
        (SCALED_OBJECT, scaler("bert-gpu"), True),
        (SCALED_OBJECT, scaler("bert", kind=NO_KIND), True),
        (SCALED_OBJECT, scaler("bert", kind=None), True),
        (SCALED_OBJECT, scaler("bert", kind=""), True),
        (SCALED_OBJECT, {**BERT_CPU, "spec": {}}, False),
        (CRON_HPA, scaler("nightly"), True),
        (CRON_HPA, scaler("nightly", "bert-gpu", kind="HorizontalPodAutoscaler"), False),
    ],
)
def test_reports_only_another_autoscaler_of_the_same_deployment(kind: Any, found: Any, reported: bool) -> None:
    sentences = list(other_autoscalers([BERT], {kind: [found]}, "ackgpu/dev"))
    assert [kind.kind in sentence for sentence in sentences] == ([True] if reported else [])
    assert all(("or point it at the HPA instead" in sentence) == (kind is CRON_HPA) for sentence in sentences)


@pytest.mark.case("C5")
@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            scaler("bert-gpu", "other"),
            "HorizontalPodAutoscaler demo/bert-gpu scales Deployment demo/other, but the HPA of this stack for "
            "Deployment demo/bert has the same name. Delete the existing HPA (`kubectl delete horizontalpodautoscalers "
            "bert-gpu -n demo`), or give the service a different autoscaler.name.",
        ),
        (
            scaler("bert-gpu", kind="StatefulSet"),
            "HorizontalPodAutoscaler demo/bert-gpu scales StatefulSet demo/bert, but the HPA of this stack for "
            "Deployment demo/bert has the same name. Delete the existing HPA (`kubectl delete horizontalpodautoscalers "
            "bert-gpu -n demo`), or give the service a different autoscaler.name.",
        ),
        (
            scaler("bert-gpu", stack="ackgpu/other"),
            "HorizontalPodAutoscaler demo/bert-gpu of stack ackgpu/other scales Deployment demo/bert, but the HPA of "
            "this stack for Deployment demo/bert has the same name. Delete the existing HPA (`kubectl delete "
            "horizontalpodautoscalers bert-gpu -n demo`), or give the service a different autoscaler.name. If "
            "ackgpu/other is an earlier name of this stack, keep the HPA with `kubectl annotate hpa bert-gpu -n demo "
            "--overwrite ackgpu/stack=ackgpu/dev`.",
        ),
    ],
)
def test_reports_another_hpa_with_the_name_of_an_own_hpa(found: dict[str, Any], sentence: str) -> None:
    assert list(other_autoscalers([BERT], {HPA: [found]}, "ackgpu/dev")) == [sentence]


@pytest.mark.case("C5")
@pytest.mark.parametrize("owners", [None, [], [{"kind": "Team", "name": "a"}]])
def test_reports_an_hpa_of_no_scaled_object_whatever_its_owners(owners: Any) -> None:
    found = {**BERT_CPU, "metadata": {**BERT_CPU["metadata"], "ownerReferences": owners}}
    scalers = {HPA: [found], SCALED_OBJECT: [scaler("theirs", "other")]}
    [sentence] = other_autoscalers([BERT], scalers, "ackgpu/dev")
    assert sentence.startswith("HorizontalPodAutoscaler demo/bert-cpu ")


@pytest.mark.case("C5")
def test_reports_a_scaled_object_and_not_its_hpa() -> None:
    keda, its_hpa = scaler("bert"), scaler("keda-hpa-bert")
    keda["metadata"]["uid"] = "1"
    its_hpa["metadata"]["ownerReferences"] = [{"kind": "ScaledObject", "name": "bert", "uid": "1"}]
    [sentence] = other_autoscalers([BERT], {HPA: [its_hpa], SCALED_OBJECT: [keda]}, "ackgpu/dev")
    assert sentence.startswith("ScaledObject demo/bert ")
    [sentence] = other_autoscalers([BERT], {HPA: [its_hpa], SCALED_OBJECT: []}, "ackgpu/dev")
    assert sentence.startswith("HorizontalPodAutoscaler demo/keda-hpa-bert "), "if the ScaledObject can't be listed"


EMPTY: dict[str, Any] = {REGISTRATIONS: {"items": []}, HPAS: {"items": []}}


def run_against(answers: dict[str, Any], *, preview: bool = True) -> Recorder:
    """Run the program with a cluster that gives the answers."""
    with running({**EMPTY, **answers}) as cluster:
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
def test_reads_each_kind_from_the_cluster(path: str, found: dict[str, Any], name: str) -> None:
    with pytest.raises(pulumi.RunError, match=name):
        run_against({path: {"items": [found]}})


def test_accepts_a_cluster_without_other_kinds_of_autoscaler(caplog: pytest.LogCaptureFixture) -> None:
    assert run_against({}).of_type("kubernetes:helm.sh/v3:Release")
    assert caplog.messages == []


def test_warns_about_forbidden_lists(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    run_against({path: (403, {"message": "no"}) for path in (REGISTRATIONS, HPAS)})
    assert caplog.messages == [
        f"Could not check fully for conflicting adapters and HPAs: the credential may not list {path}. "
        "Grant the credential this permission."
        for path in (REGISTRATIONS, HPAS)
    ]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((401, {"message": "Unauthorized"}), r"refuses the credential \(401\): get a new kubeconfig"),
        ((500, {"message": "etcd"}), "responds with status 500"),
        ("<html>", NOT_A_LIST),
        ("[]", NOT_A_LIST),
    ],
)
def test_a_failed_read_stops_up_and_is_a_warning_at_preview(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_against({REGISTRATIONS: answer}).of_type("kubernetes:helm.sh/v3:Release")
    with pytest.raises(pulumi.RunError, match=rf"^Nothing was changed: the cluster {reason}\.$"):
        run_against({REGISTRATIONS: answer}, preview=False)
    [warning] = caplog.messages
    assert warning.startswith("Could not check for conflicting adapters and HPAs: the cluster ")


@pytest.mark.parametrize(
    ("kubeconfig", "reason"),
    [
        (None, r"at http://127\.0\.0\.1:\d+ can't be reached \(.*refused\)"),
        ("no: kubeconfig", "can't be reached: the kubeconfig's current context, server"),
        ("[", "can't be reached: the kubeconfig's current context, server"),
        ("[" * 2_000, "can't be reached: the kubeconfig's current context, server"),
        ("- c2VjcmV0: c2VjcmV0: [", "can't be reached: the kubeconfig's current context, server"),
        (access({"server": None}), "can't be reached: the server in the kubeconfig is not a URL"),
        (access({"server": 6443}), "can't be reached: the kubeconfig's current context, server"),
        (
            access({"server": "https://127.0.0.1:c2VjcmV0"}),
            "can't be reached: the kubeconfig's current context, server",
        ),
        (access({"server": "c2VjcmV0"}), "can't be reached: the server in the kubeconfig is not a URL"),
        (access({"certificate-authority-data": "c2VjcmV0"}), "server, certificate or token can't be read"),
        *[
            (access({}, {"token": token}), "the kubeconfig's token has a line break or another invalid character")
            for token in ("c2VjcmV0\n", "c2Vj\ncmV0 c2VjcmV0", "c2VjcmV0\u00fc", ["c2VjcmV0"], 7)
        ],
    ],
)
def test_an_unreachable_cluster_stops_only_up(
    kubeconfig: str | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with running({}) as cluster, socket.socket() as port:
        # A bound port without a listener refuses connections, and no other process can take it.
        port.bind(("127.0.0.1", 0))
        unreachable = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{port.getsockname()[1]}", cluster.kubeconfig)
        program = run_program(config(), Recorder(kubeconfig=kubeconfig or unreachable, preview=True))
        assert program.of_type("kubernetes:helm.sh/v3:Release"), "the provider continues too"
        with pytest.raises(pulumi.RunError, match=reason) as failure:
            run_program(config(), Recorder(kubeconfig=kubeconfig or unreachable))
    assert len(caplog.messages) == 1
    assert "c2VjcmV0" not in str(failure.value) + caplog.text


def test_a_list_without_items_is_empty(caplog: pytest.LogCaptureFixture) -> None:
    run_against({REGISTRATIONS: {"items": None}, HPAS: {"items": None}})
    assert caplog.messages == []


def test_reads_each_namespace_with_the_credential() -> None:
    hpas = {HPAS.replace("demo", namespace): {"items": [scaler(namespace)]} for namespace in ("a", "b")}
    with running({**EMPTY, **hpas}) as cluster:
        snapshot = take_snapshot(cluster.kubeconfig, ["a", "b"])
    assert [hpa["metadata"]["name"] for hpa in snapshot.scalers[HPA]] == ["a", "b"]
    assert set(cluster.authorizations.values()) == {"Bearer t"}


def test_a_stack_without_its_own_adapter_does_not_read_the_release() -> None:
    with running(EMPTY) as cluster:
        take_snapshot(cluster.kubeconfig, ["demo"], adapter=False)
    assert not [path for path in cluster.requests if "secrets" in path or path.endswith("v2/horizontalpodautoscalers")]


@pytest.mark.parametrize(
    ("cluster", "user", "part"),
    [
        ({"proxy-url": "socks5://c2VjcmV0@proxy"}, {}, "can't be reached: the kubeconfig has proxy-url"),
        ({}, {"auth-provider": {"name": "c2VjcmV0"}}, "can't be reached: the kubeconfig has auth-provider"),
        ({}, {"as": "c2VjcmV0"}, "can't be reached: the kubeconfig has as"),
        ({}, {"tokenFile": "c2VjcmV0"}, "can't be reached: the kubeconfig has tokenFile"),
    ],
)
def test_a_kubeconfig_that_only_the_provider_supports_is_a_warning(
    cluster: dict[str, Any], user: dict[str, Any], part: str, caplog: pytest.LogCaptureFixture
) -> None:
    program = run_program(config(), Recorder(kubeconfig=access(cluster, user)))
    assert program.of_type("kubernetes:helm.sh/v3:Release")
    assert caplog.messages == [
        f"Could not check for conflicting adapters and HPAs: the cluster {part}, which this client does not support."
    ]
