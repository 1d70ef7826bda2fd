"""The ACK cluster: its settings, and the checks on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from autoscaling.ack.instance_types import find_instance_type
from autoscaling.ack.versions import KUBERNETES_MINORS
from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import (
    Duration,
    Form,
    Identifier,
    InstanceTypeName,
    Model,
    Name,
    NodeCount,
    VSwitchId,
)

if TYPE_CHECKING:
    from autoscaling.settings.stack import Settings

_CREDENTIAL = Duration("must be a duration from 15m to 4320m (three days), such as 60m", 15 * 60, 4320 * 60)
_KUBERNETES_VERSION = Form(
    r"1\.[0-9]{1,3}\.[0-9]{1,3}-aliyun\.[0-9]{1,3}", "must be a Kubernetes version of ACK, such as 1.35.2-aliyun.1"
)
_ZONE = Form(r"[a-z]+-[a-z0-9-]+", "must be a zone, such as cn-hangzhou-h")
_CIDR = Form(r"[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}", "must be an IPv4 CIDR block, such as 10.0.0.0/16")

_KEY = "cluster.create"

_PRIVATE = [IPv4Network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
_NO_VPC = [IPv4Network(block) for block in ("100.64.0.0/10", "224.0.0.0/4", "127.0.0.0/8", "169.254.0.0/16")]
"""Blocks that the VPC documentation excludes."""
_VPC_PREFIXES = range(8, 22 + 1)
"""A VPC can be /8 to /28. If it is smaller than /22, the pods of a zone have fewer than 256 addresses."""
_SERVICE_PREFIXES = range(16, 24 + 1)
"""From ACK's documentation of CreateCluster."""
_PRO_MODES = ("cgpu", "core_mem", "share")


class SystemPool(Model):
    """CPU nodes of a new cluster, for pods without GPUs such as the adapter and CoreDNS."""

    instance_types: Annotated[list[InstanceTypeName], Field(min_length=1, max_length=10)] = ["ecs.g7.xlarge"]
    """ECS instance types of the CPU nodes."""
    size: NodeCount = 2
    """Number of CPU nodes."""


class ClusterCreation(Model):
    """A new managed cluster with Terway, in its own VPC or in existing vSwitches."""

    name: Name = "ackgpu"
    """Name of the cluster and of its VPC."""
    version: Annotated[str, _KUBERNETES_VERSION] | None = None
    """Kubernetes version, such as 1.35.2-aliyun.1; by default the newest version that ACK offers at creation."""
    spec: Literal["ack.pro.small", "ack.standard"] = "ack.pro.small"
    """Edition of the cluster; shared cards need Pro."""
    zones: Annotated[list[Annotated[str, _ZONE]], Field(min_length=1, max_length=3)] | None = None
    """Zones of a new VPC, such as cn-hangzhou-h; use three if the region has them."""
    vpc_cidr: Annotated[str, _CIDR] = "10.0.0.0/16"
    """CIDR block of a new VPC, for nodes and pods."""
    vswitch_ids: Annotated[list[VSwitchId], Field(min_length=1, max_length=5)] | None = None
    """vSwitches for the nodes in an existing VPC, instead of `zones`."""
    pod_vswitch_ids: Annotated[list[VSwitchId], Field(min_length=1, max_length=5)] | None = None
    """vSwitches for the pods, in the same zones as `vswitchIds`."""
    service_cidr: Annotated[str, _CIDR] = "172.21.0.0/20"
    """CIDR block of Services; it must not overlap with other networks."""
    system_pool: SystemPool = SystemPool()
    deletion_protection: bool = True
    """Protect the cluster and its network from deletion. Before you delete them, set this to false and run
    `pulumi up`."""


class Cluster(Model):
    """The ACK cluster: an existing cluster by its ID, or a new cluster."""

    id: Identifier | None = None
    """ID of an existing cluster, instead of `create`."""
    create: ClusterCreation | None = None
    """A new cluster, instead of `id`."""
    api_endpoint: Literal["internet", "intranet"] = "internet"
    """API server endpoint to use; `intranet` works from inside the VPC only."""
    temporary_credential: Annotated[str, _CREDENTIAL] | None = None
    """How long each kubeconfig is valid, such as 12h. The default is the account's long-lived kubeconfig. With this
    setting, each `pulumi up` requests a new kubeconfig."""
    autoscaling_api: Literal["v2", "v2beta1"] = "v2"
    """Version of the HPA's API: `v2` from Kubernetes 1.23, `v2beta1` below."""


def cluster_findings(settings: Settings) -> Iterator[Finding]:
    """Return every error and warning of `cluster`."""
    cluster = settings.cluster
    if (cluster.id is None) == (cluster.create is None):
        yield Finding("cluster: set exactly one of id (an existing cluster) or create (a new cluster).", ("cluster",))
    if cluster.create is None:
        return
    for errors in (_network(cluster.create), _service_addresses(cluster.create), _version(cluster)):
        for sentence in errors:
            yield Finding(sentence, ("cluster",))
    for sentence in _zones(cluster.create, settings.region):
        yield Finding(sentence, ("cluster", "region"))
    mode = settings.gpu_node_pool.card_mode
    if cluster.create.spec == "ack.standard" and mode in _PRO_MODES:
        yield Finding(
            f"gpuNodePool.cardMode is {mode}, which needs ACK Pro: set {_KEY}.spec to ack.pro.small.",
            ("cluster", "gpuNodePool"),
        )
    for index, name in enumerate(cluster.create.system_pool.instance_types):
        if find_instance_type(name):
            key = f"{_KEY}.systemPool.instanceTypes[{index}]"
            yield Finding(
                f"{key} is {name}, which has GPUs that would stay unused: use a CPU type.", ("cluster",), "warning"
            )


def _network(creation: ClusterCreation) -> Iterator[str]:
    nodes, pods = creation.vswitch_ids, creation.pod_vswitch_ids
    existing = nodes is not None or pods is not None
    if existing == (creation.zones is not None):
        yield f"{_KEY}: set either zones, for a new VPC, or vswitchIds and podVswitchIds of an existing VPC."
    elif existing:
        if nodes is None or pods is None:
            missing = "vswitchIds" if nodes is None else "podVswitchIds"
            yield (
                f"{_KEY}.{missing} is missing: set it, because Terway needs vSwitches for nodes and for pods, in the "
                "same zones."
            )
        if "vpc_cidr" in creation.model_fields_set:
            yield (
                f"{_KEY}.vpcCidr is for a new VPC, but {_KEY}.vswitchIds is for an existing VPC: remove one of the two."
            )
    else:
        yield from _vpc(creation)


def _zones(creation: ClusterCreation, region: str) -> Iterator[str]:
    zones = creation.zones or []
    for index, zone in enumerate(zones):
        key = f"{_KEY}.zones[{index}]"
        # cn-hangzhou-h, and elsewhere ap-southeast-1a.
        if not re.fullmatch(rf"{region}-?[a-z]", zone):
            yield f"{key} is {zone!r}, which is not a zone of {region}: choose a zone of that region."
        elif zone in zones[:index]:
            yield f"{key} is {zone!r}, which is already in the list: remove one of the two."


def _vpc(creation: ClusterCreation) -> Iterator[str]:
    key, block = f"{_KEY}.vpcCidr", _block(creation.vpc_cidr)
    if block is None:
        yield _malformed(key, creation.vpc_cidr)
    elif block.prefixlen not in _VPC_PREFIXES:
        yield (
            f"{key} is {block}, but a VPC for nodes and pods in three zones must be /{_VPC_PREFIXES[0]} to "
            f"/{_VPC_PREFIXES[-1]}."
        )
    elif taken := next((other for other in _NO_VPC if block.overlaps(other)), None):
        yield (
            f"{key} is {block}, which overlaps with {taken}, which a VPC can't use: choose a block such as "
            "192.168.0.0/16."
        )


def _service_addresses(creation: ClusterCreation) -> Iterator[str]:
    key, vpc_key = f"{_KEY}.serviceCidr", f"{_KEY}.vpcCidr"
    block, vpc = _block(creation.service_cidr), _block(creation.vpc_cidr)
    if block is None:
        yield _malformed(key, creation.service_cidr)
    elif block.prefixlen not in _SERVICE_PREFIXES or not any(block.subnet_of(private) for private in _PRIVATE):
        yield (
            f"{key} is {block}, but ACK allows /{_SERVICE_PREFIXES[0]} to /{_SERVICE_PREFIXES[-1]} inside "
            f"{', '.join(map(str, _PRIVATE))}."
        )
    elif creation.vswitch_ids is None and vpc is not None and block.overlaps(vpc):
        yield f"{key} is {block}, which overlaps with {vpc_key} ({vpc}): choose addresses outside the VPC."


def _version(cluster: Cluster) -> Iterator[str]:
    version = cluster.create.version if cluster.create else None
    api = cluster.autoscaling_api
    oldest, newest = KUBERNETES_MINORS[api]
    minor = int(version.split(".")[1]) if version else None
    if minor is None and newest is not None:
        yield (
            f"cluster.autoscalingApi is {api}, but a new cluster runs Kubernetes newer than 1.{newest}: set "
            "autoscalingApi to v2."
        )
    elif minor is not None and (minor < oldest or (newest is not None and minor > newest)):
        other = "v2beta1" if minor < oldest else "v2"
        yield (
            f"{_KEY}.version is {version}, which does not serve autoscaling/{api}: set cluster.autoscalingApi to "
            f"{other}, or choose another version."
        )


def _block(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _malformed(key: str, text: str) -> str:
    try:
        meant = IPv4Network(text, strict=False)
    except ValueError:
        return f"{key} is {text!r}, which is not a CIDR block: use for example 10.0.0.0/16."
    return f"{key} is {text!r}, which is not a CIDR block, because bits are set after the prefix; did you mean {meant}?"
