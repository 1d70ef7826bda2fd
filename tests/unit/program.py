"""Run the program on mocks and record its registrations, including options that the SDK's mocks hide."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import inspect
import json
import logging
import runpy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pulumi
import yaml
from pulumi.runtime import get_root_resource, rpc, set_all_config, set_mocks
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.stack import Stack, run_pulumi_func
from pulumi_alicloud.cs.outputs import GetKubernetesNodePoolsNodepoolResult
from pydantic.alias_generators import to_camel

from live.preflight import Snapshot

# As the language host does: a failed program leaves tasks whose results are never read.
logging.getLogger("asyncio").setLevel(logging.CRITICAL)

CHECKOUT = Path(__file__).parents[2]
KUBECONFIG = "kubeconfig-with-a-key"
PROMETHEUS_URL = "http://cn-hangzhou-intranet.arms.aliyuncs.com:9090/api/v1/prometheus/token/1/c1/cn-hangzhou"
ADDRESS = "192.0.2.10"
CLUSTER_VSWITCHES = ("vsw-own-a", "vsw-own-b")


@dataclass(frozen=True)
class Registration:
    """A registered resource."""

    urn: str
    type: str
    name: str
    inputs: dict[str, Any]
    """Secrets are replaced by `<secret>`."""
    parent: str
    provider: str
    dependencies: frozenset[str]
    """URNs, by option and by output."""
    ignore_changes: tuple[str, ...]
    delete_before_replace: bool
    replace_on_changes: tuple[str, ...]
    protect: bool
    aliases: tuple[str, ...]
    """`root` for each alias that has no parent."""
    replacement_trigger: str
    """The resource is replaced when this text changes. Empty: no trigger."""
    retain_on_delete: bool
    timeouts: tuple[str, str]
    """For creation and update, in the engine's format. Empty: the provider's default."""


@dataclass(frozen=True)
class RegisteredOutputs:
    """Outputs that a component or the stack registered."""

    urn: str
    outputs: dict[str, Any]
    """Secrets are replaced by `<secret>`."""


@dataclass
class Recorder(pulumi.runtime.Mocks):
    """The mock cloud, and what the program did in it."""

    preview: bool = False
    cluster_state: str = "running"
    cluster_exists: bool = True
    cluster_region: str | None = None
    """None: the region of the account."""
    cluster_version: str = "1.36.3-aliyun.1"
    cluster_vswitches: tuple[str, ...] = CLUSTER_VSWITCHES
    kubeconfig: str = KUBECONFIG
    """Any other value connects to a running cluster."""
    snapshot: Snapshot = field(default_factory=Snapshot)
    """The result of preflight while `kubeconfig` has its default."""
    connections: Sequence[Mapping[str, str]] = ()
    """Addresses of the API server. Empty: ACK reports no address."""
    vswitches: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    """Existing vSwitches: id to VPC, zone and CIDR."""
    vpcs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Existing VPCs: id to CIDRs."""
    prometheus_url: str = PROMETHEUS_URL
    prometheus_exists: bool = True
    prometheus_existed: bool = False
    """Before the program ran."""
    platform_outputs: dict[str, Any] = field(default_factory=dict)
    """Outputs of the platform stack."""
    last_outputs: dict[str, Any] = field(default_factory=dict)
    """The stack's outputs before the run."""
    last_urns: Sequence[str] = ()
    """Resources in the stack's state before the run."""
    pools: tuple[str, ...] = ()
    """Names of the cluster's node pools before the program ran."""
    registrations: list[Registration] = field(default_factory=list)
    registered_outputs: list[RegisteredOutputs] = field(default_factory=list)
    engine_ranges: list[str] = field(default_factory=list)
    """Engine versions that the program requires."""
    secret_values: dict[str, Any] = field(default_factory=dict)
    """The release's values in plain text, as the provider receives them."""
    calls: list[MockCallArgs] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        computed: dict[str, Any] = {}
        if args.typ == "pulumi:pulumi:StackReference":
            return args.name, {"name": args.inputs["name"], "outputs": self.platform_outputs}
        if args.typ == "pulumi:providers:alicloud":
            self.cluster_region = self.cluster_region or args.inputs["region"]
        elif args.typ == "alicloud:cs/nodePool:NodePool":
            computed = {"nodePoolId": "np1"}
        elif args.typ == "alicloud:cs/managedKubernetes:ManagedKubernetes":
            computed = {"connections": list(self.connections), "version": self.cluster_version}
        elif args.typ == "kubernetes:helm.sh/v3:Release":
            values = args.inputs["values"]
            self.secret_values = values["value"] if rpc.is_rpc_secret(values) else values
        elif args.typ == "kubernetes:core/v1:Service":
            computed = {"status": {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}}
        if self.preview:
            return None, {**dict.fromkeys(computed, rpc.UNKNOWN), **args.inputs}
        return f"{args.name}-id", {**args.inputs, **computed}

    def call(self, args: MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        self.calls.append(args)
        answers = {
            "alicloud:cs/getClusters:getClusters": self._clusters,
            "alicloud:cs/getManagedKubernetesClusters:getManagedKubernetesClusters": self._managed_clusters,
            "alicloud:cs/getClusterCredential:getClusterCredential": self._credential,
            "alicloud:vpc/getSwitches:getSwitches": self._switches,
            "alicloud:vpc/getNetworks:getNetworks": self._networks,
            "alicloud:arms/getPrometheus:getPrometheus": self._prometheus,
            "alicloud:cs/getKubernetesNodePools:getKubernetesNodePools": self._node_pools,
            "pulumi:pulumi:readStackOutputs": self._last_outputs,
            "pulumi:pulumi:readStackResourceOutputs": self._last_resources,
        }
        return answers[args.token](args.args), []

    def _node_pools(self, arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = arguments["nodePoolName"]
        # The SDK's class requires every field.
        fields = inspect.signature(GetKubernetesNodePoolsNodepoolResult.__init__).parameters
        empty = {to_camel(name): None for name in fields if not name.startswith("__")}
        return {"nodepools": [{**empty, "nodePoolName": name} for name in self.pools if name == wanted]}

    def _last_outputs(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "outputs": self.last_outputs}

    def _last_resources(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"name": arguments["stackName"], "outputs": {urn: {"outputs": {}} for urn in self.last_urns}}

    def _clusters(self, arguments: dict[str, Any]) -> dict[str, Any]:
        texts = ("clusterDomain", "clusterName", "clusterSpec", "clusterType", "id", "ipStack", "nodeCidrMask",
                 "podCidr", "profile", "proxyMode", "resourceGroupId", "securityGroupId",
                 "serviceCidr", "timezone", "vpcId")  # fmt: skip
        cluster = {
            **dict.fromkeys(texts, ""),
            **{name: {} for name in ("autoMode", "maintenanceWindow", "operationPolicy", "tags")},
            "deletionProtection": True,
            "clusterId": arguments["ids"][0],
            "state": self.cluster_state,
            "regionId": self.cluster_region,
            "currentVersion": self.cluster_version,
            "vswitchIds": list(self.cluster_vswitches),
        }
        return {"clusters": [cluster] if self.cluster_exists else []}

    def _managed_clusters(self, arguments: dict[str, Any]) -> dict[str, Any]:
        texts = ("availabilityZone", "id", "name", "natGatewayId", "securityGroupId", "state", "vpcId")
        details = {"connections": list(self.connections), "rrsaConfig": {}, "workerNodes": []}
        return {"clusters": [{**dict.fromkeys(texts, ""), **details}] if arguments.get("enableDetails") else []}

    def _switches(self, arguments: dict[str, Any]) -> dict[str, Any]:
        texts = ("creationTime", "description", "ipv6CidrBlock", "name", "resourceGroupId", "routeTableId", "status",
                 "vswitchName")  # fmt: skip
        return {
            "vswitches": [
                {
                    **dict.fromkeys(texts, ""),
                    **{"availableIpAddressCount": 1, "enableIpv6": False, "isDefault": False, "tags": {}},
                    **{"id": vswitch, "vswitchId": vswitch, "vpcId": vpc, "zoneId": zone, "cidrBlock": block},
                }
                for vswitch, (vpc, zone, block) in self.vswitches.items()
                if vswitch in arguments["ids"]
            ]
        }

    def _networks(self, arguments: dict[str, Any]) -> dict[str, Any]:
        texts = ("creationTime", "description", "dhcpOptionsSetId", "dhcpOptionsSetStatus", "dnsHostnameStatus",
                 "ipv6CidrBlock", "regionId", "resourceGroupId", "routeTableId", "routerId", "status", "vpcName",
                 "vrouterId")  # fmt: skip
        return {
            "vpcs": [
                {
                    **dict.fromkeys(texts, ""),
                    **{"isDefault": False, "tags": {}, "userCidrs": [], "vswitchIds": []},
                    **{"id": vpc, "vpcId": vpc, "cidrBlock": blocks[0], "secondaryCidrBlocks": list(blocks[1:])},
                }
                for vpc, blocks in self.vpcs.items()
                if vpc in arguments["ids"]
            ]
        }

    def _credential(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"kubeConfig": self.kubeconfig, "clusterId": arguments["clusterId"]}

    def _prometheus(self, arguments: dict[str, Any]) -> dict[str, Any]:
        texts = ("authToken", "clusterName", "clusterType", "grafanaInstanceId", "httpApiInterUrl", "id",
                 "pushGateWayInterUrl", "pushGateWayIntraUrl", "remoteReadInterUrl", "remoteReadIntraUrl",
                 "remoteWriteInterUrl", "remoteWriteIntraUrl", "resourceGroupId", "securityGroupId",
                 "subClustersJson", "vpcId", "vswitchId")  # fmt: skip
        url = self.prometheus_url if arguments.get("enableDetails") else ""
        instance = {
            **dict.fromkeys(texts, ""),
            "tags": {},
            "clusterId": arguments["ids"][0],
            "httpApiIntraUrl": url,
        }
        exists = self.prometheus_exists if arguments.get("enableDetails") else self.prometheus_existed
        return {"prometheis": [instance] if exists else []}

    def of_type(self, type_: str) -> list[Registration]:
        return [resource for resource in self.registrations if resource.type == type_]

    def resource(self, type_: str) -> Registration:
        [registration] = self.of_type(type_)
        return registration

    def comes_after(self, registration: Registration) -> set[str]:
        """Return the URNs of all resources created before the registration and deleted after it.

        The engine orders by dependencies and parents. Children wait for the dependencies of their component.
        """
        by_urn = {resource.urn: resource for resource in self.registrations}
        found: set[str] = set()
        waiting = [registration.urn]
        while waiting:
            current = by_urn.get(waiting.pop())
            for urn in (current.dependencies | {current.parent}) - found if current else ():
                found.add(urn)
                waiting.append(urn)
        return found


class _Monitor(MockMonitor):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._recorder = recorder

    def RegisterResource(self, request: Any) -> Any:
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        dependencies = set(request.dependencies)
        for of_property in request.propertyDependencies.values():
            dependencies.update(of_property.urns)
        self._recorder.registrations.append(
            Registration(
                urn=response.urn,
                type=request.type,
                name=request.name,
                inputs=_masked(rpc.deserialize_properties(request.object, keep_unknowns=True)),
                parent=request.parent,
                provider=request.provider,
                dependencies=frozenset(dependencies),
                ignore_changes=tuple(request.ignoreChanges),
                delete_before_replace=request.deleteBeforeReplace,
                replace_on_changes=tuple(request.replaceOnChanges),
                protect=request.protect,
                aliases=tuple("root" for alias in request.aliases if alias.spec.noParent),
                replacement_trigger=request.replacement_trigger.string_value,
                retain_on_delete=request.retainOnDelete,
                timeouts=(request.customTimeouts.create, request.customTimeouts.update),
            )
        )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:
        outputs = _masked(rpc.deserialize_properties(request.outputs, keep_unknowns=True))
        self._recorder.registered_outputs.append(RegisteredOutputs(request.urn, outputs))
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


def _masked(value: Any) -> Any:
    if rpc.is_rpc_secret(value):
        return "<secret>"
    if isinstance(value, dict):
        return {key: _masked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item) for item in value]
    return value


def stack_config(stack: str) -> dict[str, Any]:
    """Return the decoded values of a stack file, with the namespace in the keys."""
    config: dict[str, Any] = yaml.safe_load((CHECKOUT / f"Pulumi.{stack}.yaml").read_text())["config"]
    return config


def run_program(config: dict[str, Any], recorder: Recorder, *, encrypted: Sequence[str] = ()) -> Recorder:
    """Run `__main__.py` once on the values, as the engine hands them over; mocks have no cluster to wait for."""
    program = functools.partial(runpy.run_path, str(CHECKOUT / "__main__.py"))
    _run({"ackgpu:waitForMetrics": "0s", **config}, recorder, program, encrypted)
    return recorder


def run_access(config: dict[str, Any], recorder: Recorder) -> Recorder:
    """Run the program of `./ackgpu refresh` and `./ackgpu destroy`."""
    program = functools.partial(runpy.run_path, str(CHECKOUT / "commands" / "access" / "__main__.py"))
    _run(config, recorder, program)
    return recorder


def run(recorder: Recorder, program: Any, config: Mapping[str, Any] | None = None) -> Recorder:
    """Run any program."""
    _run(dict(config or {}), recorder, program)
    return recorder


def _run(config: dict[str, Any], recorder: Recorder, program: Any, encrypted: Sequence[str] = ()) -> None:
    async def main() -> None:
        monitor = _Monitor(recorder)
        set_mocks(recorder, project="ackgpu", stack="unit", preview=recorder.preview, monitor=monitor)
        SETTINGS.rpc_manager.clear()
        SETTINGS.outputs.clear()
        SETTINGS.callbacks = mock.Mock()
        # The SDK's mocks have no engine with a version.
        engine = cast(Any, SETTINGS.engine)
        engine.RequirePulumiVersion = lambda request: recorder.engine_ranges.append(request.pulumi_version_range)
        values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
        set_all_config(values, list(encrypted))
        await run_pulumi_func(program)
        root = cast(Stack, get_root_resource())
        outputs = await rpc.serialize_properties(root.outputs, {})
        recorder.outputs = _masked(rpc.deserialize_properties(outputs, keep_unknowns=True))

    look = mock.patch("live.preflight.take_snapshot", return_value=recorder.snapshot)
    with look if recorder.kubeconfig == KUBECONFIG else contextlib.nullcontext():
        asyncio.run(main())


NODE_POOL = "alicloud:cs/nodePool:NodePool"
PROMETHEUS = "alicloud:arms/prometheus:Prometheus"
RELEASE = "kubernetes:helm.sh/v3:Release"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
DISRUPTION_BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
SERVICE = "kubernetes:core/v1:Service"
HPA = "kubernetes:autoscaling/v2:HorizontalPodAutoscaler"


def dev_config(**changes: Any) -> dict[str, Any]:
    config = copy.deepcopy(stack_config("dev"))
    config["ackgpu:region"] = "cn-beijing"
    config["ackgpu:cluster"] = {"id": "c0123456789abcdef0123456789abcdef"}
    config["ackgpu:gpuNodePool"]["instanceTypes"] = ["ecs.gn6v-c8g1.2xlarge"]
    return {**config, **{f"ackgpu:{key}": value for key, value in changes.items()}}
