"""A stand-in for Prometheus and the adapter: it serves `custom.metrics.k8s.io` from a table.

Hundreds of HPAs must each read an exact value at each sync; scrapes and rules are not that precise.
The other engine tests use the real adapter.
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
class Requests:
    """The answers for an HPA, one for each sync, and the times of its requests. Later requests get an empty list."""

    answers: Sequence[Samples]
    times: list[float] = field(default_factory=list)

    @property
    def answered(self) -> list[float]:
        """The time of each answer, in seconds on a monotonic clock."""
        return self.times[: len(self.answers)]

    @property
    def finished(self) -> bool:
        """Whether the HPA has sent another request, and so has processed the last answer."""
        return len(self.times) > len(self.answers)


def metric_name(hpa: str, number: int) -> str:
    """Return the name of metric `number` of an HPA."""
    return f"{hpa}.{number}"


class Table:
    """The answers by HPA name; the pod names in them lack the prefix `<hpa>-`."""

    def __init__(self, answers: Mapping[str, Sequence[Samples]]) -> None:
        self.requests = {name: Requests(samples) for name, samples in answers.items()}

    async def answer(self, request: web.Request) -> web.Response:
        hpa, _, number = request.match_info["metric"].partition(".")
        requests = self.requests[hpa]
        # The controller reads the metrics of an HPA in order.
        if number == "0":
            requests.times.append(0)
        requests.times[-1] = time.monotonic()
        values = {} if requests.finished else requests.answers[len(requests.times) - 1][int(number)]
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
    """Serve the table during the `with` block; yield the CA certificate."""
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
        assert started.wait(10), f"the server on {address}:{PORT} does not start"
        yield authority.cert_pem.bytes()
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def register(api: client.ApiClient, address: str, authority: bytes) -> None:
    """Register the address as the custom metrics API."""
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
