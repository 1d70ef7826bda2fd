"""The program refuses a metrics API or a Deployment with another owner, and accepts the stack's own resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from pulumi import automation
from pulumi.automation import OpType

from rehearsal.alicloud.store import PROMETHEUS, CloudResource
from rehearsal.leftovers import cluster_leftovers
from tests.engine.conftest import Rehearsal

SERVICE = "bert-intent-detection"
OWNERS = {
    "v1beta1.custom.metrics.k8s.io": ("monitoring", "prometheus-adapter", "prometheus-adapter"),
    "v1beta1.external.metrics.k8s.io": ("keda", "keda-operator-metrics-apiserver", "keda"),
}


def registration(name: str) -> dict[str, Any]:
    version, _, group = name.partition(".")
    namespace, service, release = OWNERS[name]
    annotations = {"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": namespace}
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": namespace, "name": service},
    }
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def hpa(name: str) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": SERVICE}
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {"scaleTargetRef": target, "maxReplicas": 2, "metrics": [{"type": "Resource", "resource": resource}]}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
def other_owners(rehearsal: Rehearsal) -> Iterator[None]:
    registrations, autoscaling = client.ApiregistrationV1Api(rehearsal.api), client.AutoscalingV2Api(rehearsal.api)
    for name in OWNERS:
        registrations.create_api_service(registration(name))
    autoscaling.create_namespaced_horizontal_pod_autoscaler("default", hpa("bert-cpu"))
    yield
    autoscaling.delete_namespaced_horizontal_pod_autoscaler("bert-cpu", "default")
    for name in OWNERS:
        registrations.delete_api_service(name)


@pytest.fixture
def destroyed_afterwards(rehearsal: Rehearsal) -> Iterator[None]:
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


def resource_types(rehearsal: Rehearsal) -> list[str]:
    """Return the types of the stack's resources, except providers and components."""
    resources = (rehearsal.stack.export_stack().deployment or {}).get("resources", [])
    types = [resource["type"] for resource in resources]
    return [type_ for type_ in types if not type_.startswith(("pulumi:", "ackgpu:"))]


@pytest.mark.case("F1")
@pytest.mark.case("C5")
@pytest.mark.usefixtures("other_owners", "destroyed_afterwards")
def test_other_owners_stop_preview_and_up_and_nothing_is_created(rehearsal: Rehearsal) -> None:
    before = cluster_leftovers(rehearsal.layout)
    for operation in (rehearsal.stack.preview, rehearsal.up):
        with pytest.raises(automation.CommandError) as failure:
            operation()
        error = str(failure.value)
        for sentence in (
            "v1beta1.custom.metrics.k8s.io belongs to monitoring/prometheus-adapter (Helm release prometheus-adapter)",
            "v1beta1.external.metrics.k8s.io belongs to keda/keda-operator-metrics-apiserver (Helm release keda)",
            "the adapter of this stack, kube-system/ack-alibaba-cloud-metrics-adapter-custom-service",
            f"HorizontalPodAutoscaler default/bert-cpu scales Deployment default/{SERVICE}",
            "HPA default/gpu-hpa of this stack",
        ):
            assert sentence in error
        assert "Traceback" not in error
        assert resource_types(rehearsal) == []
        assert rehearsal.store.read().resources == {}
        assert cluster_leftovers(rehearsal.layout) == before


@pytest.mark.usefixtures("destroyed_afterwards")
def test_preview_refuses_an_unmanaged_prometheus_instance_unless_the_settings_use_it(
    rehearsal: Rehearsal,
) -> None:
    with rehearsal.store.transaction() as cloud:
        inputs = {"clusterType": "aliyun-cs", "clusterId": rehearsal.setting("cluster")["id"]}
        cloud.resources[inputs["clusterId"]] = CloudResource(type=PROMETHEUS, inputs=inputs, outputs={})
    with pytest.raises(automation.CommandError, match="that this stack does not manage"):
        rehearsal.stack.preview()
    rehearsal.edit(prometheus={"managedBy": "existing"})
    assert set(rehearsal.stack.preview().change_summary) == {OpType.CREATE}
    with rehearsal.store.transaction() as cloud:
        del cloud.resources[inputs["clusterId"]]


@pytest.mark.case("F1")
@pytest.mark.case("C5")
@pytest.mark.usefixtures("destroyed_afterwards")
def test_accepts_the_stacks_own_resources_even_after_an_hpa_rename(rehearsal: Rehearsal) -> None:
    rehearsal.up()
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}
    services = rehearsal.setting("services")
    services[0]["autoscaler"]["name"] = "renamed"
    rehearsal.edit(services=services)
    rehearsal.up()
    found = client.AutoscalingV2Api(rehearsal.api).list_namespaced_horizontal_pod_autoscaler("default")
    assert [hpa.metadata.name for hpa in found.items] == ["renamed"]
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}
