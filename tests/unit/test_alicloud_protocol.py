"""The plugin as the engine uses it: its protocol and its executable."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
import pulumi_alicloud as alicloud
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from rehearsal.alicloud.node_pools import report_size
from rehearsal.alicloud.plugin import install_plugin
from rehearsal.alicloud.schema import UNKNOWN
from rehearsal.alicloud.store import ADDON, NODE_POOL, PROMETHEUS, CloudStore
from rehearsal.alicloud.vendor_api import COMPUTED
from rehearsal.layout import CHECKOUT, Layout
from tests.rehearsed_account import fail_creations
from tests.unit.alicloud_engine import (
    ADDRESS,
    CLUSTER,
    INSTANCE,
    MONITORING,
    POOL,
    REGION,
    Engine,
    connected,
    sdk_keys,
    values,
)

CASES = json.loads((CHECKOUT / "tests" / "data" / "alicloud_check_cases.json").read_text())["cases"]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "un été à 杭州")
    layout.cloud.mkdir(parents=True)
    CloudStore(layout.store).create(cluster_id=CLUSTER, region=REGION, version="1.36.3-aliyun.1")
    layout.kubeconfig.write_text("apiVersion: v1\nkind: Config\n")
    layout.prometheus_api_url.write_text(ADDRESS)
    return layout


@pytest.fixture
def engine(layout: Layout) -> Iterator[Engine]:
    with connected(layout) as engine:
        yield engine


SIMULATED_CASES = [case for case in CASES if case["type"] in COMPUTED]


@pytest.mark.parametrize("case", SIMULATED_CASES, ids=lambda case: f"{case['type'].split(':')[-1]}: {case['case']}")
def test_check_accepts_and_refuses_like_the_real_provider(engine: Engine, case: dict[str, Any]) -> None:
    inputs = {key: UNKNOWN if value == "<unknown>" else value for key, value in case["inputs"].items()}
    assert len(engine.check(case["type"], inputs).failures) == len(case["failures"])


@pytest.mark.parametrize("token", ["alicloud:vpc/natGateway:NatGateway", "alicloud:cs/nodePol:NodePol"])
def test_a_type_that_is_not_simulated_is_refused(engine: Engine, token: str) -> None:
    [failure] = engine.check(token, {}).failures
    assert failure.reason == f"the rehearsal cloud does not simulate {token}"


def test_equal_inputs_in_different_notation_are_not_a_change(engine: Engine) -> None:
    scaling = {"enable": True, "minSize": 0, "maxSize": 4}
    checked = values(engine.check(NODE_POOL, {**POOL, "desiredSize": 1, "scalingConfig": [scaling]}).inputs)
    assert checked == {**POOL, "scalingConfig": scaling}
    answer = engine.diff(NODE_POOL, {**POOL, "desiredSize": 1, "scalingConfig": [scaling]}, checked)
    assert answer.changes == provider_pb2.DiffResponse.DIFF_NONE


@pytest.mark.parametrize(("key", "value", "replaces"), [("desiredSize", "2", []), ("clusterId", "c2", ["clusterId"])])
def test_a_change_replaces_a_resource_only_if_the_schema_requires_it(
    engine: Engine, key: str, value: str, replaces: list[str]
) -> None:
    answer = engine.diff(NODE_POOL, POOL, {**POOL, key: value})
    assert answer.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert (list(answer.diffs), list(answer.replaces)) == ([key], replaces)


def test_ids_have_the_vendors_form(engine: Engine) -> None:
    pool_id, outputs = engine.create(NODE_POOL, POOL)
    addon_id, _ = engine.create(ADDON, {**MONITORING, "name": "logtail-ds"})
    instance_id, _ = engine.create(PROMETHEUS, INSTANCE)
    assert pool_id == f"{CLUSTER}:{outputs['nodePoolId']}"
    assert outputs["scalingGroupId"].startswith("asg-")
    assert (addon_id, instance_id) == (f"{CLUSTER}:logtail-ds", CLUSTER)


def test_a_previewed_creation_has_unknown_outputs_and_creates_nothing(engine: Engine) -> None:
    _, outputs = engine.create(NODE_POOL, POOL, preview=True)
    assert outputs == {**POOL, "nodePoolId": UNKNOWN, "scalingGroupId": UNKNOWN}
    assert engine.store.read().resources == {}


def test_a_previewed_update_keeps_outputs_and_drops_removed_inputs(engine: Engine) -> None:
    identity, state = engine.create(NODE_POOL, {**POOL, "systemDiskSize": 120})
    previewed = engine.update(NODE_POOL, identity, state, {**POOL, "desiredSize": "2"}, preview=True)
    outputs = {"nodePoolId": state["nodePoolId"], "scalingGroupId": state["scalingGroupId"]}
    assert previewed == {**POOL, "desiredSize": "2", **outputs}
    assert values(engine.read(NODE_POOL, identity).properties) == state


def test_every_operation_on_a_pool_waits_for_its_nodes(engine: Engine) -> None:
    identity, state = engine.create(NODE_POOL, POOL)
    pool_id = state["nodePoolId"]
    engine.update(NODE_POOL, identity, state, {**POOL, "desiredSize": "3"})
    scaling = {"enable": True, "minSize": 2, "maxSize": 4}
    engine.update(NODE_POOL, identity, state, {**POOL, "scalingConfig": scaling})
    engine.delete(NODE_POOL, identity)
    assert engine.waits == [(pool_id, 1), (pool_id, 3), (pool_id, 2), (pool_id, None)]


def test_a_pool_without_ready_nodes_stays_in_the_state_for_the_next_up(engine: Engine) -> None:
    engine.nodes_missing = True
    with pytest.raises(grpc.RpcError) as failure:
        engine.create(NODE_POOL, POOL)
    metadata: Any = failure.value.trailing_metadata()
    status = status_pb2.Status.FromString(dict(metadata)["grpc-status-details-bin"])
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(detail)
    [identity] = engine.store.read().resources
    assert (detail.id, list(detail.reasons)) == (identity, ["the nodes are not Ready"])
    engine.nodes_missing = False
    engine.update(NODE_POOL, identity, values(detail.properties), values(detail.inputs))
    assert list(engine.store.read().resources) == [identity]


def test_a_refresh_reads_changed_and_deleted_resources(engine: Engine) -> None:
    identity, _ = engine.create(NODE_POOL, POOL)
    with engine.store.transaction() as cloud:
        cloud.resources[identity].inputs["desiredSize"] = "5"
    read = engine.read(NODE_POOL, identity)
    assert (values(read.inputs)["desiredSize"], values(read.properties)["desiredSize"]) == ("5", "5")
    with engine.store.transaction() as cloud:
        cloud.resources.clear()
    assert engine.read(NODE_POOL, identity).id == ""


def test_deleting_a_resource_twice_succeeds(engine: Engine) -> None:
    for token, inputs in ((NODE_POOL, POOL), (PROMETHEUS, INSTANCE), (ADDON, MONITORING)):
        identity, _ = engine.create(token, inputs)
        engine.delete(token, identity)
        engine.delete(token, identity)
    assert engine.store.read().resources == {}


@pytest.mark.parametrize("code", ["OperationDenied.NoStock", "QuotaExceeded", "Throttling"])
def test_an_injected_failure_affects_a_single_creation(engine: Engine, code: str) -> None:
    fail_creations(engine.store, NODE_POOL, code)
    with pytest.raises(grpc.RpcError, match=f"{code}: "):
        engine.create(NODE_POOL, POOL)
    assert engine.store.read().resources == {}
    engine.create(PROMETHEUS, INSTANCE)
    engine.create(NODE_POOL, POOL)


def test_a_pool_in_a_missing_cluster_is_refused(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError, match="ErrorClusterNotFound: the cluster c-gone does not exist"):
        engine.create(NODE_POOL, {**POOL, "clusterId": "c-gone"})
    assert engine.store.read().resources == {}


def test_an_installed_addon_is_adopted(engine: Engine) -> None:
    first, _ = engine.create(ADDON, MONITORING)
    second, state = engine.create(ADDON, {**MONITORING, "config": '{"a":1}'})
    assert (second, state["config"]) == (first, '{"a":1}')


def clusters(engine: Engine, **arguments: Any) -> list[str]:
    ids: list[str] = engine.invoke("alicloud:cs/getClusters:getClusters", **arguments)["ids"]
    return ids


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, True),
        ({"ids": [CLUSTER]}, True),
        ({"ids": ["c-gone"]}, False),
    ],
    ids=str,
)
def test_clusters_are_filtered_by_id(engine: Engine, arguments: dict[str, Any], found: bool) -> None:
    assert clusters(engine, **arguments) == ([CLUSTER] if found else [])


def test_only_the_clusters_of_the_configured_region_are_listed(engine: Engine) -> None:
    engine.configure("cn-shanghai")
    assert clusters(engine) == []


def test_the_cluster_query_is_stable_and_matches_the_sdk(engine: Engine) -> None:
    first, second = (
        engine.invoke("alicloud:cs/getClusters:getClusters", ids=[CLUSTER], enableDetails=True) for _ in range(2)
    )
    assert first == second
    [cluster] = first["clusters"]
    assert cluster.keys() <= sdk_keys(alicloud.cs.outputs.GetClustersClusterResult)
    assert (cluster["state"], cluster["regionId"]) == ("running", REGION)


def test_the_cluster_credential_is_the_clouds_kubeconfig(engine: Engine, layout: Layout) -> None:
    token = "alicloud:cs/getClusterCredential:getClusterCredential"
    assert engine.invoke(token, clusterId=CLUSTER)["kubeConfig"] == layout.kubeconfig.read_text()
    with pytest.raises(grpc.RpcError, match="ErrorClusterNotFound: the cluster c-gone does not exist"):
        engine.invoke(token, clusterId="c-gone")


def prometheis(engine: Engine, **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.invoke("alicloud:arms/getPrometheus:getPrometheus", **arguments)["prometheis"]
    return found


@pytest.mark.parametrize(("token", "inputs"), [(PROMETHEUS, INSTANCE), (ADDON, MONITORING)], ids=["instance", "add-on"])
def test_prometheus_is_listed_while_an_instance_exists(engine: Engine, token: str, inputs: dict[str, Any]) -> None:
    assert prometheis(engine, ids=[CLUSTER], enableDetails=True) == []
    identity, _ = engine.create(token, inputs)
    [instance] = prometheis(engine, ids=[CLUSTER], enableDetails=True)
    assert (instance["id"], instance["httpApiIntraUrl"]) == (CLUSTER, ADDRESS)
    assert instance.keys() <= sdk_keys(alicloud.arms.outputs.GetPrometheusPrometheiResult)
    assert prometheis(engine, ids=["c-gone"], enableDetails=True) == []
    engine.delete(token, identity)
    assert prometheis(engine, ids=[CLUSTER], enableDetails=True) == []


def test_addresses_are_empty_without_details(engine: Engine) -> None:
    engine.create(PROMETHEUS, INSTANCE)
    [instance] = prometheis(engine, ids=[CLUSTER])
    assert {value for key, value in instance.items() if key.endswith("Url")} == {""}


def test_a_function_that_is_not_simulated_is_refused(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError, match="the rehearsal cloud does not simulate alicloud:index/getZones:getZones"):
        engine.invoke("alicloud:index/getZones:getZones")


def test_configuring_without_a_running_cloud_says_how_to_start_it(engine: Engine, layout: Layout) -> None:
    layout.store.unlink()
    with pytest.raises(grpc.RpcError, match=r"The rehearsal cloud is not running\. Start it with `./ackgpu up`\."):
        engine.configure()


def test_cancel_reaches_the_provider(engine: Engine) -> None:
    engine.stub.Cancel(empty_pb2.Empty())
    assert engine.cancelled


@contextlib.contextmanager
def killed_at_exit(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    with process:
        try:
            yield process
        finally:
            process.kill()


def start_plugin(layout: Layout) -> subprocess.Popen[str]:
    [executable] = layout.pulumi_home.rglob("pulumi-resource-alicloud")
    # A module of the program must not shadow a module of the plugin.
    (layout.checkout / "grpc.py").write_text("raise SystemExit('the wrong module')")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(executable), "127.0.0.1:1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=layout.checkout, env=environment)


def test_the_plugin_is_installed_for_the_engine_and_ends_on_cancel(layout: Layout) -> None:
    install_plugin(layout)
    install_plugin(layout)
    folder = layout.pulumi_home / "plugins" / f"resource-alicloud-v{version('pulumi_alicloud')}"
    assert (folder / "pulumi-resource-alicloud").stat().st_mode & stat.S_IXUSR
    with killed_at_exit(start_plugin(layout)) as plugin:
        assert plugin.stdout
        with grpc.insecure_channel(f"127.0.0.1:{plugin.stdout.readline().strip()}") as channel:
            stub: Any = provider_pb2_grpc.ResourceProviderStub(channel)
            assert stub.GetPluginInfo(empty_pb2.Empty()).version == version("pulumi_alicloud")
            stub.Cancel(empty_pb2.Empty())
            assert plugin.wait(timeout=10) == 0


def test_the_plugin_ends_with_the_engine(layout: Layout) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    command = [sys.executable, "-m", "rehearsal.alicloud.plugin", str(layout.checkout)]
    ended = subprocess.run([*command, gone.stdout.strip()], cwd=CHECKOUT, capture_output=True, text=True, timeout=10)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > 0


def test_the_autoscalers_size_is_a_change_unless_ignored(engine: Engine) -> None:
    scaling = {"enable": True, "minSize": 1, "maxSize": 4}
    pool = {name: value for name, value in POOL.items() if name != "desiredSize"} | {"scalingConfig": scaling}
    identity, created = engine.create(NODE_POOL, pool)
    assert created["desiredSize"] == "1"
    report_size(engine.store, created["nodePoolId"], 3)
    read = engine.read(NODE_POOL, identity)
    state = values(read.properties)
    assert state["desiredSize"] == "3"
    assert "desiredSize" not in values(read.inputs)
    assert list(engine.diff(NODE_POOL, pool, pool, state=state).diffs) == ["desiredSize"]
    assert not engine.diff(NODE_POOL, pool, pool, state=state, ignore="desiredSize").diffs


def test_a_pool_without_autoscaling_gets_its_desired_size(engine: Engine) -> None:
    scaling = {"enable": True, "minSize": 1, "maxSize": 4}
    pool = {name: value for name, value in POOL.items() if name != "desiredSize"} | {"scalingConfig": scaling}
    identity, created = engine.create(NODE_POOL, pool)
    report_size(engine.store, created["nodePoolId"], 3)
    assert engine.update(NODE_POOL, identity, pool, POOL)["desiredSize"] == POOL["desiredSize"]
