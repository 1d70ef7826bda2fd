"""The resources of a cluster whose owner followed the guide by hand.

The node pool and Prometheus are as the vendor's console creates them. The guide's manifests are created as by
`kubectl create`. A separate Pulumi program installs the release, with the Helm of the Kubernetes provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml
from kubernetes import utils
from pulumi import automation

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE
from rehearsal.alicloud.store import NODE_POOL, PROMETHEUS, CloudResource
from rehearsal.automation import engine_options
from tests.engine.conftest import Rehearsal

DATA = Path(__file__).parents[1] / "data"
GUIDE_RULES: Sequence[Mapping[str, Any]] = yaml.safe_load((DATA / "seed_rules_default.yaml").read_text())


def node_pool(rehearsal: Rehearsal, **inputs: Any) -> str:
    """Create a node pool as the console does and return its ID."""
    with rehearsal.store.transaction() as cloud:
        cluster = cloud.cluster
        assert cluster
        pool_id = "np0123456789abcdef0123456789abcdef"
        all_inputs = {"clusterId": cluster.cluster_id, "vswitchIds": cluster.vswitch_ids, **inputs}
        outputs = {"nodePoolId": pool_id, "scalingGroupId": "asg-0123456789abcdef0123"}
        cloud.resources[f"{cluster.cluster_id}:{pool_id}"] = CloudResource(
            type=NODE_POOL, inputs=all_inputs, outputs=outputs
        )
    return f"{cluster.cluster_id}:{pool_id}"


def prometheus(rehearsal: Rehearsal) -> None:
    """Enable monitoring for the cluster."""
    with rehearsal.store.transaction() as cloud:
        assert cloud.cluster
        cluster_id = cloud.cluster.cluster_id
        inputs = {"clusterType": "aliyun-cs", "clusterId": cluster_id}
        cloud.resources[cluster_id] = CloudResource(type=PROMETHEUS, inputs=inputs, outputs={})


def helm_install(rehearsal: Rehearsal, values: Mapping[str, Any]) -> automation.Stack:
    """Install the chart and return the stack that can uninstall it."""

    def program() -> None:
        provider = kubernetes.Provider(
            "cluster", kubeconfig=pulumi.Output.secret(rehearsal.layout.kubeconfig.read_text())
        )
        kubernetes.helm.v3.Release(
            "release",
            name=ADAPTER_NAME,
            namespace=ADAPTER_NAMESPACE,
            chart=str(rehearsal.layout.checkout / "rehearsal" / "chart"),
            values=pulumi.Output.secret(values),
            opts=pulumi.ResourceOptions(provider=provider),
        )

    helm = automation.create_or_select_stack("by-hand", "helm", program, opts=engine_options(rehearsal.layout))
    helm.up(color="never")
    return helm


def create(rehearsal: Rehearsal, manifest: Mapping[str, Any]) -> None:
    """Create an object in the namespace `default` as `kubectl create` does."""
    utils.create_from_dict(rehearsal.api, dict(manifest), field_manager="kubectl-create")


def manifests() -> list[dict[str, Any]]:
    """Return the guide's Deployment, Service and HPA."""
    return list(yaml.safe_load_all((DATA / "seed_manifests.yaml").read_text()))
