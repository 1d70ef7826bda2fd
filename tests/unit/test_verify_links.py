"""Each link between a stack and its metric, broken: the step says which one it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.fake_cluster import (
    CUSTOM,
    DEPLOYMENT,
    HPA,
    METRIC,
    POD_LIST,
    PREDICT,
    REGISTRATION,
    VALUES,
    deployment,
    healthy,
    hpa,
    pod,
    registration,
    running,
)
from verify import ClusterError, Step, check_stack

PODS_OF, VALUES_OF = "pods of default/bert", f"{METRIC} of default/bert"
ANSWER, AUTOSCALER = "predict", "HPA default/gpu-hpa"


def steps(**broken: Any) -> list[Step]:
    with running({**healthy(), **broken}) as cluster:
        return list(check_stack(cluster.outputs, cluster.api))


def pending(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod("bert-2", ready=False, conditions=[condition])


def pulling() -> dict[str, Any]:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    return pod("bert-2", ready=False, containerStatuses=[container])


def of_two_autoscalers() -> dict[str, Any]:
    # As the controller of Kubernetes 1.36 writes it.
    message = "pods by selector app=bert are controlled by multiple HPAs: [default/bert-cpu default/gpu-hpa]"
    condition = {"type": "ScalingActive", "status": "False", "reason": "AmbiguousSelector", "message": message}
    ambiguous = hpa(None, 1)
    ambiguous["status"]["conditions"] = [condition]
    return ambiguous


def test_the_steps_go_in_the_guides_order() -> None:
    observed = steps()
    assert [step for step in observed if not step.ok] == []
    names = [step.name for step in observed]
    assert names[:4] == ["custom metrics API", "metrics listed", PODS_OF, VALUES_OF]
    assert PREDICT in names[4]
    assert names[5:] == [AUTOSCALER]


@pytest.mark.parametrize(
    ("path", "answer", "name", "sentence"),
    [
        (REGISTRATION, None, "custom metrics API", "not found (404): nothing of that name"),
        (
            REGISTRATION,
            registration(status="False", reason="MissingEndpoints", message="no addresses"),
            "custom metrics API",
            "custom-service is not available (MissingEndpoints: no addresses)",
        ),
        (REGISTRATION, {**registration(status="True"), "status": None}, "custom metrics API", "no condition yet"),
        (
            REGISTRATION,
            {**registration(status="True"), "spec": {"groupPriorityMinimum": 1, "versionPriority": 1}},
            "custom metrics API",
            "it belongs to the API server itself",
        ),
        (CUSTOM, (503, "service unavailable"), "metrics listed", "the adapter does not answer (503)"),
        (CUSTOM, (500, {"message": "unable to fetch metrics"}), "metrics listed", "(500): unable to fetch metrics"),
        (CUSTOM, (403, {"message": "no access"}), "metrics listed", "the API server says Forbidden (403): no access"),
        (DEPLOYMENT, None, PODS_OF, "not found (404)"),
        (DEPLOYMENT, deployment(2), PODS_OF, "1 Ready of 2"),
        (
            POD_LIST,
            {"items": [pending("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")]},
            PODS_OF,
            "bert-2 is not (Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)",
        ),
        (POD_LIST, {"items": [pulling()]}, PODS_OF, "(ImagePullBackOff: Back-off pulling image)"),
        (
            POD_LIST,
            {"items": [pod("bert-1"), pod("bert-2")]},
            VALUES_OF,
            "no value for bert-2 (no series: no GPU process, or labels of other names)",
        ),
        (VALUES, (404, {"message": "could not find the metric"}), VALUES_OF, "not found (404): could not find"),
        (PREDICT, (500, "PlayMusic"), ANSWER, "500 PlayMusic"),
        (HPA, None, AUTOSCALER, "not found (404)"),
        (HPA, hpa("0", 1, metric="cpu"), AUTOSCALER, f"the HPA has no average value of {METRIC} of its pods"),
        (HPA, of_two_autoscalers(), AUTOSCALER, "AmbiguousSelector: pods by selector app=bert are controlled by"),
    ],
)
def test_a_broken_link_is_named_by_its_step(path: str, answer: Any, name: str, sentence: str) -> None:
    [step] = [step for step in steps(**{path: answer}) if name in step.name]
    assert not step.ok
    assert sentence in step.observed


def test_a_pod_that_is_terminating_has_no_say() -> None:
    leaving = pod("bert-0")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert [step for step in steps(**{POD_LIST: {"items": [leaving, pod("bert-1")]}}) if not step.ok] == []


def test_values_are_asked_for_by_the_deployments_own_selector() -> None:
    with running(healthy()) as cluster:
        list(check_stack(cluster.outputs, cluster.api))
    assert f"{VALUES}?labelSelector=app%3Dbert" in cluster.requests


def test_a_long_answer_is_compared_whole() -> None:
    with running({**healthy(), PREDICT: "x" * 100 + "\n"}) as cluster:
        [service] = cluster.raw_outputs["services"]
        outputs = cluster.outputs.model_copy(
            update={"services": [cluster.service.model_copy(update={"answer": "x" * 100})]}
        )
        steps = list(check_stack(outputs, cluster.api))
    assert service["predictUrl"] in steps[4].name
    assert steps[4].ok


def test_a_service_that_cannot_be_reached_is_a_failed_step() -> None:
    with running(healthy()) as cluster:
        nowhere = cluster.service.model_copy(update={"predict_url": "http://127.0.0.1:1/predict"})
        steps = list(check_stack(cluster.outputs.model_copy(update={"services": [nowhere]}), cluster.api))
    assert [step.ok for step in steps] == [True, True, True, True, False, True]
    assert "no answer (" in steps[4].observed


def test_a_cluster_that_cannot_be_reached_is_one_error() -> None:
    with running(healthy()) as cluster:
        outputs, api = cluster.outputs, cluster.api
    with pytest.raises(ClusterError, match=rf"^The cluster at {cluster.host} can't be reached \(.*refused\): check"):
        next(check_stack(outputs, api))


def test_a_credential_that_is_refused_is_one_error() -> None:
    with pytest.raises(ClusterError, match=r"refuses the credential \(401\): get a new kubeconfig"):
        steps(**{REGISTRATION: (401, {"message": "Unauthorized"})})
