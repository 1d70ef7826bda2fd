"""The ACK cluster: what may be set on it, and everything that can be wrong with it."""

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

_CREDENTIAL = Duration("a duration such as 60m, from 15m to 4320m (three days), is expected", 15 * 60, 4320 * 60)
_KUBERNETES_VERSION = Form(
    r"1\.[0-9]{1,3}\.[0-9]{1,3}-aliyun\.[0-9]{1,3}", "ACK writes a version such as 1.35.2-aliyun.1"
)
_ZONE = Form(r"[a-z]+-[a-z0-9-]+", "a zone looks like cn-hangzhou-h")
_CIDR = Form(r"[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}", "an IPv4 CIDR block looks like 10.0.0.0/16")

_KEY = "cluster.create"

_PRIVATE = [IPv4Network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
_NO_VPC = [IPv4Network(block) for block in ("100.64.0.0/10", "224.0.0.0/4", "127.0.0.0/8", "169.254.0.0/16")]
"""What the VPC product's documentation rules out."""
_VPC_PREFIXES = range(8, 22 + 1)
"""The VPC product takes /8 to /28; below /22 the pods of a zone would have fewer than 256 addresses."""
_SERVICE_PREFIXES = range(16, 24 + 1)
"""ACK's documentation of CreateCluster."""
_PRO_MODES = ("cgpu", "core_mem", "share")


class SystemPool(Model):
    """CPU nodes of a new cluster for all that needs no GPU, such as the adapter and CoreDNS."""

    instance_types: Annotated[list[InstanceTypeName], Field(min_length=1, max_length=10)] = ["ecs.g7.xlarge"]
    """ECS instance types of the CPU nodes."""
    size: NodeCount = 2
    """Number of CPU nodes."""


class ClusterCreation(Model):
    """A new managed cluster with Terway, in a VPC of its own or in vSwitches that are there."""

    name: Name = "ackgpu"
    """Name of the cluster and of its VPC."""
    version: Annotated[str, _KUBERNETES_VERSION] | None = None
    """Kubernetes version, such as 1.35.2-aliyun.1; by default the newest that ACK offers when it is created."""
    spec: Literal["ack.pro.small", "ack.standard"] = "ack.pro.small"
    """Edition of the cluster: sharing of cards needs Pro."""
    zones: Annotated[list[Annotated[str, _ZONE]], Field(min_length=1, max_length=3)] | None = None
    """Zones of a new VPC, three where the region has as many, such as cn-hangzhou-h."""
    vpc_cidr: Annotated[str, _CIDR] = "10.0.0.0/16"
    """Addresses of a new VPC, for nodes and pods."""
    vswitch_ids: Annotated[list[VSwitchId], Field(min_length=1, max_length=5)] | None = None
    """vSwitches for the nodes in a VPC that exists, instead of `zones`."""
    pod_vswitch_ids: Annotated[list[VSwitchId], Field(min_length=1, max_length=5)] | None = None
    """vSwitches for the pods, in the same zones as `vswitchIds`."""
    service_cidr: Annotated[str, _CIDR] = "172.21.0.0/20"
    """Addresses of Services; they overlap with nothing else."""
    system_pool: SystemPool = SystemPool()
    deletion_protection: bool = True
    """Whether the cluster and its network refuse to be deleted: set it to false, `pulumi up`, and then they can be."""


class Cluster(Model):
    """The ACK cluster: one that exists, by its id, or a new one."""

    id: Identifier | None = None
    """Id of a cluster that exists, instead of `create`."""
    create: ClusterCreation | None = None
    """A new cluster, instead of `id`."""
    api_endpoint: Literal["internet", "intranet"] = "internet"
    """By which address of the API server the cluster is reached: `intranet` from inside its VPC only."""
    temporary_credential: Annotated[str, _CREDENTIAL] | None = None
    """How long each kubeconfig is valid, such as 12h; by default it is the account's long-lived one, and a second
    `pulumi up` changes nothing."""
    autoscaling_api: Literal["v2", "v2beta1"] = "v2"
    """Version of the HPA's API: `v2` from Kubernetes 1.23, `v2beta1` below."""


def cluster_findings(settings: Settings) -> Iterator[Finding]:
    """Every fault of `cluster`."""
    cluster = settings.cluster
    if (cluster.id is None) == (cluster.create is None):
        yield Finding("cluster: set exactly one of id (of a cluster that exists) and create.", ("cluster",))
    if cluster.create is None:
        return
    yield from _network(cluster.create, settings.region)
    yield from _services(cluster.create)
    yield from _version(cluster.create, settings)
    yield from _edition(cluster.create, settings)
    yield from _system_pool(cluster.create)


def _network(creation: ClusterCreation, region: str) -> Iterator[Finding]:
    existing = creation.vswitch_ids is not None or creation.pod_vswitch_ids is not None
    if existing == (creation.zones is not None):
        yield Finding(
            f"{_KEY}: set either zones, for a new VPC, or vswitchIds and podVswitchIds, of a VPC that exists.",
            ("cluster",),
        )
    elif existing:
        for given, missing in (("vswitch_ids", "podVswitchIds"), ("pod_vswitch_ids", "vswitchIds")):
            if getattr(creation, given) is not None and None in (creation.vswitch_ids, creation.pod_vswitch_ids):
                yield Finding(
                    f"{_KEY}.{missing} is missing: with Terway nodes and pods have vSwitches each, in the same zones.",
                    ("cluster",),
                )
        if "vpc_cidr" in creation.model_fields_set:
            yield Finding(
                f"{_KEY}.vpcCidr is of a new VPC, and {_KEY}.vswitchIds names one that exists: remove one of them.",
                ("cluster",),
            )
    else:
        yield from _zones(creation, region)
        yield from _vpc(creation)


def _zones(creation: ClusterCreation, region: str) -> Iterator[Finding]:
    zones = creation.zones or []
    for index, zone in enumerate(zones):
        key = f"{_KEY}.zones[{index}]"
        # cn-hangzhou-h, and elsewhere ap-southeast-1a.
        if not re.fullmatch(rf"{region}-?[a-z]", zone):
            yield Finding(f"{key} is {zone!r}, which is no zone of {region}.", ("cluster", "region"))
        elif zone in zones[:index]:
            yield Finding(f"{key} is {zone!r} again: name each zone once.", ("cluster", "region"))


def _vpc(creation: ClusterCreation) -> Iterator[Finding]:
    key, block = f"{_KEY}.vpcCidr", _block(creation.vpc_cidr)
    if block is None:
        yield _malformed(key, creation.vpc_cidr)
    elif block.prefixlen not in _VPC_PREFIXES:
        yield Finding(
            f"{key} is {block}, and a VPC for nodes and pods in three zones has /{_VPC_PREFIXES[0]} to "
            f"/{_VPC_PREFIXES[-1]}.",
            ("cluster",),
        )
    elif taken := next((other for other in _NO_VPC if block.overlaps(other)), None):
        yield Finding(f"{key} is {block}, which overlaps with {taken}: no VPC can have those addresses.", ("cluster",))


def _services(creation: ClusterCreation) -> Iterator[Finding]:
    key, vpc_key = f"{_KEY}.serviceCidr", f"{_KEY}.vpcCidr"
    block, vpc = _block(creation.service_cidr), _block(creation.vpc_cidr)
    if block is None:
        yield _malformed(key, creation.service_cidr)
    elif block.prefixlen not in _SERVICE_PREFIXES or not any(block.subnet_of(one) for one in _PRIVATE):
        yield Finding(
            f"{key} is {block}, and ACK takes /{_SERVICE_PREFIXES[0]} to /{_SERVICE_PREFIXES[-1]} of "
            f"{', '.join(map(str, _PRIVATE))}.",
            ("cluster",),
        )
    elif creation.vswitch_ids is None and vpc is not None and block.overlaps(vpc):
        yield Finding(
            f"{key} is {block}, which overlaps with {vpc_key} ({vpc}): choose addresses that the VPC does not have.",
            ("cluster",),
        )


def _version(creation: ClusterCreation, settings: Settings) -> Iterator[Finding]:
    api = settings.cluster.autoscaling_api
    oldest, newest = KUBERNETES_MINORS[api]
    minor = int(creation.version.split(".")[1]) if creation.version else None
    if minor is None and newest is not None:
        yield Finding(
            f"cluster.autoscalingApi is {api}, and a new cluster has a newer Kubernetes than 1.{newest}: set it to v2.",
            ("cluster",),
        )
    elif minor is not None and (minor < oldest or (newest is not None and minor > newest)):
        other = "v2beta1" if minor < oldest else "v2"
        yield Finding(
            f"{_KEY}.version is {creation.version}, which does not serve autoscaling/{api}: set cluster.autoscalingApi "
            f"to {other}, or another version.",
            ("cluster",),
        )


def _edition(creation: ClusterCreation, settings: Settings) -> Iterator[Finding]:
    mode = settings.gpu_node_pool.card_mode
    if creation.spec == "ack.standard" and mode in _PRO_MODES:
        yield Finding(
            f"gpuNodePool.cardMode is {mode}, which needs ACK Pro: set {_KEY}.spec to ack.pro.small.",
            ("cluster", "gpuNodePool"),
        )


def _system_pool(creation: ClusterCreation) -> Iterator[Finding]:
    for index, name in enumerate(creation.system_pool.instance_types):
        if find_instance_type(name):
            key = f"{_KEY}.systemPool.instanceTypes[{index}]"
            yield Finding(
                f"{key} is {name}, which has GPUs that nothing would use: name one without.", ("cluster",), "warning"
            )


def _block(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def _malformed(key: str, text: str) -> Finding:
    try:
        meant = f": {IPv4Network(text, strict=False)} is meant?"
    except ValueError:
        meant = "; one looks like 10.0.0.0/16."
    return Finding(f"{key} is {text!r}, which is no CIDR block{meant}", ("cluster",))
