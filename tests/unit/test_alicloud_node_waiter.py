"""Waiting for the nodes of a pool, with a minimal API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from rehearsal.alicloud.node_waiter import node_waiter
from rehearsal.alicloud.store import NODE_POOL, CloudResource, CloudStore
from rehearsal.errors import RehearsalError

READY, STARTING = "True", "False"


class ApiServer(ThreadingHTTPServer):
    """Answer each query for nodes with the next entry of `rounds`, and repeat the last entry."""

    rounds: list[list[str] | int]
    queries: list[str]


class Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.queries += parse_qs(urlsplit(self.path).query)["labelSelector"]
        rounds = self.server.rounds
        answer = rounds.pop(0) if len(rounds) > 1 else rounds[0]
        nodes = [
            {"metadata": {"name": f"n{i}"}, "status": {"conditions": [{"type": "Ready", "status": status}]}}
            for i, status in enumerate(answer if isinstance(answer, list) else [])
        ]
        self.send_response(200 if isinstance(answer, list) else answer)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": nodes}).encode())

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer(("127.0.0.1", 0), Handler)
    server.queries = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def kubeconfig(api: ApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def store(tmp_path: Path) -> CloudStore:
    """A cloud with a fixed pool `np1` and an autoscaling pool `np2`."""
    store = CloudStore(tmp_path / "cloud.json")
    store.create(cluster_id="c1", region="cn-beijing", version="1.36.3-aliyun.1")
    inputs = {"clusterId": "c1", "nodePoolName": "gpu", "instanceTypes": ["ecs.gn7i-c8g1.2xlarge"]}
    scaling = {"scalingConfig": {"enable": True, "minSize": 1, "maxSize": 9}}
    with store.transaction() as cloud:
        for pool_id, more in (("np1", {}), ("np2", scaling)):
            cloud.resources[f"c1:{pool_id}"] = CloudResource(
                type=NODE_POOL, inputs={**inputs, **more}, outputs={"nodePoolId": pool_id}
            )
    return store


def test_waits_until_all_nodes_are_ready(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[], [STARTING], [READY, STARTING], [READY, READY]]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np1", 2)
    assert api.queries == ["alibabacloud.com/nodepool-id=np1"] * 4


def test_a_fixed_pool_waits_until_surplus_nodes_are_gone(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[READY, READY, READY], [READY, READY], [READY]]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np1", 1)
    assert len(api.queries) == 3


def test_an_autoscaling_pool_can_have_more_than_its_minimum(
    api: ApiServer, kubeconfig: Path, store: CloudStore
) -> None:
    api.rounds = [[READY, READY, READY]]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np2", 1)
    assert len(api.queries) == 1


def test_deleting_a_pool_waits_until_all_nodes_are_gone(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[STARTING], []]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np1", None)
    assert len(api.queries) == 2


def test_a_failed_query_is_retried(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [503, [READY]]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np1", 1)
    assert len(api.queries) == 2


def test_a_timeout_reports_the_current_nodes(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[READY, STARTING]]
    with pytest.raises(RehearsalError) as failure:
        node_waiter(kubeconfig, store, threading.Event(), seconds=0.3)("np1", 2)
    assert str(failure.value) == (
        "Node pool np1 needs 2 Ready nodes, but after 0.3 s it had 2 nodes, 1 of them Ready. "
        "Check `kubectl get nodes -l alibabacloud.com/nodepool-id=np1`, then run the `pulumi` command again."
    )


def test_a_cancelled_operation_stops_waiting(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[]]
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(RehearsalError, match="at least 1 Ready nodes, but when the operation was cancelled it had 0"):
        node_waiter(kubeconfig, store, cancelled)("np2", 1)
    assert len(api.queries) == 1


def test_an_unreachable_cluster_is_reported(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    content = kubeconfig.read_text().replace(str(api.server_port), "1")
    kubeconfig.write_text(content)
    with pytest.raises(RehearsalError, match="the cluster did not respond"):
        node_waiter(kubeconfig, store, threading.Event(), seconds=0.3)("np1", 1)


def test_without_a_kubeconfig_the_cloud_is_not_running(store: CloudStore, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="The rehearsal cloud is not running"):
        node_waiter(tmp_path / "none", store, threading.Event(), seconds=5)("np1", 1)
