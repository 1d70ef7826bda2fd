"""New clusters: registered resources, their order, and refused settings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from unittest import mock

import grpc
import pulumi
import pulumi_alicloud as alicloud
import pytest
from pulumi.runtime.mocks import MockCallArgs

from autoscaling.settings.cluster import Cluster
from components.cluster import AckCluster, AckClusterArgs
from components.managed_cluster import NewCluster
from live.preflight import Snapshot
from program.args import cluster_args
from tests.unit.program import Recorder, run, run_program
from tests.unit.test_platform_stack import platform_config, team

CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"
POOL = "alicloud:cs/nodePool:NodePool"
NETWORK, SWITCH = "alicloud:vpc/network:Network", "alicloud:vpc/switch:Switch"
PROVIDER = "pulumi:providers:kubernetes"
ZONES = ["cn-hangzhou-h", "cn-hangzhou-i", "cn-hangzhou-j"]
CONNECTIONS = [{"apiServerInternet": "https://203.0.113.7:6443", "apiServerIntranet": "https://10.0.0.9:6443"}]
REAL_KUBECONFIG = "clusters: [{name: c, cluster: {server: 'https://203.0.113.7:6443'}}]\n"
VSWITCHES = {
    "vsw-h": ("vpc-1", "cn-hangzhou-h", "10.0.0.0/20"),
    "vsw-i": ("vpc-1", "cn-hangzhou-i", "10.0.16.0/20"),
    "vsw-pods-h": ("vpc-1", "cn-hangzhou-h", "10.1.0.0/18"),
    "vsw-pods-i": ("vpc-1", "cn-hangzhou-i", "10.1.64.0/18"),
    "vsw-elsewhere": ("vpc-2", "cn-hangzhou-h", "192.168.0.0/20"),
}
VPCS = {"vpc-1": ["10.0.0.0/16", "10.1.0.0/16"], "vpc-2": ["192.168.0.0/16"]}
EXISTING = {"vswitchIds": ["vsw-h", "vsw-i"], "podVswitchIds": ["vsw-pods-h", "vsw-pods-i"]}


def program(create: Mapping[str, Any], seen: dict[str, Any] | None = None, **cluster: Any) -> Any:
    settings = Cluster.model_validate({"create": create, **cluster})

    async def unchanged(kubeconfig: str) -> str:
        if seen is not None:
            seen["preflight"] = kubeconfig
        return kubeconfig

    def body() -> None:
        args = cluster_args(settings, "cn-hangzhou", unchanged)
        account = alicloud.Provider("account", region="cn-hangzhou")
        component = AckCluster("cluster", args, pulumi.ResourceOptions(providers=[account]))
        pulumi.export("clusterId", component.cluster_id)
        pulumi.export("apiServer", component.api_server)
        pulumi.export("vswitchIds", component.vswitch_ids)

    return body


def created(
    create: Mapping[str, Any] | None = None, *, cluster: Mapping[str, Any] | None = None, **more: Any
) -> Recorder:
    recorder = Recorder(**{"connections": CONNECTIONS, "kubeconfig": REAL_KUBECONFIG, **more})
    return run(recorder, program(create or {"zones": ZONES}, **(cluster or {})))


def in_existing(**more: Any) -> Recorder:
    create = {**EXISTING, **more.pop("create", {})}
    return created(create, **{"vswitches": VSWITCHES, "vpcs": VPCS, **more})


def test_network_cluster_cpu_nodes_and_kubernetes_provider_are_created_in_this_order() -> None:
    recorder = created()
    network, cluster, provider = (recorder.resource(type_) for type_ in (NETWORK, CLUSTER, PROVIDER))
    system = recorder.resource(POOL)
    switches = recorder.of_type(SWITCH)
    assert len(switches) == 6
    assert all(network.urn in recorder.comes_after(switch) for switch in switches)
    assert {switch.urn for switch in switches} <= recorder.comes_after(cluster)
    assert cluster.urn in recorder.comes_after(system)
    assert {system.urn, cluster.urn} <= recorder.comes_after(provider)


def test_each_zone_has_a_vswitch_for_nodes_and_a_vswitch_for_pods() -> None:
    recorder = created()
    assert recorder.resource(NETWORK).inputs == {"vpcName": "ackgpu", "cidrBlock": "10.0.0.0/16"}
    found = {(switch.inputs["zoneId"], switch.inputs["cidrBlock"]) for switch in recorder.of_type(SWITCH)}
    assert found == {
        *(("cn-hangzhou-h", block) for block in ("10.0.0.0/20", "10.0.64.0/18")),
        *(("cn-hangzhou-i", block) for block in ("10.0.16.0/20", "10.0.128.0/18")),
        *(("cn-hangzhou-j", block) for block in ("10.0.32.0/20", "10.0.192.0/18")),
    }


def test_the_cluster_has_terway_and_its_settings() -> None:
    inputs = created({"zones": ZONES, "name": "gpus", "version": "1.35.2-aliyun.1"}).resource(CLUSTER).inputs
    assert inputs == {
        "name": "gpus",
        "clusterSpec": "ack.pro.small",
        "version": "1.35.2-aliyun.1",
        "vswitchIds": [f"cluster-nodes-{zone}-id" for zone in ZONES],
        "podVswitchIds": [f"cluster-pods-{zone}-id" for zone in ZONES],
        "serviceCidr": "172.21.0.0/20",
        "addons": [{"name": "terway-eniip"}],
        "newNatGateway": True,
        "slbInternetEnabled": True,
        "deletionProtection": True,
        "skipSetCertificateAuthority": True,
    }


def test_a_created_clusters_nodes_and_gpu_nodes_share_its_vswitches() -> None:
    recorder = created({"zones": ZONES, "systemPool": {"instanceTypes": ["ecs.g8i.xlarge"], "size": 3}})
    nodes = [f"cluster-nodes-{zone}-id" for zone in ZONES]
    assert recorder.outputs["vswitchIds"] == nodes
    inputs = recorder.resource(POOL).inputs
    assert (inputs["nodePoolName"], inputs["desiredSize"], inputs["instanceTypes"]) == (
        "system",
        "3",
        ["ecs.g8i.xlarge"],
    )
    assert inputs["vswitchIds"] == nodes


@pytest.mark.parametrize("protection", [True, False])
def test_deletion_protection_also_protects_cluster_and_network_in_pulumi(protection: bool) -> None:
    recorder = created({"zones": ZONES, "deletionProtection": protection})
    assert recorder.resource(CLUSTER).inputs["deletionProtection"] is protection
    registered = [resource for type_ in (CLUSTER, NETWORK, SWITCH) for resource in recorder.of_type(type_)]
    assert {resource.protect for resource in registered} == {protection}
    assert recorder.resource(POOL).protect is False


def test_changes_of_creation_only_inputs_are_ignored() -> None:
    assert set(created().resource(CLUSTER).ignore_changes) == {"addons", "newNatGateway", "slbInternetEnabled"}


def test_a_preview_sends_no_requests_to_a_planned_cluster() -> None:
    seen: dict[str, Any] = {}
    recorder = Recorder(preview=True, connections=CONNECTIONS)
    run(recorder, program({"zones": ZONES}, seen))
    assert seen == {}
    assert recorder.calls == []
    assert len(recorder.of_type(SWITCH)) == 6


def test_up_checks_a_new_cluster_before_it_exports_its_id() -> None:
    seen: dict[str, Any] = {}
    recorder = Recorder(connections=CONNECTIONS, kubeconfig=REAL_KUBECONFIG)
    run(recorder, program({"zones": ZONES}, seen))
    assert seen == {"preflight": REAL_KUBECONFIG}
    assert recorder.outputs["clusterId"] == "cluster-ack-id"
    assert recorder.resource(PROVIDER).inputs["clusterIdentifier"] == "cluster-ack-id"


def test_a_new_cluster_must_serve_the_hpa_api() -> None:
    with pytest.raises(
        pulumi.RunError, match=r"cluster cluster-ack-id runs Kubernetes 1\.22\.3-aliyun\.1, but autoscaling/v2"
    ):
        created(cluster_version="1.22.3-aliyun.1")


def test_a_cluster_with_intranet_endpoint_gets_no_public_address() -> None:
    recorder = created(cluster={"apiEndpoint": "intranet"})
    assert recorder.resource(CLUSTER).inputs["slbInternetEnabled"] is False
    assert recorder.outputs["apiServer"] == "https://10.0.0.9:6443"


def test_an_existing_network_is_used_without_creating_resources_in_it() -> None:
    recorder = in_existing()
    assert recorder.of_type(NETWORK) == recorder.of_type(SWITCH) == []
    inputs = recorder.resource(CLUSTER).inputs
    assert (inputs["vswitchIds"], inputs["podVswitchIds"]) == (EXISTING["vswitchIds"], EXISTING["podVswitchIds"])
    assert inputs["newNatGateway"] is False
    assert recorder.outputs["vswitchIds"] == EXISTING["vswitchIds"]


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (
            {"serviceCidr": "10.1.16.0/20"},
            "serviceCidr is 10.1.16.0/20, which overlaps with 10.1.0.0/16 of VPC vpc-1. Choose",
        ),
        ({"vswitchIds": ["vsw-gone"]}, "vswitchIds has vsw-gone, but the account has no such vSwitch in cn-hangzhou"),
        (
            {"vswitchIds": ["vsw-h", "vsw-elsewhere"]},
            "vSwitch vsw-h is in vpc-1, but vsw-elsewhere is in vpc-2. Use vSwitches of the same VPC",
        ),
        (
            {"podVswitchIds": ["vsw-pods-h"]},
            "vswitchIds has vsw-i in zone cn-hangzhou-i, but podVswitchIds has no vSwitch there",
        ),
        (
            {"vswitchIds": ["vsw-h"]},
            "podVswitchIds has vsw-pods-i in zone cn-hangzhou-i, but vswitchIds has no vSwitch there",
        ),
    ],
    ids=["overlap", "gone", "two VPCs", "no pods' zone", "no nodes' zone"],
)
@pytest.mark.parametrize("preview", [True, False])
def test_refuses_an_unsuitable_network_before_creating_resources(
    create: dict[str, Any], message: str, preview: bool
) -> None:
    recorder = Recorder(preview=preview, vswitches=VSWITCHES, vpcs=VPCS)
    with pytest.raises(pulumi.RunError, match=message):
        run(recorder, program({**EXISTING, **create}))
    assert recorder.of_type(CLUSTER) == recorder.of_type(POOL) == []


def adopted(**cluster: Any) -> Recorder:
    settings = Cluster.model_validate({"id": "c1", **cluster})

    def body() -> None:
        account = alicloud.Provider("account", region="cn-hangzhou")
        args = cluster_args(settings, "cn-hangzhou", None)
        component = AckCluster("cluster", args, pulumi.ResourceOptions(providers=[account]))
        pulumi.export("apiServer", component.api_server)

    return run(Recorder(kubeconfig=REAL_KUBECONFIG, connections=CONNECTIONS), body)


@pytest.mark.parametrize(
    ("endpoint", "server"), [("internet", "https://203.0.113.7:6443"), ("intranet", "https://10.0.0.9:6443")]
)
def test_the_program_uses_the_chosen_endpoint_of_an_adopted_cluster(endpoint: str, server: str) -> None:
    recorder = adopted(apiEndpoint=endpoint)
    assert recorder.outputs["apiServer"] == server
    [managed] = [call for call in recorder.calls if "getManagedKubernetesClusters" in call.token]
    assert managed.args == {"ids": ["c1"], "enableDetails": True}


@pytest.mark.parametrize(("duration", "minutes"), [("60m", 60), ("90m30s", 91), ("4320m", 4320)])
def test_temporary_credentials_are_requested_in_whole_minutes(duration: str, minutes: int) -> None:
    [call] = [call for call in adopted(temporaryCredential=duration).calls if "getClusterCredential" in call.token]
    assert call.args["temporaryDurationMinutes"] == minutes


def test_the_credential_is_the_long_lived_one_by_default() -> None:
    [call] = [call for call in adopted().calls if "getClusterCredential" in call.token]
    assert call.args == {"clusterId": "c1"}


NEW = NewCluster(name="n", spec="ack.pro.small", zones=ZONES, system_instance_types=["ecs.g7.xlarge"], system_size=2)


@pytest.mark.parametrize("fields", [{}, {"cluster_id": "c1", "create": NEW}])
def test_args_require_either_an_id_or_a_new_cluster(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="set exactly one of cluster_id"):
        AckClusterArgs(region="cn-hangzhou", **fields)


class Refusal(grpc.RpcError):
    """An error of the provider, as the SDK receives it."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return "ErrorClusterNotFound"


class WithoutCredential(Recorder):
    """An account that refuses the credential at once and lists clusters slowly."""

    def call(self, args: MockCallArgs) -> Any:
        if "getClusterCredential" in args.token:
            raise Refusal
        time.sleep(0.1)
        return super().call(args)


@pytest.mark.parametrize(
    ("exists", "reported"),
    [(False, "has no such cluster"), (True, "getClusterCredential failed: ErrorClusterNotFound")],
)
def test_a_refused_credential_is_reported_after_errors_of_the_cluster(exists: bool, reported: str) -> None:
    recorder = WithoutCredential(cluster_exists=exists, preview=True)
    with pytest.raises(Exception, match=reported):
        run_program(platform_config(), recorder)
    created_types = [registration.type for registration in recorder.registrations]
    assert not [type_ for type_ in created_types if type_.startswith(("alicloud:", "kubernetes:"))]


def test_a_team_uses_the_endpoint_and_credentials_of_its_platform() -> None:
    access = {"id": "c1", "apiEndpoint": "intranet", "temporaryCredential": "60m"}
    account: dict[str, Any] = {"connections": CONNECTIONS, "kubeconfig": REAL_KUBECONFIG}
    with mock.patch("live.preflight.take_snapshot", return_value=Snapshot()):
        outputs = run_program(platform_config(cluster=access), Recorder(**account)).outputs
        recorder = team(outputs=outputs, **account)
    assert recorder.outputs["apiServer"] == outputs["apiServer"] == "https://10.0.0.9:6443"
    [call] = [call for call in recorder.calls if "getClusterCredential" in call.token]
    assert call.args == {"clusterId": "c1", "temporaryDurationMinutes": 60}
