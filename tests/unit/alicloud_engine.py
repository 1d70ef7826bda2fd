"""A client of the provider plugin that sends the engine's requests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from rehearsal.alicloud.plugin import AlicloudProvider
from rehearsal.alicloud.store import CloudStore
from rehearsal.errors import RehearsalError
from rehearsal.layout import Layout

CLUSTER, REGION = "c0123456789abcdef0123456789abcdef", "cn-beijing"
POOL = {"clusterId": CLUSTER, "nodePoolName": "gpu", "instanceTypes": ["ecs.gn7i-c8g1.2xlarge"], "desiredSize": "1"}
INSTANCE = {"clusterId": CLUSTER, "clusterType": "aliyun-cs", "grafanaInstanceId": "free"}
MONITORING = {"clusterId": CLUSTER, "name": "arms-prometheus", "config": "{}"}
ADDRESS = "http://127.64.0.1:9090/api/v1/prometheus/token/1/c/cn-beijing"


class Engine:
    """Send the engine's requests to the plugin."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.waits: list[tuple[str, int | None]] = []
        self.nodes_missing = False
        self.cancelled = False
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        provider = AlicloudProvider(layout, self._wait, self._cancel)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.stub: Any = provider_pb2_grpc.ResourceProviderStub(self._channel)

    def _wait(self, pool_id: str, count: int | None) -> None:
        self.waits.append((pool_id, count))
        if self.nodes_missing:
            raise RehearsalError("the nodes are not Ready")

    def _cancel(self) -> None:
        self.cancelled = True

    @property
    def store(self) -> CloudStore:
        return CloudStore(self.layout.store)

    def configure(self, region: str = REGION) -> Any:
        return self.stub.Configure(provider_pb2.ConfigureRequest(args=struct({"region": region})))

    def check(self, token: str, inputs: dict[str, Any]) -> Any:
        return self.stub.Check(provider_pb2.CheckRequest(urn=urn(token), news=struct(inputs)))

    def diff(
        self,
        token: str,
        old: dict[str, Any],
        new: dict[str, Any],
        *,
        state: dict[str, Any] | None = None,
        ignore: str = "",
    ) -> Any:
        """Send a diff; `state` is the state after the last read, if it differs from the old inputs."""
        request = provider_pb2.DiffRequest(
            urn=urn(token),
            old_inputs=struct(old),
            olds=struct(state or old),
            news=struct(new),
            ignoreChanges=[ignore] if ignore else [],
        )
        return self.stub.Diff(request)

    def create(self, token: str, inputs: dict[str, Any], *, preview: bool = False) -> tuple[str, dict[str, Any]]:
        request = provider_pb2.CreateRequest(urn=urn(token), properties=struct(inputs), preview=preview)
        answer = self.stub.Create(request)
        return answer.id, values(answer.properties)

    def read(self, token: str, identity: str) -> Any:
        return self.stub.Read(provider_pb2.ReadRequest(urn=urn(token), id=identity))

    def update(
        self, token: str, identity: str, old: dict[str, Any], new: dict[str, Any], *, preview: bool = False
    ) -> dict[str, Any]:
        request = provider_pb2.UpdateRequest(
            urn=urn(token), id=identity, olds=struct(old), news=struct(new), preview=preview
        )
        return values(self.stub.Update(request).properties)

    def delete(self, token: str, identity: str) -> None:
        self.stub.Delete(provider_pb2.DeleteRequest(urn=urn(token), id=identity))

    def invoke(self, token: str, **arguments: Any) -> dict[str, Any]:
        answer = self.stub.Invoke(provider_pb2.InvokeRequest(tok=token, args=struct(arguments)))
        return values(getattr(answer, "return"))

    def close(self) -> None:
        self._channel.close()
        self._server.stop(0).wait()


@contextlib.contextmanager
def connected(layout: Layout) -> Iterator[Engine]:
    """Connect an engine to the cloud of a layout."""
    engine = Engine(layout)
    engine.configure()
    yield engine
    engine.close()


def urn(token: str) -> str:
    return f"urn:pulumi:rehearsal::ackgpu::ackgpu:index:Parent${token}::name"


def struct(content: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(content, struct_pb2.Struct())


def values(message: struct_pb2.Struct) -> dict[str, Any]:
    return json_format.MessageToDict(message)


def sdk_keys(output_type: Any) -> set[str]:
    """Return the names of an SDK output's fields, in the provider's spelling."""
    getters: list[Any] = [value.fget for value in vars(output_type).values() if isinstance(value, property)]
    return {getattr(getter, "_pulumi_name", getter.__name__) for getter in getters}
