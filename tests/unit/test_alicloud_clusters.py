"""Networks, clusters and credentials of the simulated vendor API."""

from __future__ import annotations

import base64
import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pulumi_alicloud as alicloud
import pytest
import trustme
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from rehearsal.alicloud.store import CLUSTER, NETWORK, NODE_POOL, PROMETHEUS, SWITCH, CloudStore
from rehearsal.control_plane.kubeconfigs import renew_kubeconfig, temporary_kubeconfig
from rehearsal.layout import Layout
from tests.rehearsed_account import add_network
from tests.unit.alicloud_engine import ADDRESS, INSTANCE, REGION, Engine, connected, sdk_keys, values

ZONES = ("cn-beijing-h", "cn-beijing-k")
CREDENTIAL = "alicloud:cs/getClusterCredential:getClusterCredential"
MANAGED = "alicloud:cs/getManagedKubernetesClusters:getManagedKubernetesClusters"
SWITCHES, NETWORKS = "alicloud:vpc/getSwitches:getSwitches", "alicloud:vpc/getNetworks:getNetworks"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """The layout of an account without a cluster."""
    layout = Layout(tmp_path)
    layout.control_plane.mkdir(parents=True)
    trustme.CA().cert_pem.write_to_path(layout.control_plane / "ca.crt")
    renew_kubeconfig(layout)
    CloudStore(layout.store).create(cluster_id=None, region=REGION, version="1.36.3-aliyun.1")
    layout.prometheus_api_url.write_text(ADDRESS)
    return layout


@pytest.fixture
def engine(layout: Layout) -> Iterator[Engine]:
    with connected(layout) as engine:
        yield engine


def create_network(engine: Engine) -> tuple[str, list[str], list[str]]:
    """Create a VPC, and vSwitches for nodes and pods in two zones."""
    vpc, _ = engine.create(NETWORK, {"vpcName": "v", "cidrBlock": "10.0.0.0/16"})
    blocks = ("10.0.0.0/20", "10.0.16.0/20"), ("10.0.64.0/18", "10.0.128.0/18")
    nodes, pods = (
        [
            engine.create(SWITCH, {"vpcId": vpc, "zoneId": zone, "cidrBlock": block})[0]
            for zone, block in zip(ZONES, zone_blocks, strict=True)
        ]
        for zone_blocks in blocks
    )
    return vpc, nodes, pods


def cluster_inputs(nodes: list[str], pods: list[str], **changes: Any) -> dict[str, Any]:
    return {
        "name": "gpus",
        "clusterSpec": "ack.pro.small",
        "vswitchIds": nodes,
        "podVswitchIds": pods,
        "addons": [{"name": "terway-eniip"}],
        "serviceCidr": "172.21.0.0/20",
        "skipSetCertificateAuthority": True,
        **changes,
    }


def create_cluster(engine: Engine, **changes: Any) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Create a network and a cluster; return the cluster's id, inputs and state."""
    _, nodes, pods = create_network(engine)
    inputs = cluster_inputs(nodes, pods, **changes)
    identity, state = engine.create(CLUSTER, inputs)
    return identity, inputs, state


def refusal(engine: Engine, token: str, inputs: dict[str, Any]) -> str:
    with pytest.raises(grpc.RpcError) as raised:
        engine.create(token, inputs)
    return str(raised.value)


def test_an_empty_account_has_no_cluster_and_no_credential(engine: Engine) -> None:
    assert engine.invoke("alicloud:cs/getClusters:getClusters")["clusters"] == []
    assert engine.invoke(MANAGED, enableDetails=True)["clusters"] == []
    with pytest.raises(grpc.RpcError, match="ErrorClusterNotFound"):
        engine.invoke(CREDENTIAL, clusterId="c1")


def test_queries_report_a_created_cluster_like_an_existing_cluster(engine: Engine, layout: Layout) -> None:
    identity, inputs, state = create_cluster(engine)
    [found] = engine.invoke("alicloud:cs/getClusters:getClusters", ids=[identity])["clusters"]
    reported = {
        name: found[name] for name in ("clusterName", "state", "regionId", "vpcId", "vswitchIds", "currentVersion")
    }
    assert reported == {
        "clusterName": "gpus",
        "state": "running",
        "regionId": REGION,
        "vpcId": state["vpcId"],
        "vswitchIds": inputs["vswitchIds"],
        "currentVersion": "1.36.3-aliyun.1",
    }
    [managed] = engine.invoke(MANAGED, ids=[identity], enableDetails=True)["clusters"]
    assert managed.keys() <= sdk_keys(alicloud.cs.outputs.GetManagedKubernetesClustersClusterResult)
    assert managed["connections"] == state["connections"]
    assert managed["connections"][0].keys() <= sdk_keys(
        alicloud.cs.outputs.GetManagedKubernetesClustersClusterConnectionResult
    )
    assert engine.invoke(CREDENTIAL, clusterId=identity)["kubeConfig"] == layout.kubeconfig.read_text()


def test_the_administrators_key_can_be_kept_out_of_the_state(engine: Engine, layout: Layout) -> None:
    identity, inputs, state = create_cluster(engine)
    assert state["certificateAuthorities"] == []
    engine.delete(CLUSTER, identity)
    key = yaml.safe_load(layout.kubeconfig.read_text())["users"][0]["user"]["client-key-data"]
    _, state = engine.create(CLUSTER, {**inputs, "skipSetCertificateAuthority": False})
    assert state["certificateAuthorities"][0]["clientKey"] == key


def test_a_preview_shows_the_requested_version(engine: Engine) -> None:
    inputs = cluster_inputs(["vsw-1"], ["vsw-2"], version="1.35.2-aliyun.1")
    _, state = engine.create(CLUSTER, inputs, preview=True)
    assert state["version"] == "1.35.2-aliyun.1"
    assert engine.store.read().cluster is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        # The real API refuses a cluster without pod vSwitches.
        ({"podVswitchIds": []}, "InvalidPodVswitchIds"),
        ({"serviceCidr": "10.0.240.0/20"}, "InvalidServiceCidr: 10.0.240.0/20 overlaps with the VPC's 10.0.0.0/16"),
        ({"vswitchIds": ["vsw-gone"]}, "InvalidVSwitchId.NotFound: the vSwitch vsw-gone does not exist"),
    ],
    ids=["no vSwitch for pods", "overlap", "no such vSwitch"],
)
def test_a_cluster_with_an_invalid_network_is_refused(engine: Engine, changes: dict[str, Any], reason: str) -> None:
    _, nodes, pods = create_network(engine)
    assert reason in refusal(engine, CLUSTER, cluster_inputs(nodes, pods, **changes))
    assert engine.store.read().cluster is None


def test_a_zone_with_pod_vswitches_needs_node_vswitches(engine: Engine) -> None:
    _, nodes, pods = create_network(engine)
    assert "the nodes have no vSwitch in zone cn-beijing-k" in refusal(engine, CLUSTER, cluster_inputs(nodes[:1], pods))


def test_a_second_cluster_is_refused(engine: Engine) -> None:
    identity, inputs, _ = create_cluster(engine)
    assert f"and {identity} exists" in refusal(engine, CLUSTER, inputs)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"vpcId": "vpc-gone"}, "InvalidVpcId.NotFound"),
        ({"zoneId": "cn-hangzhou-h"}, "InvalidZoneId.NotFound: cn-beijing has no zone cn-hangzhou-h"),
        ({"cidrBlock": "10.1.0.0/20"}, "InvalidCidrBlock: 10.1.0.0/20 is not a block"),
        ({"cidrBlock": "10.0.0.0/30"}, "InvalidCidrBlock: 10.0.0.0/30 is not a block"),
        ({"cidrBlock": "10.0.8.0/21"}, "InvalidCidrBlock.Overlapped: 10.0.8.0/21 overlaps"),
    ],
    ids=str,
)
def test_an_invalid_vswitch_is_refused(engine: Engine, changes: dict[str, Any], reason: str) -> None:
    vpc, *_ = create_network(engine)
    inputs = {"vpcId": vpc, "zoneId": ZONES[0], "cidrBlock": "10.0.48.0/20", **changes}
    assert reason in refusal(engine, SWITCH, inputs)


def test_deletion_protection_must_be_off_to_delete_a_cluster(engine: Engine) -> None:
    identity, inputs, state = create_cluster(engine, deletionProtection=True)
    with pytest.raises(grpc.RpcError, match="ErrorDeletionProtection"):
        engine.delete(CLUSTER, identity)
    assert engine.read(CLUSTER, identity).id == identity
    engine.update(CLUSTER, identity, state, {**inputs, "deletionProtection": False})
    engine.delete(CLUSTER, identity)
    assert engine.read(CLUSTER, identity).id == ""


def test_only_an_unused_network_can_be_deleted(engine: Engine) -> None:
    identity, inputs, state = create_cluster(engine)
    [node_vswitch, *_], [pod_vswitch, *_], vpc = inputs["vswitchIds"], inputs["podVswitchIds"], state["vpcId"]
    for vswitch in (node_vswitch, pod_vswitch):
        with pytest.raises(grpc.RpcError, match=f"DependencyViolation: the vSwitch {vswitch} is used by"):
            engine.delete(SWITCH, vswitch)
    engine.delete(CLUSTER, identity)
    with pytest.raises(grpc.RpcError, match=f"DependencyViolation.VSwitch: the VPC {vpc} has vSwitches"):
        engine.delete(NETWORK, vpc)
    for vswitch in (*inputs["vswitchIds"], *inputs["podVswitchIds"]):
        engine.delete(SWITCH, vswitch)
    engine.delete(NETWORK, vpc)
    assert engine.store.read().resources == {}


def test_a_vswitch_of_a_node_pool_cannot_be_deleted(engine: Engine) -> None:
    identity, *_ = create_cluster(engine)
    pool = {"clusterId": identity, "nodePoolName": "cpu", "instanceTypes": ["ecs.g7.xlarge"], "desiredSize": "2"}
    extra, _ = engine.create(SWITCH, {"vpcId": vpc_id(engine), "zoneId": ZONES[0], "cidrBlock": "10.0.48.0/20"})
    engine.create(NODE_POOL, {**pool, "vswitchIds": [extra]})
    with pytest.raises(grpc.RpcError, match="is used by a NodePool"):
        engine.delete(SWITCH, extra)


def vpc_id(engine: Engine) -> str:
    [vpc] = engine.invoke(NETWORKS)["ids"]
    return str(vpc)


def test_deleting_a_cluster_deletes_its_cloud_resources(engine: Engine) -> None:
    identity, _, _ = create_cluster(engine)
    engine.create(
        NODE_POOL,
        {"clusterId": identity, "nodePoolName": "cpu", "instanceTypes": ["ecs.g7.xlarge"], "desiredSize": "1"},
    )
    engine.create(PROMETHEUS, {**INSTANCE, "clusterId": identity})
    engine.delete(CLUSTER, identity)
    assert {resource.type for resource in engine.store.read().resources.values()} == {NETWORK, SWITCH}


def test_an_update_without_a_version_keeps_the_current_version(engine: Engine) -> None:
    identity, inputs, state = create_cluster(engine)
    newer = engine.update(CLUSTER, identity, state, {**inputs, "version": "1.37.1-aliyun.1"})
    assert newer["version"] == values(engine.read(CLUSTER, identity).properties)["version"] == "1.37.1-aliyun.1"
    assert engine.update(CLUSTER, identity, newer, inputs)["version"] == "1.37.1-aliyun.1"


def test_network_queries_match_the_sdk(engine: Engine) -> None:
    vpc, nodes, pods = create_network(engine)
    add_network(engine.store, "192.168.0.0/16", {"vsw-theirs": ("cn-beijing-h", "192.168.0.0/20")})
    [found] = engine.invoke(SWITCHES, ids=[nodes[0]])["vswitches"]
    assert found.keys() <= sdk_keys(alicloud.vpc.outputs.GetSwitchesVswitchResult)
    assert (found["vpcId"], found["zoneId"], found["cidrBlock"]) == (vpc, "cn-beijing-h", "10.0.0.0/20")
    assert set(engine.invoke(SWITCHES)["ids"]) == {*nodes, *pods, "vsw-theirs"}
    [network] = engine.invoke(NETWORKS, ids=[vpc])["vpcs"]
    assert network.keys() <= sdk_keys(alicloud.vpc.outputs.GetNetworksVpcResult)
    assert set(network["vswitchIds"]) == {*nodes, *pods}
    assert len(engine.invoke(NETWORKS)["ids"]) == 2


def test_without_a_public_endpoint_the_kubeconfig_has_the_private_endpoint(engine: Engine, layout: Layout) -> None:
    identity, _, state = create_cluster(engine, slbInternetEnabled=False)
    intranet = f"https://{layout.intranet_address}:6443"
    assert (state["connections"][0]["apiServerInternet"], state["connections"][0]["apiServerIntranet"]) == (
        "",
        intranet,
    )
    content = yaml.safe_load(engine.invoke(CREDENTIAL, clusterId=identity)["kubeConfig"])
    assert content["clusters"][0]["cluster"]["server"] == intranet


def certificate(content: str) -> x509.Certificate:
    user = yaml.safe_load(content)["users"][0]["user"]
    return x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))


def test_each_temporary_credential_is_new_and_ends_at_its_expiration(engine: Engine) -> None:
    identity, _, _ = create_cluster(engine)
    before = datetime.datetime.now(datetime.UTC)
    first, second = (engine.invoke(CREDENTIAL, clusterId=identity, temporaryDurationMinutes=15) for _ in range(2))
    assert first["kubeConfig"] != second["kubeConfig"]
    expiration = datetime.datetime.fromisoformat(second["expiration"])
    assert certificate(second["kubeConfig"]).not_valid_after_utc == expiration
    # Certificates carry whole seconds.
    earliest, latest = (moment.replace(microsecond=0) for moment in (before, datetime.datetime.now(datetime.UTC)))
    assert earliest <= expiration - datetime.timedelta(minutes=15) <= latest


def test_renewing_the_kubeconfig_revokes_earlier_credentials(layout: Layout) -> None:
    before = layout.kubeconfig.read_text()

    def trusted(content: str) -> bool:
        for authority in x509.load_pem_x509_certificates(layout.client_authorities.read_bytes()):
            with contextlib.suppress(ValueError, InvalidSignature):
                certificate(content).verify_directly_issued_by(authority)
                return True
        return False

    assert trusted(before)
    temporary = temporary_kubeconfig(layout, datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=15))
    assert trusted(temporary)
    renew_kubeconfig(layout)
    assert [trusted(content) for content in (before, temporary, layout.kubeconfig.read_text())] == [False, False, True]
    assert layout.kubeconfig.stat().st_mode & 0o777 == 0o600


def test_deleting_a_cluster_revokes_its_credentials(engine: Engine, layout: Layout) -> None:
    before = layout.kubeconfig.read_text()
    identity, _, _ = create_cluster(engine)
    engine.delete(CLUSTER, identity)
    assert layout.kubeconfig.read_text() != before
    with pytest.raises(grpc.RpcError, match="ErrorClusterNotFound"):
        engine.invoke(CREDENTIAL, clusterId=identity)
