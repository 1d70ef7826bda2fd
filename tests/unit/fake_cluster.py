"""A fake API server with given answers, over HTTP or HTTPS on loopback."""

from __future__ import annotations

import json
import ssl
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote_plus

import yaml

from live.cluster_client import ClusterClient, connected
from live.verify import ServiceOutputs, StackOutputs

METRIC = "DCGM_CUSTOM_PROCESS_SM_UTIL"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta1"
REGISTRATION = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.custom.metrics.k8s.io"
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/bert"
POD_LIST = "/api/v1/namespaces/default/pods"
VALUES = f"{CUSTOM}/namespaces/default/pods/*/{METRIC}"
HPA = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/gpu-hpa"
PREDICT = "/predict"
ADAPTER_SERVICE = "/api/v1/namespaces/kube-system/services/ack-alibaba-cloud-metrics-adapter-custom-service"
ADAPTER_PODS = "/api/v1/namespaces/kube-system/pods"
ADAPTER_RULES = "/api/v1/namespaces/kube-system/configmaps/adapter-config"
PROMETHEUS = "/prometheus/token"


def pod(name: str, *, ready: bool = True, **status: Any) -> dict[str, Any]:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "status": {"phase": "Running" if ready else "Pending", "conditions": [condition], **status},
    }


def deployment(replicas: int) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "bert"}}
    return {
        "metadata": {"name": "bert", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": selector, "template": {}},
    }


def hpa(reading: str | None, desired: int, *, metric: str = METRIC, window: int | None = 0) -> dict[str, Any]:
    current = {"type": "Pods", "pods": {"metric": {"name": metric}, "current": {"averageValue": reading}}}
    target = {"metric": {"name": metric}, "target": {"type": "AverageValue", "averageValue": "20"}}
    return {
        "metadata": {"name": "gpu-hpa", "namespace": "default"},
        "spec": {
            "maxReplicas": 10,
            "scaleTargetRef": {"kind": "Deployment", "name": "bert"},
            "metrics": [{"type": "Pods", "pods": target}],
            "behavior": None if window is None else {"scaleDown": {"stabilizationWindowSeconds": window}},
        },
        "status": {
            "desiredReplicas": desired,
            "conditions": [{"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": ""}],
            "currentMetrics": [] if reading is None else [current],
        },
    }


def registration(**status: str) -> dict[str, Any]:
    service = {"namespace": "kube-system", "name": "ack-alibaba-cloud-metrics-adapter-custom-service"}
    return {
        "metadata": {"name": "v1beta1.custom.metrics.k8s.io"},
        "spec": {"groupPriorityMinimum": 100, "versionPriority": 100, "service": service},
        "status": {"conditions": [{"type": "Available", **status}]},
    }


RULE: dict[str, Any] = {
    "seriesQuery": f'{METRIC}{{NamespaceName!="",PodName!=""}}',
    "resources": {"overrides": {"NamespaceName": {"resource": "namespace"}, "PodName": {"resource": "pod"}}},
    "name": {"matches": f"^{METRIC}$", "as": METRIC},
    "metricsQuery": "avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
}


def adapter_pod(*arguments: str, ready: bool = True) -> dict[str, Any]:
    """Return the adapter's pod. By default, the fake cluster is also its Prometheus."""
    container = {"name": "c", "args": ["--v=5", *(arguments or [f"--prometheus-url=<host>{PROMETHEUS}"])]}
    volumes = [{"name": "token", "secret": {}}, {"name": "config", "configMap": {"name": "adapter-config"}}]
    metadata = {"name": "adapter-1", "namespace": "kube-system"}
    spec = {"containers": [container], "volumes": volumes}
    return {**pod("adapter-1", ready=ready), "metadata": metadata, "spec": spec}


def config_map(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"README": "a: [b", "config.yaml": yaml.safe_dump({"rules": list(rules)})}}


def series(*labels: dict[str, str]) -> dict[str, Any]:
    """Return Prometheus' answer to a query."""
    samples: list[dict[str, Any]] = [
        {"metric": {"__name__": METRIC, **labelset}, "value": [0, "1"]} for labelset in labels
    ]
    return {"status": "success", "data": {"resultType": "vector", "result": samples}}


def query(selector: str) -> str:
    return f"{PROMETHEUS}/api/v1/query?query={quote_plus(selector)}"


def healthy() -> dict[str, Any]:
    """Return the answers for a healthy, idle stack."""
    return {
        ADAPTER_SERVICE: {"spec": {"selector": {"app": "adapter"}}},
        ADAPTER_PODS: {"items": [adapter_pod()]},
        ADAPTER_RULES: config_map(RULE),
        REGISTRATION: registration(status="True"),
        CUSTOM: {"resources": [{"name": f"pods/{METRIC}"}]},
        DEPLOYMENT: deployment(1),
        POD_LIST: {"items": [pod("bert-1")]},
        VALUES: {"items": [{"describedObject": {"name": "bert-1"}, "value": "0"}]},
        "/apis/autoscaling": {"versions": [{"version": "v2"}, {"version": "v1"}]},
        HPA: hpa("0", 1),
        PREDICT: "PlayMusic",
    }


def kubeconfig_of(cluster: dict[str, Any], user: dict[str, Any] | None = None) -> str:
    """Return the content of a kubeconfig."""
    content = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    return yaml.safe_dump(content)


class FakeCluster:
    """Answers each path from `answers`; calls a callable for each request."""

    def __init__(self, host: str, answers: dict[str, Any]) -> None:
        self.host = host
        self.answers = answers
        self.requests: list[str] = []
        self.deleted: list[str] = []
        self.authorizations: dict[str, str | None] = {}
        """The header of the last request for each path."""

    @property
    def client(self) -> ClusterClient:
        return connected(self.kubeconfig)

    @property
    def kubeconfig(self) -> str:
        return kubeconfig_of({"server": self.host}, {"token": "t"})

    @property
    def raw_outputs(self) -> dict[str, Any]:
        """The outputs that the stack exports."""
        service = {
            "name": "bert",
            "namespace": "default",
            "deployment": "bert",
            "service": "bert-svc",
            "address": "192.0.2.1",
            "predictUrl": f"{self.host}{PREDICT}?query=Music",
            "answer": "PlayMusic",
            "hpa": "gpu-hpa",
            "metrics": [{"name": METRIC, "target": "20"}],
            "minReplicas": 1,
            "maxReplicas": 10,
        }
        return {
            "clusterId": "c1",
            "customMetricsPath": CUSTOM,
            "metricResources": [f"pods/{METRIC}"],
            "services": [service],
        }

    @property
    def outputs(self) -> StackOutputs:
        return StackOutputs.of("dev", self.raw_outputs)

    @property
    def service(self) -> ServiceOutputs:
        return self.outputs.services[0]

    def answer(self, path: str) -> tuple[int, str]:
        self.requests.append(path)
        content = self.answers.get(path, self.answers.get(path.partition("?")[0]))
        if callable(content):
            content = content()
        if content is None:
            content = (404, {"kind": "Status", "message": "no such object", "code": 404})
        status, body = content if isinstance(content, tuple) else (200, content)
        text = body if isinstance(body, str) else json.dumps(body)
        return status, text.replace("<host>", self.host)


@contextmanager
def running(answers: dict[str, Any], tls: ssl.SSLContext | None = None) -> Iterator[FakeCluster]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cluster.authorizations[self.path] = self.headers.get("Authorization")
            status, body = cluster.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if body.startswith("{") else "text/html")
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_DELETE(self) -> None:
            cluster.deleted.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the tests' output clean."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            # The client or the server rejected the other's certificate.
            if not isinstance(sys.exc_info()[1], ssl.SSLError):
                super().handle_error(request, client_address)

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            # Handshakes run in the connections' own threads, so a failure affects no other connection.
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        cluster = FakeCluster(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}", answers)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield cluster
        finally:
            server.shutdown()
            thread.join()


class Script:
    """An HPA and its pods. Each read of the HPA advances to the next moment; the last moment stays.

    Args:
        moments: the HPA's reading, its desired replicas, and the number of Ready pods.
        loaded: number of moments under load; a GET of `/load` answers after them.
    """

    def __init__(self, moments: Sequence[tuple[str | None, int, int]], loaded: int) -> None:
        self._moments = moments
        self._loaded = loaded
        self._reads = 0
        self._load_ended = threading.Event()

    @property
    def answers(self) -> dict[str, Any]:
        return {**healthy(), HPA: self._hpa, POD_LIST: self._pods, "/load": self._load}

    def _now(self) -> tuple[str | None, int, int]:
        return self._moments[min(self._reads, len(self._moments)) - 1]

    def _hpa(self) -> dict[str, Any]:
        if self._reads >= self._loaded:
            self._load_ended.set()
        self._reads += 1
        reading, desired, _ = self._now()
        return hpa(reading, desired)

    def _pods(self) -> dict[str, Any]:
        return {"items": [pod(f"bert-{number}") for number in range(self._now()[2])]}

    def _load(self) -> str:
        return "over" if self._load_ended.wait(timeout=20) else "the script did not reach the end of the load"
