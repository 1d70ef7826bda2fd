"""The checks against a recorded API server, and how they read what people and tools print."""

from __future__ import annotations

import asyncio
import copy
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes import client

from tests.unit.program import Recorder, run_program, stack_config
from verify import OutputsError, StackOutputs, Step, check_stack
from verify.cluster import decimal
from verify.load import answers

METRIC = "DCGM_CUSTOM_PROCESS_SM_UTIL"
PODS = f"/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/*/{METRIC}"
LABELS = {"app": "bert-intent-detection"}

HEY_SUMMARY = """
Summary:
  Total:	42.3397 secs

Status code distribution:
  [200]	9998 responses
  [503]	2 responses
"""


def healthy() -> dict[str, Any]:
    """Answers of an API server in front of a stack that works, by path."""
    condition = {"type": "Ready", "status": "True"}
    pod = {"metadata": {"name": "bert-1", "namespace": "default"}, "status": {"conditions": [condition]}}
    value = {"metric": {"name": METRIC}, "target": {"type": "AverageValue", "averageValue": "20"}}
    return {
        "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.custom.metrics.k8s.io": {
            "metadata": {"name": "v1beta1.custom.metrics.k8s.io"},
            "spec": {
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {
                    "namespace": "kube-system",
                    "name": "ack-alibaba-cloud-metrics-adapter-custom-service",
                },
            },
            "status": {"conditions": [{"type": "Available", "status": "True"}]},
        },
        "/apis/custom.metrics.k8s.io/v1beta1": {"resources": [{"name": f"pods/{METRIC}"}]},
        "/apis/apps/v1/namespaces/default/deployments/bert-intent-detection": {
            "metadata": {"name": "bert-intent-detection", "namespace": "default"},
            "spec": {"selector": {"matchLabels": LABELS}, "template": {}},
        },
        "/api/v1/namespaces/default/pods": {"items": [pod]},
        PODS: {"items": [{"describedObject": {"name": "bert-1"}, "value": "19600m"}]},
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/gpu-hpa": {
            "metadata": {"name": "gpu-hpa"},
            "spec": {
                "maxReplicas": 10,
                "scaleTargetRef": {"kind": "Deployment", "name": "bert-intent-detection"},
                "metrics": [{"type": "Pods", "pods": value}],
            },
            "status": {
                "desiredReplicas": 1,
                "conditions": [{"type": "ScalingActive", "status": "True"}],
                "currentMetrics": [
                    {
                        "type": "Pods",
                        "pods": {"metric": {"name": METRIC}, "current": {"averageValue": "19600m"}},
                    }
                ],
            },
        },
        "/predict": "PlayMusic",
    }


async def steps(api: dict[str, Any]) -> list[Step]:
    async def answer(request: web.Request) -> web.Response:
        if request.path not in api:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        content = api[request.path]
        if isinstance(content, int):
            return web.json_response({"kind": "Status", "code": content}, status=content)
        return web.Response(text=content) if isinstance(content, str) else web.json_response(content)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    async with TestServer(application) as server:
        url = str(server.make_url("")).rstrip("/")
        outputs = StackOutputs.model_validate(
            {
                "clusterId": "c1",
                "customMetricsPath": "/apis/custom.metrics.k8s.io/v1beta1",
                "metricResources": [f"pods/{METRIC}"],
                "services": [
                    {
                        "name": "bert-intent-detection",
                        "namespace": "default",
                        "deployment": "bert-intent-detection",
                        "service": "bert-intent-detection-svc",
                        "address": "192.0.2.1",
                        "predictUrl": f"{url}/predict?query=Music",
                        "answer": "PlayMusic",
                        "hpa": "gpu-hpa",
                        "metric": METRIC,
                        "target": "20",
                        "minReplicas": 1,
                        "maxReplicas": 10,
                    }
                ],
            }
        )
        configuration = client.Configuration(host=url)
        return await asyncio.to_thread(lambda: list(check_stack(outputs, client.ApiClient(configuration))))


def observe(api: dict[str, Any]) -> list[Step]:
    return asyncio.run(steps(api))


def test_a_stack_that_works_passes_each_step_and_reads_as_decimals() -> None:
    observed = observe(healthy())
    assert [step for step in observed if not step.ok] == []
    assert observed[3].observed == "bert-1=19.6"
    assert observed[5].observed == "19.6/20 at 1 replica(s), ScalingActive"


def broken(path: str, content: Any) -> dict[str, Any]:
    api = copy.deepcopy(healthy())
    if content is None:
        del api[path]
    else:
        api[path] = content
    return api


def foreign_owner() -> dict[str, Any]:
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.custom.metrics.k8s.io"
    registration = copy.deepcopy(healthy()[path])
    registration["spec"]["service"] = {"namespace": "monitoring", "name": "prometheus-adapter"}
    return broken(path, registration)


def inactive() -> dict[str, Any]:
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/gpu-hpa"
    hpa = copy.deepcopy(healthy()[path])
    hpa["status"] = {
        "desiredReplicas": 0,
        "conditions": [
            {"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric", "message": "no metrics"}
        ],
    }
    return broken(path, hpa)


@pytest.mark.parametrize(
    ("api", "failed", "sentence"),
    [
        (foreign_owner(), 0, "it belongs to monitoring/prometheus-adapter"),
        (broken("/apis/custom.metrics.k8s.io/v1beta1", 503), 1, "the adapter does not answer (503)"),
        (broken("/apis/custom.metrics.k8s.io/v1beta1", {"resources": []}), 1, f"not listed: pods/{METRIC}"),
        (broken("/api/v1/namespaces/default/pods", {"items": []}), 2, "0 Ready"),
        (broken(PODS, {"items": []}), 3, "no value for bert-1"),
        (broken(PODS, None), 3, "not found (404)"),
        (broken("/predict", "BookFlight"), 4, "200 BookFlight"),
        (broken("/predict", 503), 4, "503"),
        (inactive(), 5, "FailedGetPodsMetric: no metrics"),
    ],
)
def test_a_broken_link_is_named(api: dict[str, Any], failed: int, sentence: str) -> None:
    step = observe(api)[failed]
    assert not step.ok
    assert sentence in step.observed


@pytest.mark.parametrize(
    ("quantity", "text"), [("19600m", "19.6"), ("0", "0"), ("20", "20"), ("22959m", "22.96"), ("100", "100")]
)
def test_quantities_are_printed_as_decimals(quantity: str, text: str) -> None:
    assert decimal(quantity) == text


def test_the_answers_of_hey_are_counted_by_status() -> None:
    assert answers(HEY_SUMMARY) == {200: 9998, 503: 2}


def test_the_programs_outputs_are_what_the_checks_take() -> None:
    outputs = run_program(stack_config("rehearsal"), Recorder()).outputs
    # The engine hands whole numbers over as floats; its JSON has them whole.
    services = [
        {**service, "minReplicas": int(service["minReplicas"]), "maxReplicas": int(service["maxReplicas"])}
        for service in outputs["services"]
    ]
    [service] = StackOutputs.of("rehearsal", {**outputs, "services": services}).services
    assert Decimal(service.target) == 20


def test_a_stack_without_outputs_is_told_to_be_brought_up_first() -> None:
    with pytest.raises(OutputsError, match=r"Stack dev has no output clusterId .*: run `pulumi up` on it first"):
        StackOutputs.of("dev", {})
