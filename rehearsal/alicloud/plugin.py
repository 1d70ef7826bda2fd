"""The provider plugin `alicloud`: the engine's own protocol before the simulated cloud.

The engine takes it for the vendor's provider: same name, same version, and it stands where the engine looks for it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent import futures
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from rehearsal.alicloud.schema import UNKNOWN, check, is_known, replaced_by
from rehearsal.alicloud.store import ADDON, NODE_POOL, PROMETHEUS, CloudResource, CloudStore
from rehearsal.errors import RehearsalError
from rehearsal.layout import CHECKOUT, Layout

_NODE_SECONDS = 120
_FAULTS = {
    "OperationDenied.NoStock": "the requested resource is sold out in the specified zone",
    "QuotaExceeded": "the quota of the resource is used up",
    "Throttling": "the request was denied due to request throttling",
}


def install_plugin(layout: Layout) -> None:
    """Put the plugin where the engine of this cloud looks for it."""
    name = "pulumi-resource-alicloud"
    folder = layout.pulumi_home / "plugins" / f"resource-alicloud-v{version('pulumi_alicloud')}"
    folder.mkdir(parents=True)
    executable = folder / name
    command = [sys.executable, "-m", __name__, "--checkout", str(layout.checkout)]
    executable.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(CHECKOUT))} exec {shlex.join(command)} "$@"\n')
    executable.chmod(0o755)


class _Refused(Exception):
    """What the vendor's API answers to a request it does not carry out."""


class AlicloudProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Serves the resources and functions that the program uses."""

    def __init__(self, layout: Layout, wait_for_nodes: Callable[[str, int | None], None]) -> None:
        self._layout = layout
        self._store = CloudStore(layout.store)
        self._wait_for_nodes = wait_for_nodes
        self._region = ""

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=version("pulumi_alicloud"))

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.GetSchemaResponse(schema="{}")

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        changed = _changed(_dict(request.old_inputs), _dict(request.news))
        replaces = [name for name in changed if name == "region"]
        return _diff(changed, replaces)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._region = _dict(request.args).get("region", "")
        return provider_pb2.ConfigureResponse()

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, inputs = _token(request.urn), _dict(request.news)
        if token not in (NODE_POOL, PROMETHEUS, ADDON):
            kind = "simulated" if is_known(token) else "known"
            failures = [provider_pb2.CheckFailure(reason=f"{token} is not {kind} by the rehearsal cloud")]
            return provider_pb2.CheckResponse(failures=failures)
        failures = [
            provider_pb2.CheckFailure(property=failure.property, reason=failure.reason)
            for failure in check(token, inputs)
        ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        changed = _changed(_dict(request.old_inputs), _dict(request.news))
        return _diff(changed, replaced_by(_token(request.urn), changed))

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, inputs = _token(request.urn), _dict(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=_struct({**inputs, **_unknown_outputs(token)}))
        return self._answer(context, lambda: self._create(token, inputs))

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        def read() -> Any:
            resource = self._store.read().resources.get(request.id)
            if resource is None:
                return provider_pb2.ReadResponse()
            return provider_pb2.ReadResponse(
                id=request.id, properties=_struct(_state(resource)), inputs=_struct(resource.inputs)
            )

        return self._answer(context, read)

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        inputs = _dict(request.news)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=_struct({**_dict(request.olds), **inputs}))
        return self._answer(context, lambda: self._update(request.id, inputs))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._answer(context, lambda: self._delete(request.id))

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        functions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "alicloud:cs/getClusters:getClusters": self._get_clusters,
            "alicloud:cs/getClusterCredential:getClusterCredential": self._get_credential,
            "alicloud:arms/getPrometheus:getPrometheus": self._get_prometheus,
        }

        def invoke() -> Any:
            if request.tok not in functions:
                raise _Refused(f"{request.tok} is not simulated by the rehearsal cloud")
            # `return` is the field's name, and a keyword of Python.
            fields: dict[str, Any] = {"return": _struct(functions[request.tok](_dict(request.args)))}
            return provider_pb2.InvokeResponse(**fields)

        return self._answer(context, invoke)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()

    @staticmethod
    def _answer(context: grpc.ServicerContext, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except (_Refused, RehearsalError) as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))

    def _create(self, token: str, inputs: dict[str, Any]) -> Any:
        with self._store.transaction() as cloud:
            fault = cloud.faults.get(token)
            if fault and fault.times > 0:
                fault.times -= 1
            else:
                fault = None
                identity, outputs = _identity(token, inputs)
                if identity in cloud.resources:
                    raise _Refused(f"ErrorAlreadyExists: {identity} exists already")
                cloud.resources[identity] = CloudResource(type=token, inputs=inputs, outputs=outputs)
                resource = cloud.resources[identity]
        if fault:
            raise _Refused(f"{fault.code}: {_FAULTS.get(fault.code, 'the request was refused')}")
        self._settle(resource)
        return provider_pb2.CreateResponse(id=identity, properties=_struct(_state(resource)))

    def _update(self, identity: str, inputs: dict[str, Any]) -> Any:
        with self._store.transaction() as cloud:
            resource = cloud.resources.get(identity)
            if resource is None:
                raise _Refused(f"ErrorNotFound: {identity} does not exist")
            resource.inputs = inputs
        self._settle(resource)
        return provider_pb2.UpdateResponse(properties=_struct(_state(resource)))

    def _delete(self, identity: str) -> Any:
        with self._store.transaction() as cloud:
            resource = cloud.resources.pop(identity, None)
        if resource and resource.type == NODE_POOL:
            self._wait_for_nodes(resource.outputs["nodePoolId"], None)
        return empty_pb2.Empty()

    def _settle(self, resource: CloudResource) -> None:
        if resource.type == NODE_POOL:
            pool_id = resource.outputs["nodePoolId"]
            pool = next(pool for pool in self._store.node_pools() if pool.id == pool_id)
            self._wait_for_nodes(pool_id, pool.first_nodes)

    def _get_clusters(self, arguments: dict[str, Any]) -> dict[str, Any]:
        cluster = self._store.read().cluster
        wanted = arguments.get("ids") or [arguments.get("clusterId") or cluster.cluster_id]
        found = cluster.cluster_id in wanted and cluster.region_id == self._region
        details = {
            "id": cluster.cluster_id,
            "clusterId": cluster.cluster_id,
            "clusterName": cluster.name,
            "currentVersion": cluster.current_version,
            "regionId": cluster.region_id,
            "state": cluster.state,
            "vpcId": cluster.vpc_id,
            "vswitchIds": cluster.vswitch_ids,
            # The SDK's class asks for every field.
            **dict.fromkeys(_CLUSTER_TEXTS, ""),
            "clusterSpec": "ack.pro.small",
            "clusterType": "ManagedKubernetes",
            "deletionProtection": True,
            "autoMode": {"enabled": False},
            "maintenanceWindow": {},
            "operationPolicy": {},
            "tags": {},
        }
        clusters = [details] if found else []
        ids = [entry["id"] for entry in clusters]
        return {**arguments, "id": str(uuid.uuid4()), "clusters": clusters, "ids": ids}

    def _get_credential(self, arguments: dict[str, Any]) -> dict[str, Any]:
        cluster = self._store.read().cluster
        if arguments.get("clusterId") != cluster.cluster_id:
            raise _Refused(f"ErrorClusterNotFound: cluster {arguments.get('clusterId')} not found")
        return {
            **arguments,
            "id": cluster.cluster_id,
            "clusterName": cluster.name,
            "kubeConfig": self._layout.kubeconfig.read_text(),
            "certificateAuthorities": [],
            "expiration": "",
        }

    def _get_prometheus(self, arguments: dict[str, Any]) -> dict[str, Any]:
        cluster = self._store.read().cluster
        wanted = arguments.get("ids") or [cluster.cluster_id]
        instances = []
        if cluster.cluster_id in wanted and self._store.has_prometheus():
            address = self._layout.prometheus_api_url.read_text() if arguments.get("enableDetails") else ""
            empty = dict.fromkeys(_PROMETHEUS_FIELDS, "")
            instances.append(
                {
                    **empty,
                    "id": cluster.cluster_id,
                    "clusterId": cluster.cluster_id,
                    "clusterName": cluster.name,
                    "clusterType": "aliyun-cs",
                    "grafanaInstanceId": "free",
                    "httpApiIntraUrl": address,
                    "tags": {},
                }
            )
        ids = [instance["id"] for instance in instances]
        return {
            **arguments,
            "id": str(uuid.uuid4()),
            "ids": ids,
            "names": [],
            "prometheis": instances,
        }


_CLUSTER_TEXTS = (
    "clusterDomain", "ipStack", "nodeCidrMask", "podCidr", "profile", "proxyMode", "resourceGroupId",
    "securityGroupId", "serviceCidr", "timezone",
)  # fmt: skip
_PROMETHEUS_FIELDS = (
    "authToken", "httpApiInterUrl", "pushGateWayInterUrl", "pushGateWayIntraUrl", "remoteReadInterUrl",
    "remoteReadIntraUrl", "remoteWriteInterUrl", "remoteWriteIntraUrl", "resourceGroupId", "securityGroupId",
    "subClustersJson", "vpcId", "vswitchId",
)  # fmt: skip


def _identity(token: str, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    cluster_id = inputs["clusterId"]
    if token == NODE_POOL:
        pool_id = f"np{uuid.uuid4().hex}"
        outputs = {"nodePoolId": pool_id, "scalingGroupId": f"asg-{uuid.uuid4().hex[:20]}"}
        return f"{cluster_id}:{pool_id}", outputs
    if token == ADDON:
        return f"{cluster_id}:{inputs['name']}", {}
    return cluster_id, {}


def _unknown_outputs(token: str) -> dict[str, str]:
    return {"nodePoolId": UNKNOWN, "scalingGroupId": UNKNOWN} if token == NODE_POOL else {}


def _state(resource: CloudResource) -> dict[str, Any]:
    return {**resource.inputs, **resource.outputs}


def _token(urn: str) -> str:
    return urn.split("::")[2].split("$")[-1]


def _dict(struct: struct_pb2.Struct) -> dict[str, Any]:
    return json_format.MessageToDict(struct)


def _struct(values: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(values, struct_pb2.Struct())


def _changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    return sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key) and key[:2] != "__")


def _diff(changed: list[str], replaces: list[str]) -> Any:
    some = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(changes=some, diffs=changed, replaces=replaces)


def wait_for_nodes(kubeconfig: Path) -> Callable[[str, int | None], None]:
    """A function that waits until a pool has that many Ready nodes, or with None until it has no node at all."""

    def wait(pool_id: str, count: int | None) -> None:
        from kubernetes import client, config

        from rehearsal.watch import POOL_LABEL

        core = client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
        deadline = time.monotonic() + _NODE_SECONDS
        while time.monotonic() < deadline:
            nodes = core.list_node(label_selector=f"{POOL_LABEL}={pool_id}").items
            ready = [
                node
                for node in nodes
                for condition in node.status.conditions or []
                if condition.type == "Ready" and condition.status == "True"
            ]
            if (not nodes) if count is None else len(ready) >= count:
                return
            time.sleep(0.2)
        raise _Refused(f"Timeout: node pool {pool_id} did not reach its size within {_NODE_SECONDS} s")

    return wait


def _end_with_engine(server: grpc.Server) -> None:
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        server.stop(0)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Serve on a free loopback port and print it, as the engine expects of a plugin."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkout", type=Path, required=True)
    arguments, _ = parser.parse_known_args()
    layout = Layout(arguments.checkout)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(
        AlicloudProvider(layout, wait_for_nodes(layout.kubeconfig)), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    _end_with_engine(server)
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
