"""A new ACK cluster with Terway, and CPU nodes for pods without GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_alicloud as alicloud

from components.network import ClusterNetwork, ClusterNetworkArgs
from live.existing_network import ExistingNetwork

_CREATION_ONLY = ["addons", "newNatGateway", "slbInternetEnabled"]
"""Inputs that the provider reads at creation only."""


@dataclass(frozen=True, kw_only=True)
class NewCluster:
    """A cluster in a new VPC or in existing vSwitches: set either `zones` or `vswitch_ids`."""

    name: str
    # edition, such as ack.pro.small
    spec: str
    # such as 1.35.2-aliyun.1; None: the newest version that ACK offers
    version: str | None = None
    # zones and addresses of a new VPC
    zones: Sequence[str] = ()
    vpc_cidr: str = "10.0.0.0/16"
    # existing vSwitches for nodes, and for pods
    vswitch_ids: Sequence[str] = ()
    pod_vswitch_ids: Sequence[str] = ()
    # addresses of Services
    service_cidr: str = "172.21.0.0/20"
    # CPU nodes
    system_instance_types: Sequence[str]
    system_size: int
    # while true, ACK and Pulumi refuse to delete or replace the cluster and its network
    deletion_protection: bool = True


@dataclass(frozen=True, kw_only=True)
class ManagedClusterArgs:
    """A new cluster in a region."""

    creation: NewCluster
    region: pulumi.Input[str]
    # whether the API server gets a public address
    internet: pulumi.Input[bool] = True


class ManagedCluster(pulumi.ComponentResource):
    """A cluster, its network and its CPU nodes. Requires an alicloud provider."""

    cluster: alicloud.cs.ManagedKubernetes
    system_nodes: alicloud.cs.NodePool
    vswitch_ids: pulumi.Output[list[str]]
    """The vSwitches of the nodes."""

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
            # The provider refuses the pods' vSwitches without the add-on: pulumi-alicloud's issue 1027.
            addons=[alicloud.cs.ManagedKubernetesAddonArgs(name="terway-eniip")],
            # An existing VPC has its own internet access.
            new_nat_gateway=not creation.vswitch_ids,
            slb_internet_enabled=args.internet,
            deletion_protection=creation.deletion_protection,
            # The provider would write the administrator's key in plain text into the state.
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
            instance_types=creation.system_instance_types,
            desired_size=str(creation.system_size),
            system_disk_category="cloud_essd",
            system_disk_size=120,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"clusterId": self.cluster.id, "vswitchIds": self.vswitch_ids})

    def _vswitches(
        self, name: str, args: ManagedClusterArgs
    ) -> tuple[Sequence[pulumi.Input[str]], Sequence[pulumi.Input[str]]]:
        creation = args.creation
        if creation.vswitch_ids:
            network = ExistingNetwork(
                region=args.region, vswitch_ids=creation.vswitch_ids, pod_vswitch_ids=creation.pod_vswitch_ids
            )
            services = IPv4Network(creation.service_cidr)
            passed = network.check(services, pulumi.InvokeOutputOptions(parent=self))
            return _after(passed, network.vswitch_ids), _after(passed, network.pod_vswitch_ids)
        created = ClusterNetwork(
            name,
            ClusterNetworkArgs(
                vpc_name=creation.name,
                cidr=IPv4Network(creation.vpc_cidr),
                zones=creation.zones,
                protect=creation.deletion_protection,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        return created.vswitch_ids, created.pod_vswitch_ids


def _after(passed: pulumi.Output[bool], ids: Sequence[str]) -> list[pulumi.Output[str]]:
    def output(vswitch_id: str) -> pulumi.Output[str]:
        return passed.apply(lambda _: vswitch_id)

    return [output(vswitch_id) for vswitch_id in ids]
