"""A service's pods on the real API server, and a disruption, a rollout and a change of address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kubernetes import client, watch
from pulumi import automation
from pulumi.automation import OpType

from autoscaling.ack.load_balancer import ADDRESS_TYPE
from live.verify import check_stack
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal

NAME = "bert-intent-detection"
TYPE = "ecs.gn6i-c4g1.xlarge"
"""One T4 on 4 vCPUs and 15 GiB."""


@pytest.fixture(scope="module", autouse=True)
def single_replica(rehearsal: Rehearsal) -> Iterator[None]:
    """A service with all pod settings, on at most two GPUs."""
    rehearsal.edit(gpuNodePool={"instanceTypes": [TYPE], "autoscaling": {"min": 1, "max": 2}})
    edit_service(
        rehearsal,
        autoscaler={"maxReplicas": 2},
        image="example.com/bert:1",
        healthPath="/health",
        startupTime="10s",
        drainTime="7s",
        cpu=1.5,
        memory="6Gi",
        args=["--model", "bert"],
        env={"VARIANT": "a"},
        envFrom=["hugging-face"],
    )
    rehearsal.up()
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()


def edit_service(rehearsal: Rehearsal, *, autoscaler: Mapping[str, Any] | None = None, **changes: Any) -> None:
    [service] = rehearsal.setting("services")
    rehearsal.edit(services=[{**service, "autoscaler": {**service["autoscaler"], **(autoscaler or {})}, **changes}])


def ready_pods(rehearsal: Rehearsal) -> list[client.V1Pod]:
    listed = client.CoreV1Api(rehearsal.api).list_namespaced_pod("default", label_selector=f"app={NAME}").items
    return [
        pod
        for pod in listed
        if pod.metadata.deletion_timestamp is None
        and any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or [])
    ]


def deployment_of(rehearsal: Rehearsal) -> client.V1Deployment:
    return client.AppsV1Api(rehearsal.api).read_namespaced_deployment(NAME, "default")


def service_of(rehearsal: Rehearsal) -> client.V1Service:
    return client.CoreV1Api(rehearsal.api).read_namespaced_service(f"{NAME}-svc", "default")


def disruptions_allowed(rehearsal: Rehearsal) -> int:
    """Return the number that the real disruption controller computed."""
    budget = client.PolicyV1Api(rehearsal.api).read_namespaced_pod_disruption_budget(NAME, "default")
    return int(budget.status.disruptions_allowed)


def evict(rehearsal: Rehearsal, pod: client.V1Pod) -> None:
    """Evict a pod as `kubectl drain` does."""
    metadata = client.V1ObjectMeta(name=pod.metadata.name, namespace="default")
    client.CoreV1Api(rehearsal.api).create_namespaced_pod_eviction(
        pod.metadata.name, "default", client.V1Eviction(metadata=metadata)
    )


def states_since(version: str, listing: Any) -> list[Any]:
    """Return each state of the objects since a version, from the API server's history."""
    stream = watch.Watch().stream(listing, "default", resource_version=version, timeout_seconds=1)
    return [event["object"] for event in stream]


def test_pods_match_the_settings(rehearsal: Rehearsal) -> None:
    [pod] = ready_pods(rehearsal)
    [container] = pod.spec.containers
    for probe in (container.startup_probe, container.readiness_probe, container.liveness_probe):
        assert (probe.http_get.path, probe.http_get.port) == ("/health", 80)
    assert container.startup_probe.period_seconds * container.startup_probe.failure_threshold == 1800
    # `_exec` is how the client writes `exec`.
    assert container.lifecycle.pre_stop._exec.command == ["sleep", "7"]
    assert pod.spec.termination_grace_period_seconds == 37
    assert container.resources.requests == {"cpu": "1500m", "memory": "6Gi", "nvidia.com/gpu": "1"}
    assert container.resources.limits == {"nvidia.com/gpu": "1"}
    assert container.args == ["--model", "bert"]
    assert [(variable.name, variable.value) for variable in container.env] == [("VARIANT", "a")]
    assert [source.secret_ref.name for source in container.env_from] == ["hugging-face"]
    assert pod.spec.automount_service_account_token is False
    assert not pod.spec.volumes, "no token of a service account"
    assert pod.spec.security_context.seccomp_profile.type == "RuntimeDefault"
    assert container.security_context.allow_privilege_escalation is False
    assert "NET_RAW" in container.security_context.capabilities.drop


def test_a_node_has_the_resources_of_its_instance_type(rehearsal: Rehearsal) -> None:
    [pod] = ready_pods(rehearsal)
    node = client.CoreV1Api(rehearsal.api).read_node(pod.spec.node_name)
    assert {name: node.status.allocatable[name] for name in ("cpu", "memory", "nvidia.com/gpu")} == {
        "cpu": "4",
        "memory": "15Gi",
        "nvidia.com/gpu": "1",
    }


def test_the_only_pod_of_a_service_can_be_evicted_and_keeps_its_grace_period(rehearsal: Rehearsal) -> None:
    [pod] = ready_pods(rehearsal)
    wait_until(lambda: disruptions_allowed(rehearsal) == 1, "the budget allows an eviction")
    evict(rehearsal, pod)
    wait_until(
        lambda: [ready.metadata.uid for ready in ready_pods(rehearsal)] not in ([], [pod.metadata.uid]),
        "another pod is Ready",
    )
    history = states_since(pod.metadata.resource_version, client.CoreV1Api(rehearsal.api).list_namespaced_pod)
    terminating = [
        state.metadata
        for state in history
        if state.metadata.uid == pod.metadata.uid and state.metadata.deletion_timestamp
    ]
    assert terminating[0].deletion_grace_period_seconds == 37


def test_only_one_of_two_pods_can_be_evicted_at_a_time(rehearsal: Rehearsal) -> None:
    client.AutoscalingV2Api(rehearsal.api).patch_namespaced_horizontal_pod_autoscaler(
        "gpu-hpa", "default", {"spec": {"minReplicas": 2}}
    )
    wait_until(lambda: len(ready_pods(rehearsal)) == 2, "two pods are Ready")
    wait_until(lambda: disruptions_allowed(rehearsal) == 1, "the budget allows an eviction")
    first, second = ready_pods(rehearsal)
    evict(rehearsal, first)
    with pytest.raises(client.ApiException) as refused:
        evict(rehearsal, second)
    assert refused.value.status == 429
    assert "disruption budget" in str(refused.value.body)
    wait_until(lambda: len(ready_pods(rehearsal)) == 2, "two pods are Ready again")


def test_a_rollout_completes_with_all_gpus_in_use_and_the_load_balancer_changes_its_type(
    rehearsal: Rehearsal,
) -> None:
    nodes = client.CoreV1Api(rehearsal.api).list_node(label_selector=f"node.kubernetes.io/instance-type={TYPE}").items
    assert len(nodes) == len(ready_pods(rehearsal)) == 2, "a GPU each"
    before, deployment = service_of(rehearsal), deployment_of(rehearsal)
    assert not before.metadata.annotations
    edit_service(rehearsal, image="example.com/bert:2", loadBalancer="intranet", autoscaler={"minReplicas": 2})
    operations: dict[str, set[OpType]] = {}

    def note(event: automation.EngineEvent) -> None:
        if event.resource_pre_event and event.resource_pre_event.metadata.op != OpType.SAME:
            metadata = event.resource_pre_event.metadata
            operations.setdefault(metadata.urn.rpartition("::")[2], set()).add(metadata.op)

    rehearsal.stack.preview(color="never", on_event=note)
    assert operations.pop(f"{NAME}-service") >= {OpType.REPLACE}, "the preview shows that the address changes"
    assert operations == {f"{NAME}-deployment": {OpType.UPDATE}, f"{NAME}-hpa": {OpType.UPDATE}}
    rehearsal.up()
    assert {pod.spec.containers[0].image for pod in ready_pods(rehearsal)} == {"example.com/bert:2"}
    states = states_since(
        deployment.metadata.resource_version, client.AppsV1Api(rehearsal.api).list_namespaced_deployment
    )
    assert {state.metadata.uid for state in states} == {deployment.metadata.uid}
    assert min(state.status.ready_replicas or 0 for state in states) == 1, "a pod is always Ready"
    after = service_of(rehearsal)
    assert after.metadata.annotations == {ADDRESS_TYPE: "intranet"}
    assert after.metadata.uid != before.metadata.uid
    [old], [new] = (service.status.load_balancer.ingress for service in (before, after))
    assert new.ip != old.ip
    assert int(new.ip.rpartition(".")[2]) >= 200, "an address of a simulated internal load balancer"
    assert not [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok]
