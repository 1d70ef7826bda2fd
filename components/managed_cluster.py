"""A new ACK cluster with Terway, and CPU nodes for what needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_alicloud as alicloud

from autoscaling.settings.cluster import ClusterCreation
from components.network import ClusterNetwork, ClusterNetworkArgs, ExistingNetwork

_CREATION_ONLY = ["addons", "newNatGateway", "slbInternetEnabled"]
"""Inputs by which the provider changes nothing of a cluster that is there."""


@dataclass(frozen=True, kw_only=True)
class ManagedClusterArgs:
    """Exactly one of `zones` and `vswitch_ids` of `creation` is set."""

    creation: ClusterCreation
    region: pulumi.Input[str]
    # whether the API server gets a public address
    internet: pulumi.Input[bool] = True


class ManagedCluster(pulumi.ComponentResource):
    """Needs an alicloud provider. While `deletion_protection` is on, Pulumi refuses to delete or replace it."""

    cluster: alicloud.cs.ManagedKubernetes
    system_nodes: alicloud.cs.NodePool
    vswitch_ids: pulumi.Output[list[str]]
    """Of the nodes."""

    def __init__(self, name: str, args: ManagedClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ackgpu:index:ManagedCluster", name, None, opts)
        creation = args.creation
        nodes, pods = self._vswitches(name, args)
        self.vswitch_ids = pulumi.Output.all(*nodes)
        self.cluster = alicloud.cs.ManagedKubernetes(
            f"{name}-ack",
            name=creation.name,
            cluster_spec=creation.spec,
            version=creation.version,
            vswitch_ids=nodes,
            pod_vswitch_ids=pods,
            service_cidr=creation.service_cidr,
            # Without the add-on the pods' vSwitches are refused: pulumi-alicloud's issue 1027.
            addons=[alicloud.cs.ManagedKubernetesAddonArgs(name="terway-eniip")],
            # A VPC that was there has its own way out.
            new_nat_gateway=creation.vswitch_ids is None,
            slb_internet_enabled=args.internet,
            deletion_protection=creation.deletion_protection,
            # The provider would keep the administrator's key in the state, in plain.
            skip_set_certificate_authority=True,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=creation.deletion_protection,
                ignore_changes=_CREATION_ONLY,
                additional_secret_outputs=["certificateAuthorities"],
            ),
        )
        self.system_nodes = alicloud.cs.NodePool(
            f"{name}-system-nodes",
            cluster_id=self.cluster.id,
            node_pool_name="system",
            vswitch_ids=nodes,
            instance_types=creation.system_pool.instance_types,
            desired_size=str(creation.system_pool.size),
            system_disk_category="cloud_essd",
            system_disk_size=120,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _vswitches(
        self, name: str, args: ManagedClusterArgs
    ) -> tuple[Sequence[pulumi.Input[str]], Sequence[pulumi.Input[str]]]:
        creation = args.creation
        if creation.vswitch_ids and creation.pod_vswitch_ids:
            there = ExistingNetwork(
                region=args.region, vswitch_ids=creation.vswitch_ids, pod_vswitch_ids=creation.pod_vswitch_ids
            )
            services = IPv4Network(creation.service_cidr)
            passed = there.with_room_for(services, pulumi.InvokeOutputOptions(parent=self))
            return _once(passed, there.vswitch_ids), _once(passed, there.pod_vswitch_ids)
        made = ClusterNetwork(
            name,
            ClusterNetworkArgs(
                vpc_name=creation.name,
                cidr=IPv4Network(creation.vpc_cidr),
                zones=creation.zones or (),
                protect=creation.deletion_protection,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        return made.vswitch_ids, made.pod_vswitch_ids


def _once(passed: pulumi.Output[bool], ids: Sequence[str]) -> list[pulumi.Output[str]]:
    def after(one: str) -> pulumi.Output[str]:
        return passed.apply(lambda _: one)

    return [after(one) for one in ids]
