"""The simulated HTTP API of Managed Prometheus: check the token in the path and query the real Prometheus."""

from __future__ import annotations

import secrets

import httpx
from aiohttp import web

from rehearsal.alicloud.store import CloudStore
from rehearsal.control_plane.kubeconfigs import write_private
from rehearsal.layout import PORTS, Layout

_FORWARDED = ("Content-Type",)


def write_address(layout: Layout, region: str) -> None:
    """Write the address that `getPrometheus` returns; as at the vendor, its path contains a token."""
    token, user = secrets.token_hex(16), secrets.randbelow(10**16)
    path = f"/api/v1/prometheus/{token}/{user}/{region}"
    write_private(layout.prometheus_api_url, f"http://{layout.address}:{PORTS.managed_prometheus}{path}".encode())


def application(layout: Layout, store: CloudStore, client: httpx.AsyncClient) -> web.Application:
    """Forward queries to the real Prometheus.

    Refuse a wrong token in the path, a cluster without an instance, and an instance of V2 without its AccessKey.
    """
    prefix = httpx.URL(layout.prometheus_api_url.read_text()).path
    upstream = f"http://{layout.address}:{PORTS.prometheus}"

    async def query(request: web.Request) -> web.Response:
        path = request.path.removeprefix(prefix)
        if path == request.path:
            raise web.HTTPForbidden(text="the token in the path is wrong\n")
        cloud = store.read()
        if cloud.prometheus() is None:
            raise web.HTTPNotFound(text="the cluster has no Prometheus instance\n")
        if not cloud.allows_query(request.headers.get("Authorization", "")):
            raise web.HTTPUnauthorized(text="the AccessKey may not read the instance\n")
        response = await client.request(
            request.method, upstream + path, params=request.query, content=await request.read()
        )
        headers = {name: response.headers[name] for name in _FORWARDED if name in response.headers}
        return web.Response(status=response.status_code, body=response.content, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", query)
    return app
