"""The ACK cluster and the way into it."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_alicloud as alicloud
import pulumi_kubernetes as kubernetes


@dataclass(frozen=True, kw_only=True)
class AckClusterArgs:
    """Which cluster to adopt."""

    cluster_id: str
    region: str


class AckCluster(pulumi.ComponentResource):
    """Adopts a cluster by its id; nothing of it is changed or deleted.

    Needs an alicloud provider in its options. Fails, at preview too, where the cluster does not exist in the region or
    is not running.
    """

    cluster_id: pulumi.Output[str]
    """Known only once the cluster was found and runs."""
    vswitch_ids: pulumi.Output[list[str]]
    """The cluster's own vSwitches."""
    provider: kubernetes.Provider
    """Talks to the cluster with the account's long-lived credential: a temporary one would change at each run."""

    def __init__(self, name: str, args: AckClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:AckCluster", name, None, opts)
        invoke = pulumi.InvokeOutputOptions(parent=self)
        found = alicloud.cs.get_clusters_output(ids=[args.cluster_id], enable_details=True, opts=invoke)
        cluster = found.clusters.apply(lambda clusters: _running(clusters, args))
        self.cluster_id = cluster.apply(lambda one: one.cluster_id)
        self.vswitch_ids = cluster.apply(lambda one: list(one.vswitch_ids))
        credential = alicloud.cs.get_cluster_credential_output(cluster_id=self.cluster_id, opts=invoke)
        self.provider = kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=pulumi.Output.secret(credential.kube_config),
            # Without it a kubeconfig that differs by a blank would replace everything in the cluster.
            cluster_identifier=args.cluster_id,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"cluster_id": self.cluster_id, "vswitch_ids": self.vswitch_ids})


def _running(
    clusters: list[alicloud.cs.outputs.GetClustersClusterResult], args: AckClusterArgs
) -> alicloud.cs.outputs.GetClustersClusterResult:
    cluster = next((one for one in clusters if one.cluster_id == args.cluster_id), None)
    if cluster is None:
        raise pulumi.RunError(
            f"cluster.id is {args.cluster_id!r}, and the account has no such cluster in {args.region}: "
            "check cluster.id and region, and that the credentials are of the account that owns it."
        )
    if cluster.state != "running":
        raise pulumi.RunError(
            f"cluster {args.cluster_id} is {cluster.state}, and only a running cluster can be used: wait or repair it."
        )
    return cluster
