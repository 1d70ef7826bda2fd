"""Simulated load balancers: each LoadBalancer Service gets a loopback address that forwards to its pods."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

from aiohttp import web

from autoscaling.ack.load_balancer import ADDRESS_TYPE
from live.cluster_client import Object
from rehearsal.layout import Layout
from rehearsal.simulation.cluster_copy import ClusterCopy, is_serving, selects
from rehearsal.simulation.inference import InferenceServers

_log = logging.getLogger(__name__)

_HEADERS = {"Server": "Werkzeug/1.0.1 Python/3.6.9", "Content-Type": "text/html; charset=utf-8"}
"""Headers that `curl -v` shows in the guide."""


class LoadBalancers:
    """Keep a listener for each LoadBalancer Service."""

    def __init__(self, layout: Layout, cluster: ClusterCopy, servers: InferenceServers) -> None:
        self._layout = layout
        self._cluster = cluster
        self._servers = servers
        self._listeners: dict[str, tuple[str, web.AppRunner]] = {}

    async def reconcile(self) -> None:
        """Open and publish a listener for each new Service, and close the listeners of deleted Services."""
        services = {
            service["metadata"]["uid"]: service
            for service in self._cluster.services
            if service["spec"].get("type") == "LoadBalancer" and "deletionTimestamp" not in service["metadata"]
        }
        for uid in self._listeners.keys() - services.keys():
            _, runner = self._listeners.pop(uid)
            await runner.cleanup()
        for uid in services.keys() - self._listeners.keys():
            await self._open(uid, services[uid])
        for uid, service in services.items():
            if uid in self._listeners and not service.get("status", {}).get("loadBalancer"):
                await self._publish(service, self._listeners[uid][0])

    async def close(self) -> None:
        """Close all listeners."""
        for _, runner in self._listeners.values():
            await runner.cleanup()
        self._listeners.clear()

    async def _open(self, uid: str, service: Object) -> None:
        used = {address for address, _ in self._listeners.values()}
        intranet = service["metadata"].get("annotations", {}).get(ADDRESS_TYPE) == "intranet"
        candidates = (self._layout.load_balancer_address(index, intranet=intranet) for index in itertools.count())
        address = next(candidate for candidate in candidates if candidate not in used)
        runner = web.AppRunner(self._application(service), access_log=None)
        await runner.setup()
        try:
            for port in service["spec"]["ports"]:
                await web.TCPSite(runner, address, port["port"], reuse_address=True, backlog=1024).start()
        except OSError as error:
            await runner.cleanup()
            name = f"{service['metadata']['namespace']}/{service['metadata']['name']}"
            await self._report(service, f"no listener for {name} on {address}: {error.strerror}")
            return
        self._listeners[uid] = (address, runner)

    async def _report(self, service: Object, message: str) -> None:
        _log.warning("%s", message)
        metadata = service["metadata"]
        identity = {key: metadata[key] for key in ("name", "namespace", "uid")}
        event: Any = {
            "metadata": {"generateName": metadata["name"] + "-", "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": "v1", "kind": "Service", **identity},
            "reason": "SyncLoadBalancerFailed",
            "message": message,
            "type": "Warning",
        }
        await asyncio.to_thread(self._cluster.core.create_namespaced_event, metadata["namespace"], event)
        # The next round retries; a port in use rarely becomes free at once.
        await asyncio.sleep(2)

    async def _publish(self, service: Object, address: str) -> None:
        metadata = service["metadata"]
        status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        await asyncio.to_thread(
            self._cluster.core.patch_namespaced_service_status, metadata["name"], metadata["namespace"], status
        )

    def _application(self, service: Object) -> web.Application:
        turn = itertools.count()

        async def predict(request: web.Request) -> web.Response:
            pods = [pod for pod in self._cluster.pods if is_serving(pod) and selects(service, pod)]
            if not pods:
                response = web.Response(status=503, text="no pod is ready\n")
            else:
                pod = pods[next(turn) % len(pods)]
                server = self._servers.server_of(pod["metadata"]["uid"])
                intent = await server.answer(request.query.get("query", ""))
                self._servers.answered += 1
                response = web.Response(text=intent, headers=_HEADERS)
            # The guide's service speaks HTTP/1.0, with a connection for each request.
            response.force_close()
            return response

        application = web.Application()
        application.router.add_get("/predict", predict)
        return application
