"""The ACK cluster and the way into it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes

from autoscaling.ack.versions import KUBERNETES_MINORS
from autoscaling.settings.cluster import Cluster as ClusterSettings
from autoscaling.settings.cluster import ClusterCreation
from autoscaling.settings.field_types import duration_seconds
from components.managed_cluster import ManagedCluster, ManagedClusterArgs
from live.api_endpoint import ApiEndpoints, server_of
from live.preflight import Preflight


@dataclass(frozen=True, kw_only=True)
class AckClusterArgs:
    """Which cluster to adopt, or to create: exactly one of `cluster_id` and `create` is set."""

    region: pulumi.Input[str]
    cluster_id: pulumi.Input[str] | None = None
    create: ClusterCreation | None = None
    # by which address of the API server it is reached: internet or intranet
    api_endpoint: pulumi.Input[str] = "internet"
    # how many minutes the kubeconfig is valid; None: it is the account's long-lived one
    temporary_minutes: pulumi.Input[int | None] = None
    # version of the HPAs' API
    autoscaling_api: Literal["v2", "v2beta1"] = "v2"
    # looks at what is in the cluster before anything is created
    preflight: Preflight | None = None

    @classmethod
    def of(cls, cluster: ClusterSettings, region: str, preflight: Preflight | None) -> AckClusterArgs:
        """The args of the cluster of the settings."""
        return cls(
            region=region,
            cluster_id=cluster.id,
            create=cluster.create,
            api_endpoint=cluster.api_endpoint,
            temporary_minutes=credential_minutes(cluster.temporary_credential),
            autoscaling_api=cluster.autoscaling_api,
            preflight=preflight,
        )

    def __post_init__(self) -> None:
        """Refuse what names no cluster, or two.

        Raises:
            ValueError: both or none of `cluster_id` and `create`.
        """
        if (self.cluster_id is None) == (self.create is None):
            raise ValueError("a cluster is either adopted by its id or created")


def credential_minutes(duration: str | None) -> int | None:
    """Minutes of `cluster.temporaryCredential`; None: there is none. The provider knows whole minutes only."""
    return math.ceil(duration_seconds(duration) / 60) if duration else None


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """A cluster that runs and serves the version of `autoscaling`, when its id is known."""

    cluster_id: pulumi.Output[str]
    vswitch_ids: pulumi.Output[list[str]]
    endpoints: pulumi.Output[ApiEndpoints]
    # by which the Kubernetes provider knows it again
    identifier: pulumi.Input[str]
    system_nodes: Sequence[pulumi.Resource] = ()


class AckCluster(pulumi.ComponentResource):
    """Adopts a cluster by its id, of which nothing is changed or deleted, or creates one.

    Needs an alicloud provider in its options. Fails, at preview too, where the cluster to adopt does not exist in the
    region, is not running, or does not serve the version of `autoscaling`.
    """

    cluster_id: pulumi.Output[str]
    """Known only once the cluster was found, runs, and has passed the preflight: nothing is made in it before."""
    vswitch_ids: pulumi.Output[list[str]]
    """The vSwitches of the cluster's nodes."""
    kubeconfig: pulumi.Output[str]
    """Leads to the chosen endpoint of the API server. A secret."""
    api_server: pulumi.Output[str]
    """Address of that endpoint."""
    provider: kubernetes.Provider
    """Talks to the cluster with that kubeconfig: a temporary one changes at each run."""

    def __init__(self, name: str, args: AckClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:AckCluster", name, None, opts)
        invoke = pulumi.InvokeOutputOptions(parent=self)
        cluster = self._created(name, args, args.create) if args.create else self._adopted(args, invoke)
        self.vswitch_ids = cluster.vswitch_ids
        credential = alicloud.cs.get_cluster_credential_output(
            cluster_id=cluster.cluster_id, temporary_duration_minutes=args.temporary_minutes, opts=invoke
        )
        chosen = pulumi.Output.from_input(args.api_endpoint)
        kubeconfig: pulumi.Output[str] = credential.kube_config.apply(_not_empty).apply(
            lambda content: cluster.endpoints.apply(
                lambda endpoints: chosen.apply(lambda endpoint: endpoints.reached(content, endpoint))
            )
        )
        self.kubeconfig = pulumi.Output.secret(kubeconfig.apply(args.preflight) if args.preflight else kubeconfig)
        self.api_server = pulumi.Output.unsecret(self.kubeconfig.apply(server_of))
        passed = pulumi.Output.unsecret(self.kubeconfig.apply(bool))
        self.cluster_id = passed.apply(lambda _: cluster.cluster_id)
        self.provider = kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # Without it a kubeconfig that differs by a blank would replace everything in the cluster.
            cluster_identifier=cluster.identifier,
            enable_server_side_apply=True,
            # What is put into the cluster needs nodes without GPUs too.
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(cluster.system_nodes)),
        )

    def _created(self, name: str, args: AckClusterArgs, creation: ClusterCreation) -> _Cluster:
        made = ManagedCluster(
            name,
            ManagedClusterArgs(
                creation=creation,
                region=args.region,
                internet=pulumi.Output.from_input(args.api_endpoint).apply(lambda one: one == "internet"),
            ),
            pulumi.ResourceOptions(parent=self),
        )
        cluster_id: pulumi.Output[str] = made.cluster.version.apply(
            lambda version: made.cluster.id.apply(lambda one: _serving(one, version, args.autoscaling_api))
        )
        return _Cluster(
            cluster_id=cluster_id,
            vswitch_ids=made.vswitch_ids,
            endpoints=made.cluster.connections.apply(_endpoints),
            identifier=made.cluster.id,
            system_nodes=[made.system_nodes],
        )

    def _adopted(self, args: AckClusterArgs, invoke: pulumi.InvokeOutputOptions) -> _Cluster:
        wanted: pulumi.Output[str] = pulumi.Output.from_input(args.cluster_id).apply(str)
        ids, region = wanted.apply(lambda one: [one]), pulumi.Output.from_input(args.region)
        found = alicloud.cs.get_clusters_output(ids=ids, enable_details=True, opts=invoke)
        # Not Output.all: it turns the SDK's classes into plain dictionaries.
        cluster: pulumi.Output[alicloud.cs.outputs.GetClustersClusterResult] = wanted.apply(
            lambda one: region.apply(
                lambda where: found.clusters.apply(lambda clusters: _usable(clusters, one, where, args.autoscaling_api))
            )
        )
        # The only answer that has the addresses, of managed clusters alone.
        managed = alicloud.cs.get_managed_kubernetes_clusters_output(ids=ids, enable_details=True, opts=invoke)
        return _Cluster(
            cluster_id=cluster.apply(lambda one: one.cluster_id),
            vswitch_ids=cluster.apply(lambda one: list(one.vswitch_ids)),
            endpoints=managed.clusters.apply(
                lambda clusters: _endpoints([known for one in clusters for known in one.connections])
            ),
            identifier=wanted,
        )


def _endpoints(
    connections: Sequence[
        alicloud.cs.outputs.ManagedKubernetesConnection
        | alicloud.cs.outputs.GetManagedKubernetesClustersClusterConnectionResult
    ],
) -> ApiEndpoints:
    for one in connections:
        return ApiEndpoints(one.api_server_internet or "", one.api_server_intranet or "")
    return ApiEndpoints()


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
    _serving(cluster_id, cluster.current_version, autoscaling_api)
    return cluster


def _serving(cluster_id: str, kubernetes_version: str, autoscaling_api: Literal["v2", "v2beta1"]) -> str:
    version = re.match(r"1\.(\d+)", kubernetes_version)
    oldest, newest = KUBERNETES_MINORS[autoscaling_api]
    if version and int(version[1]) < oldest:
        raise pulumi.RunError(
            f"cluster {cluster_id} runs Kubernetes {kubernetes_version}, and autoscaling/"
            f"{autoscaling_api} is served from 1.{oldest}: upgrade the cluster, or set cluster.autoscalingApi to "
            "v2beta1."
        )
    if version and newest is not None and int(version[1]) > newest:
        raise pulumi.RunError(
            f"cluster {cluster_id} runs Kubernetes {kubernetes_version}, and autoscaling/"
            f"{autoscaling_api} was served up to 1.{newest}: set cluster.autoscalingApi to v2."
        )
    return cluster_id


def _not_empty(kubeconfig: str) -> str:
    if not kubeconfig:
        raise pulumi.RunError(
            "the account has no kubeconfig for the cluster: grant it access to the cluster in the ACK console."
        )
    return kubeconfig
