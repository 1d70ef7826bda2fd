"""The guide followed by hand, then adopted: nobody notices, everything is the stack's, and destroy leaves it there."""

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
from tests.engine import guide_by_hand, shown
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal
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
class Seen:
    """What a user of the cluster sees."""

    identities: dict[str, str]
    """UIDs, and the Service's two addresses."""
    release: HelmRelease
    foreign: dict[str, str]
    """Values of the foreign metric by pod."""


@dataclass
class Adoption:
    """What happened from the guide to the stack that has it."""

    before: Seen
    told: str = ""
    """What `./ackgpu adopt` printed."""
    imported: str = ""
    preview: dict[str, str] = field(default_factory=dict)
    """Operation by type of resource, for what is not the same."""
    warnings: list[str] = field(default_factory=list)
    """What that preview warned of."""
    activity: list[str] = field(default_factory=list)
    """The HPA's ScalingActive, at each change of the HPA during `up`."""
    text: str = ""
    """The stack's file afterwards."""
    in_the_open: list[str] = field(default_factory=list)
    """Secrets that can be read, after the import and after `up`."""


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
        **{f"APIService {one}": registrations.read_api_service(one).metadata.uid for one in REGISTRATIONS},
        **{f"pod {one.metadata.name}": one.metadata.uid for one in [*pods, *adapter]},
        **{f"node {one.metadata.name}": one.metadata.uid for one in nodes},
    }


REGISTRATIONS = ("v1beta1.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io")


def release(rehearsal: Rehearsal) -> HelmRelease:
    path = f"/api/v1/namespaces/{ADAPTER_NAMESPACE}/secrets?labelSelector={secret_selector(ADAPTER_NAME)}"
    found = latest(get(rehearsal, path)["items"])
    assert found
    return found


def get(rehearsal: Rehearsal, path: str) -> Any:
    answer = rehearsal.api.call_api(
        path, "GET", auth_settings=["BearerToken"], _preload_content=False, _return_http_data_only=True
    )
    return json.loads(answer.data)


def foreign_values(rehearsal: Rehearsal) -> dict[str, str]:
    """Of the foreign metric, as the real adapter serves it."""
    path = f"{CUSTOM_METRICS_PATH}/namespaces/{NAMESPACE}/pods/*/{FOREIGN_METRIC}"
    return {one["describedObject"]["name"]: one["value"] for one in get(rehearsal, path)["items"]}


def active(rehearsal: Rehearsal) -> bool:
    hpa = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler(HPA, NAMESPACE)
    return scaling_active(hpa) == "True" and bool(hpa.status.current_metrics)


def scaling_active(hpa: client.V2HorizontalPodAutoscaler) -> str:
    conditions = {one.type: one.status for one in (hpa.status and hpa.status.conditions) or []}
    return str(conditions.get("ScalingActive"))


def seen(rehearsal: Rehearsal) -> Seen:
    return Seen(identities(rehearsal), release(rehearsal), foreign_values(rehearsal))


@contextlib.contextmanager
def watched(rehearsal: Rehearsal) -> Iterator[list[str]]:
    """The HPA's ScalingActive at each change."""
    noted: list[str] = []
    ended = threading.Event()
    read = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler

    def follow() -> None:
        last = ""
        # Each sync of the controller is longer.
        while not ended.wait(0.1):
            hpa = read(HPA, NAMESPACE)
            if hpa.metadata.resource_version != last:
                noted.append(scaling_active(hpa))
                last = hpa.metadata.resource_version

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield noted
    finally:
        ended.set()
        thread.join()


def shell(rehearsal: Rehearsal, line: str) -> subprocess.CompletedProcess[str]:
    """A command as a user types it, who says yes."""
    # What a `make` around the tests hands down is not the user's.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = {**own, **engine_variables(rehearsal.layout), "PULUMI_SKIP_CONFIRMATIONS": "true"}
    return subprocess.run(
        line, shell=True, cwd=rehearsal.layout.checkout, env=environment, capture_output=True, text=True, check=False
    )


def run(rehearsal: Rehearsal, line: str) -> str:
    result = shell(rehearsal, line)
    assert result.returncode == 0, f"$ {line}\n{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def by_hand(rehearsal: Rehearsal) -> Iterator[None]:
    """The guide, followed by hand, with a rule and values of the user's own."""
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
        "adapter": {"rules": {"default": False, "custom": [*guide_by_hand.GUIDES_RULES, FOREIGN_RULE]}},
    }
    helm = guide_by_hand.helm_install(
        rehearsal, {"AlibabaCloudMetricsAdapter": {**FOREIGN_VALUES, "prometheus": prometheus}}
    )
    for manifest in guide_by_hand.manifests():
        if manifest["kind"] == "Service":
            # An ordinary user can't listen on 80.
            manifest["spec"]["ports"][0]["port"] = 8080
        guide_by_hand.create(rehearsal, manifest)
    wait_until(lambda: active(rehearsal), "the HPA reads its metric", seconds=90)
    wait_until(lambda: foreign_values(rehearsal), "the user's own metric has a value", seconds=60)
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
    """Run the commands of docs/adopting.md, which `./ackgpu adopt` prints too."""
    adoption = Adoption(seen(rehearsal))
    adoption.told = run(rehearsal, f"./ackgpu adopt --stack {REHEARSAL}")
    assert identities(rehearsal) == adoption.before.identities
    commands = [line.strip() for line in adoption.told.partition("\nNext:\n")[2].splitlines() if line.startswith("  ")]
    adopt, *then = section("docs/adopting.md", "Find and import")
    assert adopt.line == "./ackgpu adopt --stack dev"
    assert adopt.keeps(adoption.told)
    assert [one.line.replace("dev", REHEARSAL) for one in then] == commands
    *imports, take_settings, preview, up = commands
    assert [line.split()[1] for line in imports] == ["import", "import"]
    adoption.imported = "".join(run(rehearsal, line) for line in imports)
    run(rehearsal, take_settings)
    adoption.text = rehearsal.stack_file.read_text()
    assert preview == f"pulumi preview --stack {REHEARSAL}"
    with shown.recorded() as printed:
        rehearsal.stack.preview(color="never", on_event=lambda event: _note(adoption, event))
    adoption.in_the_open = printed.in_the_open(rehearsal.layout)
    assert up == f"pulumi up --stack {REHEARSAL}"
    with watched(rehearsal) as adoption.activity, shown.recorded() as printed:
        rehearsal.up()
    adoption.in_the_open += printed.in_the_open(rehearsal.layout)
    return adoption


def _note(adoption: Adoption, event: EngineEvent) -> None:
    if event.resource_pre_event:
        step = event.resource_pre_event.metadata
        if step.op != OpType.SAME:
            adoption.preview[step.type] = str(step.op.value)
    if event.diagnostic_event and event.diagnostic_event.severity == "warning":
        adoption.warnings.append(event.diagnostic_event.message)


def test_on_an_empty_account_there_is_nothing_to_adopt_and_nothing_is_written(rehearsal: Rehearsal) -> None:
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
def test_each_thing_is_found(adopted: Adoption) -> None:
    found = [line for line in adopted.told.splitlines() if line.startswith(("found", "missing"))]
    assert found == [
        "found    node pool gpu (np0123456789abcdef0123456789abcdef)",
        "found    Prometheus instance of the cluster: used, not imported",
        f"found    release {ADAPTER_NAMESPACE}/{ADAPTER_NAME}, chart 1.3.2, revision 1",
        f"found    Deployment {NAMESPACE}/{SERVICE}",
        f"found    Service {NAMESPACE}/{SERVICE}-svc",
        f"found    HPA {NAMESPACE}/{HPA}",
    ]


def test_the_settings_keep_what_is_live_and_the_users_comments(rehearsal: Rehearsal, adopted: Adoption) -> None:
    ours = yaml.safe_load(adopted.text)["config"]
    assert ours["ackgpu:gpuNodePool"]["systemDisk"] == {"category": "cloud_efficiency", "sizeGiB": 200}
    assert ours["ackgpu:gpuNodePool"]["adopted"] is True
    assert ours["ackgpu:prometheus"]["managedBy"] == "existing"
    assert ours["ackgpu:metricsAdapter"]["rules"] == "seed"
    assert ours["ackgpu:metricsAdapter"]["extraRules"] == [FOREIGN_RULE]
    assert ours["ackgpu:metricsAdapter"]["values"] == {"AlibabaCloudMetricsAdapter": FOREIGN_VALUES}
    assert ours["ackgpu:services"][0]["adopted"] is True
    # The guide's HPA has no behavior.
    assert ours["ackgpu:services"][0]["autoscaler"]["scaleDown"] == {"stabilizationWindowSeconds": 300}
    for comment in ("# Same name and values as the vendor's chart", "# 300 on a real cluster"):
        assert comment in adopted.text


def test_what_up_would_change_is_told(adopted: Adoption) -> None:
    told = adopted.told.partition("\nWhat `pulumi up` would change:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.partition(" would ")[0] for line in told] == [
        f"PodDisruptionBudget {NAMESPACE}/{SERVICE}",
        f"Deployment {NAMESPACE}/{SERVICE}",
        f"HPA {NAMESPACE}/{HPA} has no behavior and",
        f"HPA {NAMESPACE}/{HPA}",
    ]
    assert "spec.strategy.rollingUpdate.maxSurge (25% -> 0)" in told[1]
    assert told[3].endswith(" would change spec.metrics[0].pods.target.type (Utilization -> AverageValue).")
    assert adopted.warnings == []


def test_the_preview_after_the_import_has_in_place_updates_and_what_is_new(adopted: Adoption) -> None:
    new = {"kubernetes:policy/v1:PodDisruptionBudget"}
    assert {type_ for type_, op in adopted.preview.items() if op != "update"} == new
    assert {type_ for type_, op in adopted.preview.items() if op == "update"} == {
        NODE_POOL,
        "kubernetes:helm.sh/v3:Release",
        "kubernetes:apps/v1:Deployment",
        "kubernetes:core/v1:Service",
        "kubernetes:autoscaling/v2:HorizontalPodAutoscaler",
    }


def test_nobody_notices(rehearsal: Rehearsal, adopted: Adoption) -> None:
    now = seen(rehearsal)
    assert now.identities == adopted.before.identities
    assert now.foreign.keys() == adopted.before.foreign.keys()
    assert len(adopted.activity) >= 2
    assert set(adopted.activity) == {"True"}


def test_the_release_says_who_has_it_and_nothing_else_of_it_changed(rehearsal: Rehearsal, adopted: Adoption) -> None:
    now = release(rehearsal)
    assert (now.version, now.revision, now.status) == (adopted.before.release.version, 2, "deployed")
    assert value_at(now.values, STACK) == f"ackgpu/{REHEARSAL}"
    assert now.values["AlibabaCloudMetricsAdapter"] == adopted.before.release.values["AlibabaCloudMetricsAdapter"]
    assert now.manifest == adopted.before.release.manifest


def test_the_hpa_has_a_target_that_means_something(rehearsal: Rehearsal, adopted: Adoption) -> None:
    hpa = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler(HPA, NAMESPACE)
    [metric] = hpa.spec.metrics
    assert (metric.pods.target.type, metric.pods.target.average_value) == ("AverageValue", "20")


def test_the_stack_is_at_rest_and_each_check_holds(rehearsal: Rehearsal, adopted: Adoption) -> None:
    assert set(rehearsal.stack.preview(color="never").change_summary) == {OpType.SAME}
    failed = [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok]
    assert failed == []
    assert f"pods/{FOREIGN_METRIC}" in {one["name"] for one in get(rehearsal, CUSTOM_METRICS_PATH)["resources"]}


def test_no_secret_is_in_the_open(rehearsal: Rehearsal, adopted: Adoption) -> None:
    secrets = [
        Secret.of_kubeconfig(rehearsal.layout.kubeconfig.read_text()),
        Secret.of_prometheus_address(rehearsal.layout.prometheus_api_url.read_text()),
    ]
    printed = f"{adopted.told}{adopted.imported}".encode()
    assert [one.name for one in secrets if one.is_in(printed)] == []
    assert adopted.in_the_open == []
    for name in ("components.json", "resources.json"):
        path = rehearsal.layout.checkout / "build" / "adopt" / REHEARSAL / name
        assert path.stat().st_mode & 0o077 == 0


def test_a_second_time_all_is_in_the_stack_already(rehearsal: Rehearsal, adopted: Adoption) -> None:
    again = run(rehearsal, f"./ackgpu adopt --stack {REHEARSAL}")
    assert "Nothing to adopt: the stack already has every live resource." in again
    assert again.count("in stack ") == 5
    assert rehearsal.stack_file.read_text() == adopted.text
    assert not (rehearsal.layout.checkout / "build" / "adopt" / REHEARSAL).exists()


def test_destroy_leaves_all_that_was_adopted_at_work_and_nothing_of_ours(
    rehearsal: Rehearsal, adopted: Adoption
) -> None:
    outputs = rehearsal.outputs()
    with watched(rehearsal) as activity:
        rehearsal.stack.destroy(color="never")
    assert set(activity) == {"True"}
    assert [step for step in check_stack(outputs, rehearsal.client) if not step.ok] == []
    assert seen(rehearsal).identities == adopted.before.identities
    assert foreign_values(rehearsal).keys() == adopted.before.foreign.keys()
    assert (rehearsal.stack.export_stack().deployment or {}).get("resources", []) == []
    budgets = client.PolicyV1Api(rehearsal.api).list_namespaced_pod_disruption_budget(NAMESPACE).items
    assert [one.metadata.name for one in budgets] == []
    assert {one.type for one in rehearsal.store.read().resources.values()} == {NODE_POOL, PROMETHEUS}
