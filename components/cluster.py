"""The ACK cluster and its credential."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes

from autoscaling.ack.versions import KUBERNETES_MINORS
from components.managed_cluster import ManagedCluster, ManagedClusterArgs, NewCluster
from live.api_endpoint import ApiEndpoints, server_of
from live.preflight import Preflight

_GET_CREDENTIAL = "alicloud:cs/getClusterCredential:getClusterCredential"


@dataclass(frozen=True, kw_only=True)
class AckClusterArgs:
    """The cluster to adopt or create: set either `cluster_id` or `create`."""

    region: pulumi.Input[str]
    cluster_id: pulumi.Input[str] | None = None
    create: NewCluster | None = None
    # API server endpoint to use: internet or intranet
    api_endpoint: pulumi.Input[str] = "internet"
    # validity of the kubeconfig in minutes; None: the account's long-lived kubeconfig
    temporary_minutes: pulumi.Input[int | None] = None
    # version of the HPA API that the cluster must serve
    autoscaling_api: Literal["v2", "v2beta1"] = "v2"
    # checks the cluster before anything is created in it
    preflight: Preflight | None = None

    def __post_init__(self) -> None:
        """Require either `cluster_id` or `create`.

        Raises:
            ValueError: both or neither is set.
        """
        if (self.cluster_id is None) == (self.create is None):
            raise ValueError("set exactly one of cluster_id (an existing cluster) and create (a new cluster)")


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """A cluster; its id resolves after the cluster is running and serves the version of `autoscaling`."""

    cluster_id: pulumi.Output[str]
    vswitch_ids: pulumi.Output[list[str]]
    endpoints: pulumi.Output[ApiEndpoints]
    # identifies the cluster for the Kubernetes provider
    identifier: pulumi.Input[str]
    system_nodes: Sequence[pulumi.Resource] = ()


class AckCluster(pulumi.ComponentResource):
    """An existing cluster, which is neither changed nor deleted, or a new cluster. Requires an alicloud provider.

    Fails, also at preview, if the existing cluster is not in the region, is not running, or does not serve the version
    of `autoscaling`.
    """

    cluster_id: pulumi.Output[str]
    """Resolves after the cluster is found, is running and has passed preflight, so nothing is created before that."""
    vswitch_ids: pulumi.Output[list[str]]
    """The vSwitches of the cluster's nodes."""
    kubeconfig: pulumi.Output[str]
    """Kubeconfig for the chosen API server endpoint; a secret. A temporary kubeconfig changes at each run."""
    api_server: pulumi.Output[str]
    """Address of the chosen endpoint."""
    provider: kubernetes.Provider
    """Kubernetes provider with the kubeconfig."""

    def __init__(self, name: str, args: AckClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:AckCluster", name, None, opts)
        invoke = pulumi.InvokeOutputOptions(parent=self)
        cluster = self._created(name, args, args.create) if args.create else self._adopted(args, invoke)
        self.vswitch_ids = cluster.vswitch_ids
        minutes = pulumi.Output.from_input(args.temporary_minutes)
        # Request it while the cluster is checked, but read it only after that check.
        requested: pulumi.Output[str | Exception] = pulumi.Output.from_input(cluster.identifier).apply(
            lambda cluster_id: minutes.apply(lambda duration: self._ask_for_kubeconfig(cluster_id, duration))
        )
        chosen = pulumi.Output.from_input(args.api_endpoint)
        granted: pulumi.Output[str] = cluster.cluster_id.apply(lambda _: requested.apply(_granted))
        kubeconfig: pulumi.Output[str] = granted.apply(
            lambda content: cluster.endpoints.apply(
                lambda endpoints: chosen.apply(lambda endpoint: endpoints.apply_to(content, endpoint))
            )
        )
        self.kubeconfig = pulumi.Output.secret(kubeconfig.apply(args.preflight) if args.preflight else kubeconfig)
        self.api_server = pulumi.Output.unsecret(self.kubeconfig.apply(server_of))
        passed = pulumi.Output.unsecret(self.kubeconfig.apply(bool))
        self.cluster_id = passed.apply(lambda _: cluster.cluster_id)
        self.provider = kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # Without it, any change of the kubeconfig would replace everything in the cluster.
            cluster_identifier=cluster.identifier,
            enable_server_side_apply=True,
            # The objects in the cluster also need nodes without GPUs.
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(cluster.system_nodes)),
        )
        self.register_outputs(
            {"clusterId": self.cluster_id, "apiServer": self.api_server, "vswitchIds": self.vswitch_ids}
        )

    async def _ask_for_kubeconfig(self, cluster_id: str, minutes: int | None) -> str | Exception:
        """Return the kubeconfig, or the error as a value: the check of the cluster may report a clearer error."""
        arguments = {"clusterId": cluster_id, "temporaryDurationMinutes": minutes}
        try:
            response = await pulumi.runtime.invoke_async(_GET_CREDENTIAL, arguments, pulumi.InvokeOptions(parent=self))
        except Exception as error:
            return error
        kubeconfig: str = response["kubeConfig"]
        return kubeconfig

    def _created(self, name: str, args: AckClusterArgs, creation: NewCluster) -> _Cluster:
        created = ManagedCluster(
            name,
            ManagedClusterArgs(
                creation=creation,
                region=args.region,
                internet=pulumi.Output.from_input(args.api_endpoint).apply(lambda endpoint: endpoint == "internet"),
            ),
            pulumi.ResourceOptions(parent=self),
        )
        cluster_id: pulumi.Output[str] = created.cluster.version.apply(
            lambda version: created.cluster.id.apply(lambda known: _serving(known, version, args.autoscaling_api))
        )
        return _Cluster(
            cluster_id=cluster_id,
            vswitch_ids=created.vswitch_ids,
            endpoints=created.cluster.connections.apply(_endpoints),
            identifier=created.cluster.id,
            system_nodes=[created.system_nodes],
        )

    def _adopted(self, args: AckClusterArgs, invoke: pulumi.InvokeOutputOptions) -> _Cluster:
        wanted: pulumi.Output[str] = pulumi.Output.from_input(args.cluster_id).apply(str)
        ids, region = wanted.apply(lambda cluster_id: [cluster_id]), pulumi.Output.from_input(args.region)
        found = alicloud.cs.get_clusters_output(ids=ids, enable_details=True, opts=invoke)
        # Not Output.all: it turns the SDK's classes into plain dictionaries.
        cluster: pulumi.Output[alicloud.cs.outputs.GetClustersClusterResult] = wanted.apply(
            lambda cluster_id: region.apply(
                lambda region_id: found.clusters.apply(
                    lambda clusters: _usable(clusters, cluster_id, region_id, args.autoscaling_api)
                )
            )
        )
        # Only this function returns the addresses, and only for managed clusters.
        managed = alicloud.cs.get_managed_kubernetes_clusters_output(ids=ids, enable_details=True, opts=invoke)
        return _Cluster(
            cluster_id=cluster.apply(lambda answer: answer.cluster_id),
            vswitch_ids=cluster.apply(lambda answer: list(answer.vswitch_ids)),
            endpoints=managed.clusters.apply(
                lambda clusters: _endpoints([known for answer in clusters for known in answer.connections])
            ),
            identifier=wanted,
        )


def _endpoints(
    connections: Sequence[
        alicloud.cs.outputs.ManagedKubernetesConnection
        | alicloud.cs.outputs.GetManagedKubernetesClustersClusterConnectionResult
    ],
) -> ApiEndpoints:
    for connection in connections:
        return ApiEndpoints(connection.api_server_internet or "", connection.api_server_intranet or "")
    return ApiEndpoints()


def _usable(
    clusters: list[alicloud.cs.outputs.GetClustersClusterResult],
    cluster_id: str,
    region: str,
    autoscaling_api: Literal["v2", "v2beta1"],
) -> alicloud.cs.outputs.GetClustersClusterResult:
    cluster = next((answer for answer in clusters if answer.cluster_id == cluster_id), None)
    if cluster is None:
        raise pulumi.RunError(
            f"cluster.id is {cluster_id!r}, but the account has no such cluster in {region}: "
            "check cluster.id and region, and use credentials of the account that owns the cluster."
        )
    if cluster.region_id and cluster.region_id != region:
        raise pulumi.RunError(
            f"cluster {cluster_id} is in {cluster.region_id}, but region is set to {region}: set region to "
            f"{cluster.region_id}."
        )
    if cluster.state != "running":
        raise pulumi.RunError(
            f"cluster {cluster_id} is {cluster.state}, but must be running: wait until it runs, or repair it in the "
            "ACK console."
        )
    _serving(cluster_id, cluster.current_version, autoscaling_api)
    return cluster


def _serving(cluster_id: str, kubernetes_version: str, autoscaling_api: Literal["v2", "v2beta1"]) -> str:
    version = re.match(r"1\.(\d+)", kubernetes_version)
    oldest, newest = KUBERNETES_MINORS[autoscaling_api]
    if version and int(version[1]) < oldest:
        raise pulumi.RunError(
            f"cluster {cluster_id} runs Kubernetes {kubernetes_version}, but autoscaling/"
            f"{autoscaling_api} needs 1.{oldest} or newer: upgrade the cluster, or set cluster.autoscalingApi to "
            "v2beta1."
        )
    if version and newest is not None and int(version[1]) > newest:
        raise pulumi.RunError(
            f"cluster {cluster_id} runs Kubernetes {kubernetes_version}, but autoscaling/"
            f"{autoscaling_api} needs 1.{newest} or older: set cluster.autoscalingApi to v2."
        )
    return cluster_id


def _granted(kubeconfig: str | Exception) -> str:
    if isinstance(kubeconfig, Exception):
        raise kubeconfig
    if not kubeconfig:
        raise pulumi.RunError(
            "the account has no kubeconfig for the cluster: grant the account access to the cluster in the ACK console."
        )
    return kubeconfig
