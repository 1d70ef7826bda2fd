"""Compare `autoscaling.hpa.controller` with the HPA controller of a real control plane.

The comparison includes the defaults that the API server sets. The metrics (`custom_metrics`), the pods' status and the
scale targets are simulated. No controller acts on a target's replicas.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes import client, config, watch

from autoscaling.hpa.controller import Limit
from autoscaling.hpa.replica_count import Pod
from rehearsal.control_plane.start import start_control_plane
from rehearsal.layout import CHECKOUT, Layout
from rehearsal.processes import Processes, end_stray_processes
from rehearsal.supervisor import prepare_folders
from tests.engine import custom_metrics
from tests.engine.command import wait_until
from tests.engine.custom_metrics import NAMESPACE, Table
from tests.engine.hpa_situations import Generator, Situation, specification

SITUATIONS = 240
SEED = 20260801
SYNC_SECONDS = 2
GROUP, VERSION, PLURAL = "ackgpu.test", "v1", "workloads"

# With the default request limits, the syncs of so many HPAs would be 15 seconds apart.
FLAGS = (
    f"--horizontal-pod-autoscaler-sync-period={SYNC_SECONDS}s",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
)


@pytest.fixture(scope="module")
def layout(tools: Path) -> Iterator[Layout]:
    """A control plane without the rest of the cloud."""
    layout = Layout(CHECKOUT / "build" / "engine" / "control plane")
    end_stray_processes(layout)
    prepare_folders(layout)
    with Processes(layout) as processes:
        start_control_plane(layout, tools, processes, FLAGS)
        yield layout


@pytest.fixture(scope="module")
def api(layout: Layout) -> client.ApiClient:
    return config.new_client_from_config(str(layout.kubeconfig))


def test_replicas_match_the_real_controller_in_generated_situations(layout: Layout, api: client.ApiClient) -> None:
    generator = Generator(SEED)
    situations = {f"s{number}": generator.for_a_cluster(SYNC_SECONDS) for number in range(SITUATIONS)}
    table = Table(
        {name: [sync.samples for sync in situation.syncs if sync.samples] for name, situation in situations.items()}
    )
    with custom_metrics.serving(table, layout.address) as authority, ThreadPoolExecutor(8) as threads:
        custom_metrics.register(api, layout.address, authority)
        _define_workloads(api)
        list(threads.map(lambda item: _create_workload(api, *item), situations.items()))
        history = _ReplicaHistory(api)
        first, *others = situations.items()
        # The controller discovers the two new APIs after a delay.
        _create_hpa(api, *first)
        wait_until(lambda: table.requests[first[0]].times, "the controller reads a metric", seconds=60)
        list(threads.map(lambda item: _create_hpa(api, *item), others))
        wait_until(
            lambda: all(requests.finished for requests in table.requests.values()),
            "all HPAs have read all answers",
            seconds=300,
        )
        differing, ambiguous = [], 0
        for name, situation in situations.items():
            expected = _expected(situation, table.requests[name].answered)
            ambiguous += len(expected) > 1
            observed = history.changes(name), _limit(api, name)
            if observed not in expected:
                differing.append(f"{name}: {situation}\nours: {expected}\nreal: {observed}")
    syncs = sum(len(requests.answers) for requests in table.requests.values())
    print(
        f"\n{len(situations)} situations with {syncs} syncs of the real controller were compared, "
        f"and {len(differing)} differed; in {ambiguous}, a sync was so close to the end of a window that both are right"
    )
    assert not differing, differing[0]


Outcome = tuple[list[int], Limit | None]
"""The replica counts in order, and the limit on the last count that came from a metric."""


def _expected(situation: Situation, times: list[float]) -> list[Outcome]:
    """Return the outcomes for syncs at these times, and for intervals 1% shorter or longer.

    The controller records the time of a sync slightly after it reads the metrics.
    """
    outcomes: list[Outcome] = []
    if not situation.starts_within_limits:
        times = [times[0] - SYNC_SECONDS, *times]
    for pace in (1.0, 0.99, 1.01):
        replicas, limit = [situation.replicas], None
        for _, decision in situation.decisions([time * pace for time in times]):
            if decision.replicas != replicas[-1]:
                replicas.append(decision.replicas)
            if decision.scaling_active and decision.usages:
                limit = decision.limited_by
        if (replicas, limit) not in outcomes:
            outcomes.append((replicas, limit))
    return outcomes


class _ReplicaHistory:
    """The replica counts of each workload since its creation, recorded by a watch."""

    def __init__(self, api: client.ApiClient) -> None:
        self._objects = client.CustomObjectsApi(api)
        self._replicas: dict[str, list[int]] = defaultdict(list)
        self._resource = {"group": GROUP, "version": VERSION, "namespace": NAMESPACE, "plural": PLURAL}
        threading.Thread(target=self._run, daemon=True).start()
        wait_until(lambda: self._replicas, "the watch begins")

    def _run(self) -> None:
        # Stopping the API server ends the watch.
        with contextlib.suppress(client.ApiException, urllib3.exceptions.HTTPError):
            for event in watch.Watch(return_type="object").stream(
                self._objects.list_namespaced_custom_object, **self._resource
            ):
                workload = event["object"]
                self._replicas[workload["metadata"]["name"]].append(workload["spec"]["replicas"])

    def changes(self, name: str) -> list[int]:
        """Return all replica counts of the workload so far."""
        newest = self._objects.get_namespaced_custom_object(**self._resource, name=name)["spec"]["replicas"]
        wait_until(lambda: self._replicas[name][-1:] == [newest], f"the watch has seen {newest} replicas of {name}")
        return self._replicas[name]


def _define_workloads(api: client.ApiClient) -> None:
    """Define a kind of scale target that no controller acts on."""
    client.ApiextensionsV1Api(api).create_custom_resource_definition(
        {
            "metadata": {"name": f"{PLURAL}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"kind": "Workload", "plural": PLURAL},
                "versions": [
                    {
                        "name": VERSION,
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                        "subresources": {
                            "scale": {
                                "specReplicasPath": ".spec.replicas",
                                "statusReplicasPath": ".status.replicas",
                                "labelSelectorPath": ".status.selector",
                            }
                        },
                    }
                ],
            },
        }
    )
    wait_until(_succeeds(lambda: _list_workloads(api)), "workloads can be created")
    account = _succeeds(lambda: client.CoreV1Api(api).read_namespaced_service_account("default", NAMESPACE))
    wait_until(account, "pods can be created")


def _list_workloads(api: client.ApiClient) -> object:
    return client.CustomObjectsApi(api).list_namespaced_custom_object(GROUP, VERSION, NAMESPACE, PLURAL)


def _succeeds(call: Callable[[], object]) -> Callable[[], bool]:
    def succeeds() -> bool:
        try:
            call()
        except client.ApiException as error:
            assert error.status == 404, error
            return False
        return True

    return succeeds


def _create_workload(api: client.ApiClient, name: str, situation: Situation) -> None:
    for pod in situation.syncs[0].pods:
        _create_pod(api, name, pod)
    client.CustomObjectsApi(api).create_namespaced_custom_object(
        GROUP,
        VERSION,
        NAMESPACE,
        PLURAL,
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Workload",
            "metadata": {"name": name},
            "spec": {"replicas": situation.replicas},
            "status": {"replicas": situation.replicas, "selector": f"app={name}"},
        },
    )


def _create_pod(api: client.ApiClient, app: str, pod: Pod) -> None:
    core, name = client.CoreV1Api(api), f"{app}-{pod.name}"
    core.create_namespaced_pod(
        NAMESPACE,
        {
            # A finalizer keeps a terminating pod.
            "metadata": {"name": name, "labels": {"app": app}, "finalizers": ["ackgpu.test/keep"]},
            # Neither a scheduler nor a kubelet acts on the pod.
            "spec": {"schedulerName": "nobody", "containers": [{"name": "server", "image": "none"}]},
        },
    )
    core.patch_namespaced_pod_status(name, NAMESPACE, {"status": {"phase": pod.phase}})
    if pod.terminating:
        core.delete_namespaced_pod(name, NAMESPACE)


def _create_hpa(api: client.ApiClient, name: str, situation: Situation) -> None:
    target = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Workload", "name": name}
    metrics = [custom_metrics.metric_name(name, number) for number, _ in enumerate(situation.autoscaler.targets)]
    client.AutoscalingV2Api(api).create_namespaced_horizontal_pod_autoscaler(
        NAMESPACE, {"metadata": {"name": name}, "spec": specification(situation.autoscaler, target, metrics)}
    )


def _limit(api: client.ApiClient, name: str) -> Any:
    hpa = client.AutoscalingV2Api(api).read_namespaced_horizontal_pod_autoscaler(name, NAMESPACE)
    reasons = {condition.type: condition.reason for condition in hpa.status.conditions}
    limit = reasons.get("ScalingLimited", "DesiredWithinRange")
    return None if limit == "DesiredWithinRange" else limit
