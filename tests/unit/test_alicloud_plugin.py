"""The plugin's answers, asked as the engine asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import provider_pb2

from rehearsal.alicloud.plugin import AlicloudProvider
from rehearsal.alicloud.schema import UNKNOWN
from rehearsal.alicloud.store import NODE_POOL, PROMETHEUS, CloudStore
from rehearsal.layout import Layout

CLUSTER = "c0123456789abcdef0123456789abcdef"
POOL = {
    "clusterId": CLUSTER,
    "nodePoolName": "gpu",
    "instanceTypes": ["ecs.gn6v-c8g1.2xlarge"],
    "scalingConfig": {"enable": True, "minSize": 2, "maxSize": 4, "type": "gpu"},
}


class Refusal(Exception):
    pass


class _Context:
    """Only what the plugin uses of a request's context: to refuse it."""

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise Refusal(details)


CONTEXT = cast(grpc.ServicerContext, _Context())


class Cloud:
    def __init__(self, folder: Path) -> None:
        layout = Layout(folder)
        layout.cloud.mkdir(parents=True)
        layout.kubeconfig.write_text("a kubeconfig")
        layout.prometheus_api_url.write_text("http://127.0.0.1:9090/api/v1/prometheus/token/1/c/cn-hangzhou")
        self.store = CloudStore(layout.store)
        self.store.create(CLUSTER, "cn-hangzhou", "1.36.3-aliyun.1")
        self.waited: list[int | None] = []
        self.provider = AlicloudProvider(layout, lambda _, count: self.waited.append(count))
        self.configure("cn-hangzhou")

    def configure(self, region: str) -> None:
        self.provider.Configure(provider_pb2.ConfigureRequest(args=struct({"region": region})), CONTEXT)

    def create(self, token: str, inputs: dict[str, Any], *, preview: bool = False) -> Any:
        request = provider_pb2.CreateRequest(urn=urn(token), properties=struct(inputs), preview=preview)
        return self.provider.Create(request, CONTEXT)

    def invoke(self, token: str, arguments: dict[str, Any]) -> dict[str, Any]:
        request = provider_pb2.InvokeRequest(tok=token, args=struct(arguments))
        return json_format.MessageToDict(getattr(self.provider.Invoke(request, CONTEXT), "return"))


def struct(values: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(values, struct_pb2.Struct())


def urn(token: str) -> str:
    return f"urn:pulumi:rehearsal::ackgpu::ackgpu:index:Some${token}::name"


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    return Cloud(tmp_path)


def test_a_cluster_is_found_by_its_id_in_its_region_only(cloud: Cloud) -> None:
    token = "alicloud:cs/getClusters:getClusters"
    [cluster] = cloud.invoke(token, {"ids": [CLUSTER], "enableDetails": True})["clusters"]
    assert cluster["state"] == "running"
    assert cluster["vswitchIds"]
    assert cloud.invoke(token, {"ids": ["other"]})["clusters"] == []
    cloud.configure("cn-beijing")
    assert cloud.invoke(token, {"ids": [CLUSTER]})["clusters"] == []


def test_a_credential_of_another_cluster_is_refused_as_the_vendor_words_it(cloud: Cloud) -> None:
    token = "alicloud:cs/getClusterCredential:getClusterCredential"
    assert cloud.invoke(token, {"clusterId": CLUSTER})["kubeConfig"] == "a kubeconfig"
    with pytest.raises(Refusal, match="ErrorClusterNotFound"):
        cloud.invoke(token, {"clusterId": "other"})


def test_prometheus_has_an_address_once_it_exists_and_only_with_details(cloud: Cloud) -> None:
    token = "alicloud:arms/getPrometheus:getPrometheus"
    assert cloud.invoke(token, {"ids": [CLUSTER], "enableDetails": True})["prometheis"] == []
    cloud.create(PROMETHEUS, {"clusterId": CLUSTER, "clusterType": "aliyun-cs", "grafanaInstanceId": "free"})
    [with_details] = cloud.invoke(token, {"ids": [CLUSTER], "enableDetails": True})["prometheis"]
    [without] = cloud.invoke(token, {"ids": [CLUSTER]})["prometheis"]
    assert with_details["httpApiIntraUrl"].startswith("http://127.0.0.1:9090/api/v1/prometheus/")
    assert without["httpApiIntraUrl"] == ""


def test_a_node_pool_waits_for_its_first_nodes_and_a_deleted_one_until_none_is_left(cloud: Cloud) -> None:
    created = cloud.create(NODE_POOL, POOL)
    assert cloud.waited == [2]
    assert cloud.store.node_pools()[0].max_size == 4
    request = provider_pb2.DeleteRequest(id=created.id, urn=urn(NODE_POOL))
    cloud.provider.Delete(request, CONTEXT)
    assert cloud.waited == [2, None]
    assert cloud.store.read().resources == {}
    cloud.provider.Delete(request, CONTEXT)


def test_a_preview_creates_nothing_and_knows_no_id(cloud: Cloud) -> None:
    answer = cloud.create(NODE_POOL, POOL, preview=True)
    assert cloud.store.read().resources == {}
    assert json_format.MessageToDict(answer.properties)["nodePoolId"] == UNKNOWN


@pytest.mark.parametrize(("changed", "replaces"), [("scalingConfig", []), ("clusterId", ["clusterId"])])
def test_only_what_the_vendor_cannot_change_replaces(cloud: Cloud, changed: str, replaces: list[str]) -> None:
    request = provider_pb2.DiffRequest(
        urn=urn(NODE_POOL), old_inputs=struct(POOL), news=struct({**POOL, changed: "another"})
    )
    answer = cloud.provider.Diff(request, CONTEXT)
    assert list(answer.diffs) == [changed]
    assert list(answer.replaces) == replaces


def test_equal_inputs_are_no_change(cloud: Cloud) -> None:
    request = provider_pb2.DiffRequest(urn=urn(NODE_POOL), old_inputs=struct(POOL), news=struct(POOL))
    assert cloud.provider.Diff(request, CONTEXT).changes == provider_pb2.DiffResponse.DIFF_NONE


def test_an_injected_fault_fails_as_often_as_asked_and_creates_nothing(cloud: Cloud) -> None:
    cloud.store.inject_fault(NODE_POOL, "OperationDenied.NoStock", times=2)
    for _ in range(2):
        with pytest.raises(Refusal, match=r"OperationDenied\.NoStock"):
            cloud.create(NODE_POOL, POOL)
    assert cloud.store.read().resources == {}
    assert cloud.create(NODE_POOL, POOL).id


def test_a_type_that_is_not_simulated_is_refused_at_check(cloud: Cloud) -> None:
    token = "alicloud:vpc/network:Network"
    request = provider_pb2.CheckRequest(urn=urn(token), news=struct({"cidrBlock": "10.0.0.0/8"}))
    [failure] = cloud.provider.Check(request, CONTEXT).failures
    assert failure.reason == f"{token} is not simulated by the rehearsal cloud"


def test_without_a_cloud_it_says_how_to_start_one(tmp_path: Path) -> None:
    provider = AlicloudProvider(Layout(tmp_path), lambda *_: None)
    request = provider_pb2.InvokeRequest(tok="alicloud:cs/getClusters:getClusters", args=struct({}))
    with pytest.raises(Refusal, match="No rehearsal cloud is up: start one with `make rehearse-up`"):
        provider.Invoke(request, CONTEXT)
