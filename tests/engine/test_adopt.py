"""Adopt the resources of the guide: they keep running, the stack manages them, and destroy keeps them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml
from kubernetes import client
from pulumi.automation import OpType
from pulumi.automation.events import EngineEvent

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE, CUSTOM_METRICS_PATH
from autoscaling.metrics.adapter_values import STACK, value_at
from live.helm_release import HelmRelease, latest, secret_selector
from live.verify import check_stack
from rehearsal.alicloud.store import NODE_POOL, PROMETHEUS
from rehearsal.environment import engine_variables
from rehearsal.layout import STACK as REHEARSAL
from tests.engine import guide_by_hand
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal
from tests.engine.engine_output import recorded_output
from tests.engine.secret_search import Secret
from tests.readme import section

SERVICE, HPA, NAMESPACE = "bert-intent-detection", "gpu-hpa", "default"
FOREIGN_METRIC = "team_mem_copy"
FOREIGN_RULE = {
    "seriesQuery": 'DCGM_FI_DEV_MEM_COPY_UTIL{NamespaceName!="",PodName!=""}',
    "resources": {"overrides": {"NamespaceName": {"resource": "namespace"}, "PodName": {"resource": "pod"}}},
    "name": {"matches": "^DCGM_FI_DEV_MEM_COPY_UTIL$", "as": FOREIGN_METRIC},
    "metricsQuery": "max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
}
FOREIGN_VALUES = {"replicas": 1, "ramRoleType": "restricted"}


@dataclass
class Snapshot:
    """The state that a user of the cluster sees."""

    identities: dict[str, str]
    """The UIDs, and the Service's addresses and node port."""
    release: HelmRelease
    foreign: dict[str, str]
    """Values of the foreign metric by pod."""


@dataclass
class Adoption:
    """The record of an adoption."""

    before: Snapshot
    report: str = ""
    """The output of `./ackgpu adopt`."""
    imported: str = ""
    preview: dict[str, str] = field(default_factory=dict)
    """The operation by resource type, for changed resources."""
    warnings: list[str] = field(default_factory=list)
    """The warnings of the preview."""
    activity: list[str] = field(default_factory=list)
    """The HPA's ScalingActive at each change of the HPA during `up`."""
    text: str = ""
    """The settings file after the adoption."""
    leaks: list[str] = field(default_factory=list)
    """Leaked secrets after the preview and after `up`."""


def identities(rehearsal: Rehearsal) -> dict[str, str]:
    core, apps = client.CoreV1Api(rehearsal.api), client.AppsV1Api(rehearsal.api)
    registrations = client.ApiregistrationV1Api(rehearsal.api)
    service = core.read_namespaced_service(f"{SERVICE}-svc", NAMESPACE)
    pods = core.list_namespaced_pod(NAMESPACE, label_selector=f"app={SERVICE}").items
    adapter = core.list_namespaced_pod(ADAPTER_NAMESPACE, label_selector=f"app={ADAPTER_NAME}").items
    hpa = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler(HPA, NAMESPACE)
    nodes = core.list_node(label_selector="alibabacloud.com/nodepool-id").items
    return {
        "Deployment": apps.read_namespaced_deployment(SERVICE, NAMESPACE).metadata.uid,
        "Service": service.metadata.uid,
        "Service's IP": service.spec.cluster_ip,
        "Service's address": service.status.load_balancer.ingress[0].ip,
        "Service's node port": service.spec.ports[0].node_port,
        "HPA": hpa.metadata.uid,
        **{f"APIService {name}": registrations.read_api_service(name).metadata.uid for name in REGISTRATIONS},
        **{f"pod {pod.metadata.name}": pod.metadata.uid for pod in [*pods, *adapter]},
        **{f"node {node.metadata.name}": node.metadata.uid for node in nodes},
    }


REGISTRATIONS = ("v1beta1.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io")


def release(rehearsal: Rehearsal) -> HelmRelease:
    path = f"/api/v1/namespaces/{ADAPTER_NAMESPACE}/secrets?labelSelector={secret_selector(ADAPTER_NAME)}"
    found = latest(get(rehearsal, path)["items"])
    assert found
    return found


def get(rehearsal: Rehearsal, path: str) -> Any:
    response = rehearsal.api.call_api(
        path, "GET", auth_settings=["BearerToken"], _preload_content=False, _return_http_data_only=True
    )
    return json.loads(response.data)


def foreign_values(rehearsal: Rehearsal) -> dict[str, str]:
    """Return the values of the foreign metric by pod, from the real adapter."""
    path = f"{CUSTOM_METRICS_PATH}/namespaces/{NAMESPACE}/pods/*/{FOREIGN_METRIC}"
    return {item["describedObject"]["name"]: item["value"] for item in get(rehearsal, path)["items"]}


def active(rehearsal: Rehearsal) -> bool:
    hpa = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler(HPA, NAMESPACE)
    return scaling_active(hpa) == "True" and bool(hpa.status.current_metrics)


def scaling_active(hpa: client.V2HorizontalPodAutoscaler) -> str:
    conditions = {condition.type: condition.status for condition in (hpa.status and hpa.status.conditions) or []}
    return str(conditions.get("ScalingActive"))


def snapshot(rehearsal: Rehearsal) -> Snapshot:
    return Snapshot(identities(rehearsal), release(rehearsal), foreign_values(rehearsal))


@contextlib.contextmanager
def scaling_active_watched(rehearsal: Rehearsal) -> Iterator[list[str]]:
    """Record the HPA's ScalingActive at each change."""
    statuses: list[str] = []
    ended = threading.Event()
    read = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler

    def follow() -> None:
        last = ""
        # The interval is shorter than the controller's sync period.
        while not ended.wait(0.1):
            hpa = read(HPA, NAMESPACE)
            if hpa.metadata.resource_version != last:
                statuses.append(scaling_active(hpa))
                last = hpa.metadata.resource_version

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        thread.join()


def shell(rehearsal: Rehearsal, line: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user who answers yes."""
    # A user's terminal lacks the variables of the `make` that runs the tests.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = {**inherited, **engine_variables(rehearsal.layout), "PULUMI_SKIP_CONFIRMATIONS": "true"}
    return subprocess.run(
        line, shell=True, cwd=rehearsal.layout.checkout, env=environment, capture_output=True, text=True, check=False
    )


def run(rehearsal: Rehearsal, line: str) -> str:
    result = shell(rehearsal, line)
    assert result.returncode == 0, f"$ {line}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def by_hand(rehearsal: Rehearsal) -> Iterator[None]:
    """The resources of the guide, with a rule and values of the user."""
    scaling = {"enable": True, "type": "gpu", "minSize": 1, "maxSize": 10}
    pool_id = guide_by_hand.node_pool(
        rehearsal,
        nodePoolName="gpu",
        instanceTypes=["ecs.gn6v-c8g1.2xlarge"],
        systemDiskCategory="cloud_efficiency",
        systemDiskSize=200,
        scalingConfig=scaling,
    )
    guide_by_hand.prometheus(rehearsal)
    prometheus = {
        "enabled": True,
        "url": rehearsal.layout.prometheus_api_url.read_text(),
        "logLevel": 5,
        "metricsRelistInterval": "5s",
        "adapter": {"rules": {"default": False, "custom": [*guide_by_hand.GUIDE_RULES, FOREIGN_RULE]}},
    }
    helm = guide_by_hand.helm_install(
        rehearsal, {"AlibabaCloudMetricsAdapter": {**FOREIGN_VALUES, "prometheus": prometheus}}
    )
    for manifest in guide_by_hand.manifests():
        if manifest["kind"] == "Service":
            # An unprivileged user cannot listen on port 80.
            manifest["spec"]["ports"][0]["port"] = 8080
        guide_by_hand.create(rehearsal, manifest)
    wait_until(lambda: active(rehearsal), "the HPA reads its metric", seconds=90)
    wait_until(lambda: foreign_values(rehearsal), "the user's metric has a value", seconds=60)
    yield
    rehearsal.stack.destroy(color="never")
    rehearsal.reset()
    client.AutoscalingV2Api(rehearsal.api).delete_namespaced_horizontal_pod_autoscaler(HPA, NAMESPACE)
    client.CoreV1Api(rehearsal.api).delete_namespaced_service(f"{SERVICE}-svc", NAMESPACE)
    client.AppsV1Api(rehearsal.api).delete_namespaced_deployment(SERVICE, NAMESPACE)
    helm.destroy(color="never", remove=True)
    with rehearsal.store.transaction() as cloud:
        del cloud.resources[pool_id], cloud.resources[pool_id.partition(":")[0]]


@pytest.fixture(scope="module")
def adopted(rehearsal: Rehearsal, by_hand: None) -> Adoption:
    """Run the commands of docs/adopting.md, which `./ackgpu adopt` also prints."""
    adoption = Adoption(snapshot(rehearsal))
    adoption.report = run(rehearsal, f"./ackgpu adopt --stack {REHEARSAL}")
    assert identities(rehearsal) == adoption.before.identities
    commands = [
        line.strip() for line in adoption.report.partition("\nNext:\n")[2].splitlines() if line.startswith("  ")
    ]
    adopt, *then = section("docs/adopting.md", "Find and import")
    assert adopt.line == "./ackgpu adopt --stack dev"
    assert adopt.matches(adoption.report)
    assert [command.line.replace("dev", REHEARSAL) for command in then] == commands
    *imports, take_settings, preview, up = commands
    assert [line.split()[1] for line in imports] == ["import", "import"]
    adoption.imported = "".join(run(rehearsal, line) for line in imports)
    run(rehearsal, take_settings)
    adoption.text = rehearsal.stack_file.read_text()
    assert preview == f"pulumi preview --stack {REHEARSAL}"
    with recorded_output() as output:
        rehearsal.stack.preview(color="never", on_event=lambda event: _record(adoption, event))
    adoption.leaks = output.leaks(rehearsal.layout)
    assert up == f"pulumi up --stack {REHEARSAL}"
    with scaling_active_watched(rehearsal) as adoption.activity, recorded_output() as output:
        rehearsal.up()
    adoption.leaks += output.leaks(rehearsal.layout)
    return adoption


def _record(adoption: Adoption, event: EngineEvent) -> None:
    if event.resource_pre_event:
        step = event.resource_pre_event.metadata
        if step.op != OpType.SAME:
            adoption.preview[step.type] = str(step.op.value)
    if event.diagnostic_event and event.diagnostic_event.severity == "warning":
        adoption.warnings.append(event.diagnostic_event.message)


def test_adopt_finds_nothing_and_writes_nothing_on_an_empty_account(rehearsal: Rehearsal) -> None:
    other = guide_by_hand.node_pool(rehearsal, nodePoolName="cards", instanceTypes=["ecs.gn6v-c8g1.2xlarge"])
    result = shell(rehearsal, f"./ackgpu adopt --stack {REHEARSAL}")
    with rehearsal.store.transaction() as cloud:
        del cloud.resources[other]
    assert result.returncode != 0
    assert (
        "missing  node pool gpu: the cluster has cards (ecs.gn6v-c8g1.2xlarge); set gpuNodePool.name" in result.stdout
    )
    assert "Found no resources with the names in the settings" in result.stderr
    assert "Traceback" not in result.stderr
    assert f"missing  Deployment {NAMESPACE}/{SERVICE}" in result.stdout
    assert not (rehearsal.layout.checkout / "build" / "adopt").exists()


@pytest.mark.usefixtures("adopted")
def test_adopt_finds_every_resource(adopted: Adoption) -> None:
    found = [line for line in adopted.report.splitlines() if line.startswith(("found", "missing"))]
    assert found == [
        "found    node pool gpu (np0123456789abcdef0123456789abcdef)",
        "found    Prometheus instance of the cluster: used, not imported",
        f"found    release {ADAPTER_NAMESPACE}/{ADAPTER_NAME}, chart 1.3.2, revision 1",
        f"found    Deployment {NAMESPACE}/{SERVICE}",
        f"found    Service {NAMESPACE}/{SERVICE}-svc",
        f"found    HPA {NAMESPACE}/{HPA}",
    ]


def test_the_settings_keep_live_values_and_the_users_comments(rehearsal: Rehearsal, adopted: Adoption) -> None:
    settings = yaml.safe_load(adopted.text)["config"]
    assert settings["ackgpu:gpuNodePool"]["systemDisk"] == {"category": "cloud_efficiency", "sizeGiB": 200}
    assert settings["ackgpu:gpuNodePool"]["adopted"] is True
    assert settings["ackgpu:prometheus"]["managedBy"] == "existing"
    assert settings["ackgpu:metricsAdapter"]["rules"] == "seed"
    assert settings["ackgpu:metricsAdapter"]["extraRules"] == [FOREIGN_RULE]
    assert settings["ackgpu:metricsAdapter"]["values"] == {"AlibabaCloudMetricsAdapter": FOREIGN_VALUES}
    assert settings["ackgpu:services"][0]["adopted"] is True
    # The guide's HPA has no behavior.
    assert settings["ackgpu:services"][0]["autoscaler"]["scaleDown"] == {"stabilizationWindowSeconds": 300}
    for comment in ("# Same name and values as the vendor's chart", "# 300 on a real cluster"):
        assert comment in adopted.text


def test_adopt_lists_the_changes_that_up_would_make(adopted: Adoption) -> None:
    changes = adopted.report.partition("\nWhat `pulumi up` would change:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.partition(" would ")[0] for line in changes] == [
        f"PodDisruptionBudget {NAMESPACE}/{SERVICE}",
        f"Deployment {NAMESPACE}/{SERVICE}",
        f"HPA {NAMESPACE}/{HPA} has no `behavior` and",
        f"HPA {NAMESPACE}/{HPA}",
    ]
    assert "spec.strategy.rollingUpdate.maxSurge (25% -> 0)" in changes[1]
    assert changes[3].endswith(" would change spec.metrics[0].pods.target.type (Utilization -> AverageValue).")
    assert adopted.warnings == []


def test_the_preview_after_the_import_updates_in_place_and_creates_only_the_disruption_budget(
    adopted: Adoption,
) -> None:
    new = {"kubernetes:policy/v1:PodDisruptionBudget"}
    assert {type_ for type_, op in adopted.preview.items() if op != "update"} == new
    assert {type_ for type_, op in adopted.preview.items() if op == "update"} == {
        NODE_POOL,
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:apps/v1:Deployment",
        "kubernetes:core/v1:Service",
        "kubernetes:autoscaling/v2:HorizontalPodAutoscaler",
    }


def test_adoption_does_not_interrupt_users(rehearsal: Rehearsal, adopted: Adoption) -> None:
    now = snapshot(rehearsal)
    assert now.identities == adopted.before.identities
    assert now.foreign.keys() == adopted.before.foreign.keys()
    assert len(adopted.activity) >= 2
    assert set(adopted.activity) == {"True"}


def test_the_release_names_its_stack_and_is_otherwise_unchanged(rehearsal: Rehearsal, adopted: Adoption) -> None:
    now = release(rehearsal)
    assert (now.version, now.revision, now.status) == (adopted.before.release.version, 2, "deployed")
    assert value_at(now.values, STACK) == f"ackgpu/{REHEARSAL}"
    assert now.values["AlibabaCloudMetricsAdapter"] == adopted.before.release.values["AlibabaCloudMetricsAdapter"]
    assert now.manifest == adopted.before.release.manifest


def test_up_corrects_the_type_of_the_hpas_target(rehearsal: Rehearsal, adopted: Adoption) -> None:
    hpa = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler(HPA, NAMESPACE)
    [metric] = hpa.spec.metrics
    assert (metric.pods.target.type, metric.pods.target.average_value) == ("AverageValue", "20")


def test_a_preview_is_empty_and_every_check_passes(rehearsal: Rehearsal, adopted: Adoption) -> None:
    assert set(rehearsal.stack.preview(color="never").change_summary) == {OpType.SAME}
    failed = [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok]
    assert failed == []
    assert f"pods/{FOREIGN_METRIC}" in {
        resource["name"] for resource in get(rehearsal, CUSTOM_METRICS_PATH)["resources"]
    }


def test_no_secret_leaks(rehearsal: Rehearsal, adopted: Adoption) -> None:
    secrets = [
        Secret.of_kubeconfig(rehearsal.layout.kubeconfig.read_text()),
        Secret.of_prometheus_address(rehearsal.layout.prometheus_api_url.read_text()),
    ]
    printed = f"{adopted.report}{adopted.imported}".encode()
    assert [secret.name for secret in secrets if secret.is_in(printed)] == []
    assert adopted.leaks == []
    for name in ("components.json", "resources.json"):
        path = rehearsal.layout.checkout / "build" / "adopt" / REHEARSAL / name
        assert path.stat().st_mode & 0o077 == 0


def test_a_second_adopt_finds_everything_in_the_stack(rehearsal: Rehearsal, adopted: Adoption) -> None:
    again = run(rehearsal, f"./ackgpu adopt --stack {REHEARSAL}")
    assert "Nothing to adopt: the stack already has every live resource." in again
    assert again.count("in stack ") == 5
    assert rehearsal.stack_file.read_text() == adopted.text
    assert not (rehearsal.layout.checkout / "build" / "adopt" / REHEARSAL).exists()


def test_destroy_keeps_adopted_resources_running_and_deletes_the_others(
    rehearsal: Rehearsal, adopted: Adoption
) -> None:
    outputs = rehearsal.outputs()
    with scaling_active_watched(rehearsal) as activity:
        rehearsal.stack.destroy(color="never")
    assert set(activity) == {"True"}
    assert [step for step in check_stack(outputs, rehearsal.client) if not step.ok] == []
    assert snapshot(rehearsal).identities == adopted.before.identities
    assert foreign_values(rehearsal).keys() == adopted.before.foreign.keys()
    assert (rehearsal.stack.export_stack().deployment or {}).get("resources", []) == []
    budgets = client.PolicyV1Api(rehearsal.api).list_namespaced_pod_disruption_budget(NAMESPACE).items
    assert [budget.metadata.name for budget in budgets] == []
    assert {resource.type for resource in rehearsal.store.read().resources.values()} == {NODE_POOL, PROMETHEUS}
