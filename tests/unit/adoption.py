"""Live resources and a plan for the tests of `./ackgpu adopt`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from autoscaling.ack.versions import ADAPTER_NAME
from autoscaling.settings import Settings
from commands.account_query import Account
from commands.adopt.import_files import RELEASE
from commands.adopt.live_objects import LiveObjects, ServiceObjects
from commands.adopt.plan import Plan, Step
from live.helm_release import HelmRelease

DATA = Path(__file__).parents[1] / "data"
CHECKOUT = Path(__file__).parents[2]
GUIDE_RULES = yaml.safe_load((DATA / "seed_rules_default.yaml").read_text())
URL = "http://arms/api/v1/prometheus/a-token/1/c1/cn-hangzhou"
OWN_VSWITCHES = ["vsw-a", "vsw-b"]
RULE = {
    "seriesQuery": 'queue_length{namespace!="",pod!=""}',
    "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
    "metricsQuery": "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
}

UP_BY_DEFAULT = [
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
]
DOWN_BY_DEFAULT = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
"""See "Default Behavior" in kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale."""


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


def pool(
    *,
    limits: tuple[int, int] | None = (1, 10),
    disk: tuple[str, int] = ("cloud_essd", 120),
    labels: dict[str, str] | None = None,
    spot_limits: dict[str, str] | None = None,
    **changes: Any,
) -> Any:
    """A pool as the provider answers it."""
    low, high = limits or (0, 0)
    return SimpleNamespace(
        **{
            "node_pool_id": "np1",
            "node_pool_name": "gpu",
            "instance_types": ["ecs.gn6v-c8g1.2xlarge"],
            "vswitch_ids": OWN_VSWITCHES,
            "desired_size": "2",
            "scaling_config": SimpleNamespace(enable=limits is not None, min_size=low, max_size=high),
            "system_disk_category": disk[0],
            "system_disk_size": disk[1],
            "labels": [SimpleNamespace(key=key, value=value) for key, value in (labels or {}).items()],
            "taints": [],
            "key_name": "",
            "spot_strategy": "NoSpot",
            "spot_price_limits": [
                SimpleNamespace(instance_type=type_, price_limit=price) for type_, price in (spot_limits or {}).items()
            ],
            **changes,
        }
    )


def release(rules: Any = GUIDE_RULES, **changes: Any) -> HelmRelease:
    own = {"enabled": True, "url": URL, "logLevel": 5, "adapter": {"rules": {"default": False, "custom": rules}}}
    values = {"AlibabaCloudMetricsAdapter": {"prometheus": {**own, **changes.pop("prometheus", {})}}}
    values["AlibabaCloudMetricsAdapter"] |= changes.pop("values", {})
    known = {"chart": ADAPTER_NAME, "version": "1.3.2", "status": "deployed", "revision": 3, "manifest": ""}
    fields = {**known, "changed": datetime(2026, 1, 1, tzinfo=UTC), **changes}
    return HelmRelease(name=ADAPTER_NAME, namespace="kube-system", values=values, **fields)


def manifests(**changes: Any) -> ServiceObjects:
    """The guide's manifests for the service `bert`."""
    text = (DATA / "seed_manifests.yaml").read_text().replace("bert-intent-detection", "bert")
    deployment, service, hpa = yaml.safe_load_all(text)
    for manifest in (deployment, service, hpa):
        manifest["metadata"]["namespace"] = "default"
    return ServiceObjects(**{"deployment": deployment, "service": service, "autoscalers": [hpa], **changes})


def account(**changes: Any) -> Account:
    known = {"kubeconfig": "", "vswitch_ids": OWN_VSWITCHES, "prometheus": URL, "pools": [pool()]}
    return Account(**{**known, **changes})


def live_objects() -> LiveObjects:
    return LiveObjects([manifests()], release())


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
