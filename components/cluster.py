"""The ACK cluster and the way into it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes

from autoscaling.versions import KUBERNETES_MINORS
from components.preflight import Preflight


@dataclass(frozen=True, kw_only=True)
class AckClusterArgs:
    """Which cluster to adopt."""

    cluster_id: pulumi.Input[str]
    region: pulumi.Input[str]
    # version of the HPAs' API
    autoscaling_api: Literal["v2", "v2beta1"] = "v2"
    # looks at what is in the cluster before anything is created
    preflight: Preflight | None = None


class AckCluster(pulumi.ComponentResource):
    """Adopts a cluster by its id; nothing of it is changed or deleted.

    Needs an alicloud provider in its options. Fails, at preview too, where the cluster does not exist in the region, is
    not running, or does not serve the version of `autoscaling`.
    """

    cluster_id: pulumi.Output[str]
    """Known only once the cluster was found, runs, and has passed the preflight: nothing is made in it before."""
    vswitch_ids: pulumi.Output[list[str]]
    """The cluster's own vSwitches."""
    kubeconfig: pulumi.Output[str]
    """A secret."""
    provider: kubernetes.Provider
    """Talks to the cluster with the account's long-lived credential: a temporary one would change at each run."""

    def __init__(self, name: str, args: AckClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:AckCluster", name, None, opts)
        invoke = pulumi.InvokeOutputOptions(parent=self)
        wanted, region = pulumi.Output.from_input(args.cluster_id), pulumi.Output.from_input(args.region)
        found = alicloud.cs.get_clusters_output(ids=wanted.apply(lambda one: [one]), enable_details=True, opts=invoke)
        # Not Output.all: it turns the SDK's classes into plain dictionaries.
        cluster: pulumi.Output[alicloud.cs.outputs.GetClustersClusterResult] = wanted.apply(
            lambda one: region.apply(
                lambda where: found.clusters.apply(lambda clusters: _usable(clusters, one, where, args.autoscaling_api))
            )
        )
        found_id = cluster.apply(lambda one: one.cluster_id)
        self.vswitch_ids = cluster.apply(lambda one: list(one.vswitch_ids))
        credential = alicloud.cs.get_cluster_credential_output(cluster_id=found_id, opts=invoke)
        kubeconfig: pulumi.Output[str] = credential.kube_config.apply(_not_empty)
        self.kubeconfig = pulumi.Output.secret(kubeconfig.apply(args.preflight) if args.preflight else kubeconfig)
        passed = pulumi.Output.unsecret(self.kubeconfig.apply(bool))
        self.cluster_id = passed.apply(lambda _: found_id)
        self.provider = kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # Without it a kubeconfig that differs by a blank would replace everything in the cluster.
            cluster_identifier=args.cluster_id,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self),
        )


def _usable(
    clusters: list[alicloud.cs.outputs.GetClustersClusterResult],
    cluster_id: str,
    region: str,
    autoscaling_api: Literal["v2", "v2beta1"],
) -> alicloud.cs.outputs.GetClustersClusterResult:
    cluster = next((one for one in clusters if one.cluster_id == cluster_id), None)
    if cluster is None:
        raise pulumi.RunError(
            f"cluster.id is {cluster_id!r}, and the account has no such cluster in {region}: "
            "check cluster.id and region, and that the credentials are of the account that owns it."
        )
    if cluster.region_id and cluster.region_id != region:
        raise pulumi.RunError(
            f"cluster {cluster_id} is in {cluster.region_id}, and region is {region}: set region to "
            f"{cluster.region_id}."
        )
    if cluster.state != "running":
        raise pulumi.RunError(
            f"cluster {cluster_id} is {cluster.state}, and only a running cluster can be used: wait or repair it."
        )
    version = re.match(r"1\.(\d+)", cluster.current_version)
    oldest, newest = KUBERNETES_MINORS[autoscaling_api]
    if version and int(version[1]) < oldest:
        raise pulumi.RunError(
            f"cluster {cluster_id} runs Kubernetes {cluster.current_version}, and autoscaling/"
            f"{autoscaling_api} is served from 1.{oldest}: upgrade the cluster, or set cluster.autoscalingApi to "
            "v2beta1."
        )
    if version and newest is not None and int(version[1]) > newest:
        raise pulumi.RunError(
            f"cluster {cluster_id} runs Kubernetes {cluster.current_version}, and autoscaling/"
            f"{autoscaling_api} was served up to 1.{newest}: set cluster.autoscalingApi to v2."
        )
    return cluster


def _not_empty(kubeconfig: str) -> str:
    if not kubeconfig:
        raise pulumi.RunError(
            "the account has no kubeconfig for the cluster: grant it access to the cluster in the ACK console."
        )
    return kubeconfig
