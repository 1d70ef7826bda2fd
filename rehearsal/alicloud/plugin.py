"""The provider plugin `alicloud`: Pulumi's provider protocol for the simulated cloud.

It has the name and version of the vendor's provider and is installed in the plugin folder, so the engine uses it.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Callable
from concurrent import futures
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from rehearsal.alicloud.answers import VendorError
from rehearsal.alicloud.node_waiter import WaitForNodes, node_waiter
from rehearsal.alicloud.schema import UNKNOWN, check, normalized, replacement_properties
from rehearsal.alicloud.store import CloudResource, CloudStore
from rehearsal.alicloud.vendor_api import COMPUTED, REPORTED_INPUTS, VendorApi
from rehearsal.errors import RehearsalError
from rehearsal.layout import CHECKOUT, Layout

_T = TypeVar("_T")

_REQUESTS_AT_ONCE = 16
_LAST_ANSWER_SECONDS = 5


def install_plugin(layout: Layout) -> None:
    """Install the plugin in this cloud's `PULUMI_HOME`."""
    name = "pulumi-resource-alicloud"
    folder = layout.pulumi_home / "plugins" / f"resource-alicloud-v{version('pulumi_alicloud')}"
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / name
    # The engine starts plugins in the program's folder; -P keeps its modules from shadowing ours.
    command = [sys.executable, "-P", "-m", __name__, str(layout.checkout)]
    executable.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(CHECKOUT))} exec {shlex.join(command)} "$PPID"\n',
        encoding="utf-8",
    )
    executable.chmod(0o755)


class AlicloudProvider(provider_pb2_grpc.ResourceProviderServicer):
    """Serve the resources and functions that the program uses; call `cancel` when the engine cancels."""

    def __init__(self, layout: Layout, wait_for_nodes: WaitForNodes, cancel: Callable[[], None] = lambda: None) -> None:
        self._vendor = VendorApi(layout, wait_for_nodes)
        self._cancel = cancel
        self._region = ""

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        # Do not accept secrets: the engine then unwraps them, and marks outputs of the same name as secret.
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=version("pulumi_alicloud"))

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.GetSchemaResponse(schema="{}")

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        changed = _changed(_dict(request.old_inputs), _dict(request.news))
        return _diff(changed, [name for name in changed if name == "region"])

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._region = _dict(request.args).get("region", "")
        _answer(context, self._vendor.require_running)
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, inputs = _token(request.urn), _dict(request.news)
        if token not in COMPUTED:
            reason = f"the rehearsal cloud does not simulate {token}"
            return provider_pb2.CheckResponse(failures=[provider_pb2.CheckFailure(reason=reason)])
        if failures := [provider_pb2.CheckFailure(**asdict(failure)) for failure in check(token, inputs)]:
            return provider_pb2.CheckResponse(inputs=request.news, failures=failures)
        return provider_pb2.CheckResponse(inputs=_struct(normalized(token, inputs)))

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, news = _token(request.urn), _dict(request.news)
        # Compare a value that the API reports with the input, even if the program does not set the input.
        reported = {key: value for key, value in _dict(request.olds).items() if key in REPORTED_INPUTS.get(token, ())}
        changed = _changed(normalized(token, _dict(request.old_inputs) | reported), normalized(token, news))
        changed = [name for name in changed if name not in request.ignoreChanges]
        return _diff(changed, replacement_properties(token, changed))

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, inputs = _token(request.urn), _dict(request.properties)
        if request.preview:
            unknown = dict.fromkeys(COMPUTED[token], UNKNOWN)
            return provider_pb2.CreateResponse(properties=_struct({**unknown, **inputs}))
        identity, resource = _answer(context, lambda: self._vendor.create(token, inputs, self._region))
        self._settle(context, identity, resource)
        return provider_pb2.CreateResponse(id=identity, properties=_struct(_state(resource)))

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = _answer(context, lambda: self._vendor.read(_token(request.urn), request.id))
        if resource is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=request.id, properties=_struct(_state(resource)), inputs=_struct(resource.inputs)
        )

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, inputs, before = _token(request.urn), _dict(request.news), _dict(request.olds)
        if request.preview:
            kept = {name: before[name] for name in COMPUTED[token] if name in before}
            return provider_pb2.UpdateResponse(properties=_struct({**kept, **inputs}))
        resource = _answer(context, lambda: self._vendor.update(token, request.id, inputs))
        self._settle(context, request.id, resource)
        return provider_pb2.UpdateResponse(properties=_struct(_state(resource)))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        _answer(context, lambda: self._vendor.delete(_token(request.urn), request.id))
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        result = _answer(context, lambda: self._vendor.query(request.tok, self._region, _dict(request.args)))
        # The field's name `return` is a Python keyword.
        fields: dict[str, Any] = {"return": _struct(result)}
        return provider_pb2.InvokeResponse(**fields)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._cancel()
        return empty_pb2.Empty()

    def _settle(self, context: grpc.ServicerContext, identity: str, resource: CloudResource) -> None:
        try:
            self._vendor.settle(resource)
        except RehearsalError as error:
            _abort_but_keep(context, identity, resource, str(error))


def _answer(context: grpc.ServicerContext, act: Callable[[], _T]) -> _T:
    try:
        return act()
    except (VendorError, RehearsalError) as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))


def _abort_but_keep(context: grpc.ServicerContext, identity: str, resource: CloudResource, reason: str) -> NoReturn:
    """Fail, but let the engine keep the resource; otherwise the next `up` would create it again."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=identity, properties=_struct(_state(resource)), inputs=_struct(resource.inputs), reasons=[reason]
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reason)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, reason)


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


def serve(layout: Layout, engine: int) -> None:
    """Print a free loopback port and serve on it until the engine cancels or ends."""
    cancelled = threading.Event()
    wait_for_nodes = node_waiter(layout.kubeconfig, CloudStore(layout.store), cancelled)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=_REQUESTS_AT_ONCE))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(
        AlicloudProvider(layout, wait_for_nodes, cancelled.set), server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    while os.getppid() == engine and not cancelled.wait(timeout=0.5):
        pass
    # If the engine has ended, stop waiting for nodes.
    cancelled.set()
    server.stop(_LAST_ANSWER_SECONDS).wait()


if __name__ == "__main__":
    serve(Layout(Path(sys.argv[1])), int(sys.argv[2]))
