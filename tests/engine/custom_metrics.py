"""A stand-in for Prometheus and the adapter: it serves `custom.metrics.k8s.io` from a table.

It is simulated since hundreds of HPAs are to read what a table says at each of their syncs, to the thousandth, and a
reading that goes through scrapes and rules comes when it comes. How the real adapter serves is what the other engine
tests see.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import trustme
from aiohttp import web
from kubernetes import client

from autoscaling.ack.versions import CUSTOM_METRICS_PATH
from tests.engine.hpa_situations import Samples

NAME, NAMESPACE, PORT = "table", "default", 6444


@dataclass
class Asked:
    """What one HPA is answered, sync by sync, and when it asked; after the last answer its metrics are broken."""

    answers: Sequence[Samples]
    times: list[float] = field(default_factory=list)

    @property
    def answered(self) -> list[float]:
        """When each answer was given; seconds on a monotonic clock."""
        return self.times[: len(self.answers)]

    @property
    def over(self) -> bool:
        """Whether the HPA has asked once more, and so is done with the last answer."""
        return len(self.times) > len(self.answers)


def metric_name(hpa: str, number: int) -> str:
    """Metric number `number` of an HPA."""
    return f"{hpa}.{number}"


class Table:
    """The answers for each HPA by its name; a pod of the answers is the HPA's pod of that name."""

    def __init__(self, answers: Mapping[str, Sequence[Samples]]) -> None:
        self.asked = {name: Asked(samples) for name, samples in answers.items()}

    async def answer(self, request: web.Request) -> web.Response:
        hpa, _, number = request.match_info["metric"].partition(".")
        asked = self.asked[hpa]
        # The controller reads the metrics of an HPA one after the other.
        if number == "0":
            asked.times.append(0)
        asked.times[-1] = time.monotonic()
        values = {} if asked.over else asked.answers[len(asked.times) - 1][int(number)]
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        items = [
            {
                "describedObject": {"kind": "Pod", "apiVersion": "v1", "namespace": NAMESPACE, "name": f"{hpa}-{pod}"},
                "metricName": request.match_info["metric"],
                "timestamp": now,
                "value": f"{value}m",
            }
            for pod, value in values.items()
        ]
        version = CUSTOM_METRICS_PATH.removeprefix("/apis/")
        return web.json_response({"kind": "MetricValueList", "apiVersion": version, "metadata": {}, "items": items})

    async def discovery(self, request: web.Request) -> web.Response:
        version = CUSTOM_METRICS_PATH.removeprefix("/apis/")
        return web.json_response(
            {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": []}
        )


@contextlib.contextmanager
def serving(table: Table, address: str) -> Iterator[bytes]:
    """Serve the table for the duration of a `with` block; gives the certificate of its authority."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(f"{NAME}.{NAMESPACE}.svc").configure_cert(context)
    application = web.Application()
    application.router.add_get(CUSTOM_METRICS_PATH, table.discovery)
    application.router.add_get(CUSTOM_METRICS_PATH + "/namespaces/{namespace}/pods/{pods}/{metric}", table.answer)
    loop, started = asyncio.new_event_loop(), threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, address, PORT, ssl_context=context).start()
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        assert started.wait(10), f"{address}:{PORT} can't be served"
        yield authority.cert_pem.bytes()
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def register(api: client.ApiClient, address: str, authority: bytes) -> None:
    """Make the API server send the custom metrics API there."""
    client.CoreV1Api(api).create_namespaced_service(
        NAMESPACE, {"metadata": {"name": NAME}, "spec": {"type": "ExternalName", "externalName": address}}
    )
    group, version = CUSTOM_METRICS_PATH.removeprefix("/apis/").split("/")
    client.ApiregistrationV1Api(api).create_api_service(
        {
            "metadata": {"name": f"{version}.{group}"},
            "spec": {
                "group": group,
                "version": version,
                "service": {"name": NAME, "namespace": NAMESPACE, "port": PORT},
                "caBundle": base64.b64encode(authority).decode(),
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        }
    )
