"""Drift: a refresh or `verify` finds each change, `up` reverts it, and `destroy` works."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from typing import Any

import pytest
import yaml
from kubernetes import client
from pulumi.automation import OpType

from live.adapter_release import uninstall
from live.verify import check_stack
from rehearsal.alicloud.node_pools import node_pools
from rehearsal.alicloud.store import NODE_POOL
from rehearsal.leftovers import cluster_leftovers
from tests.engine.conftest import Rehearsal

NAME, SYSTEM, METRIC = "ack-alibaba-cloud-metrics-adapter", "kube-system", "DCGM_CUSTOM_PROCESS_SM_UTIL"

pytestmark = pytest.mark.usefixtures("deployed")


def run_command(rehearsal: Rehearsal, command: str) -> str:
    """Run `./ackgpu` as a user of the rehearsal cloud and return its output."""
    line = f". build/rehearsal/cloud/env.sh && ./ackgpu {command} --stack {rehearsal.stack.name} --yes"
    result = subprocess.run(
        ["bash", "-c", line], cwd=rehearsal.layout.checkout, capture_output=True, text=True, timeout=200, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def failed_steps(rehearsal: Rehearsal) -> list[str]:
    return [
        f"{step.name}: {step.observed}" for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok
    ]


def raise_the_pool_maximum(rehearsal: Rehearsal) -> None:
    with rehearsal.store.transaction() as cloud:
        [pool] = [resource for resource in cloud.resources.values() if resource.type == NODE_POOL]
        pool.inputs["scalingConfig"]["maxSize"] = 3


def raise_the_hpa_maximum(rehearsal: Rehearsal) -> None:
    client.AutoscalingV2Api(rehearsal.api).patch_namespaced_horizontal_pod_autoscaler(
        "gpu-hpa", "default", {"spec": {"maxReplicas": 4}}, field_manager="kubectl-edit"
    )


def upgrade_by_hand(rehearsal: Rehearsal) -> None:
    """Add a revision of the release with another value, as `helm upgrade` does."""
    core = client.CoreV1Api(rehearsal.api)
    first = f"sh.helm.release.v1.{NAME}.v1"
    secret = rehearsal.api.sanitize_for_serialization(core.read_namespaced_secret(first, SYSTEM))
    packed = base64.b64decode(secret["data"]["release"])
    record: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))

    def data(**changes: Any) -> dict[str, str]:
        content = base64.b64encode(gzip.compress(json.dumps({**record, **changes}).encode()))
        return {"release": base64.b64encode(content).decode()}

    labels = secret["metadata"]["labels"]
    old = {"info": {**record["info"], "status": "superseded"}}
    core.patch_namespaced_secret(
        first, SYSTEM, {"data": data(**old), "metadata": {"labels": {**labels, "status": "superseded"}}}
    )
    record["config"]["AlibabaCloudMetricsAdapter"]["prometheus"]["logLevel"] = 9
    name = f"sh.helm.release.v1.{NAME}.v2"
    metadata = {"name": name, "labels": {**labels, "version": "2"}}
    body = {"metadata": metadata, "type": "helm.sh/release.v1", "data": data(version=2)}
    core.create_namespaced_secret(SYSTEM, body)


def edit_the_rules(rehearsal: Rehearsal) -> None:
    """Change, delete and add a rule."""
    core, name = client.CoreV1Api(rehearsal.api), f"{NAME}-config"
    text = core.read_namespaced_config_map(name, SYSTEM).data["config.yaml"]
    changed, deleted, *others = yaml.safe_load(text)["rules"]
    changed = {**changed, "metricsQuery": changed["metricsQuery"].replace("avg", "max")}
    foreign = {**deleted, "name": {"as": "foreign"}}
    rules = yaml.safe_dump({"rules": [changed, *others, foreign]})
    core.patch_namespaced_config_map(name, SYSTEM, {"data": {"config.yaml": rules}})


def test_verify_reports_edited_rules_and_its_command_restores_them(rehearsal: Rehearsal) -> None:
    edit_the_rules(rehearsal)
    [failure] = [step for step in failed_steps(rehearsal) if step.startswith("adapter rules")]
    assert (
        f"the rule for {METRIC} is missing; the rule for DCGM_FI_DEV_GPU_UTIL has changed; "
        "the rule for foreign is not from this stack" in failure
    )
    assert failure.endswith(": `pulumi up --replace '**::adapter-release'` restores them")
    rehearsal.stack.up(color="never", replace=["**::adapter-release"])
    assert failed_steps(rehearsal) == []


def test_a_refresh_finds_drift_and_up_reverts_it(rehearsal: Rehearsal) -> None:
    for change in (raise_the_pool_maximum, raise_the_hpa_maximum, upgrade_by_hand):
        change(rehearsal)
    output = run_command(rehearsal, "refresh")
    for resource, changed in (
        ("gpu-nodes", "scalingConfig"),
        ("bert-intent-detection-hpa", "spec"),
        ("adapter-release", "values"),
    ):
        [line] = [line for line in output.splitlines() if f" {resource} updated" in line]
        assert changed in line
    result = rehearsal.up()
    assert (result.summary.resource_changes or {})[OpType.UPDATE] == 3
    hpa = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler("gpu-hpa", "default")
    assert hpa.spec.max_replicas == 10
    assert [pool.max_size for pool in node_pools(rehearsal.store.read())] == [10]
    container = (
        client.AppsV1Api(rehearsal.api).read_namespaced_deployment(NAME, SYSTEM).spec.template.spec.containers[0]
    )
    assert "--v=5" in container.args
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}


def test_a_refresh_detects_an_uninstalled_release_and_up_installs_it_again(rehearsal: Rehearsal) -> None:
    assert uninstall(rehearsal.layout.kubeconfig.read_text(), "ackgpu/rehearsal")
    assert " adapter-release deleted" in run_command(rehearsal, "refresh")
    assert (rehearsal.up().summary.resource_changes or {})[OpType.CREATE] == 1
    assert failed_steps(rehearsal) == []


def test_conflicts_that_stop_up_do_not_stop_destroy(rehearsal: Rehearsal) -> None:
    autoscaling = client.AutoscalingV2Api(rehearsal.api)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "bert-intent-detection"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {"scaleTargetRef": target, "maxReplicas": 2, "metrics": [{"type": "Resource", "resource": cpu}]}
    autoscaling.create_namespaced_horizontal_pod_autoscaler("default", {"metadata": {"name": "bert-cpu"}, "spec": spec})
    client.AppsV1Api(rehearsal.api).patch_namespaced_deployment_scale(NAME, SYSTEM, {"spec": {"replicas": 0}})
    run_command(rehearsal, "destroy")
    autoscaling.delete_namespaced_horizontal_pod_autoscaler("bert-cpu", "default")
    assert cluster_leftovers(rehearsal.layout) == []
