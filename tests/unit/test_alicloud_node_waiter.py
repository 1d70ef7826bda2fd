"""Waiting for a node pool's nodes, against an API server of a few lines."""

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
    """Answers each list of the pool's nodes with the next of `rounds`; the last one stays."""

    rounds: list[list[str] | int]
    asked: list[str]


class Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.asked += parse_qs(urlsplit(self.path).query)["labelSelector"]
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
    server.asked = []
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
    """A cloud with a fixed pool `np1` and an autoscaling one, `np2`."""
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


def test_it_waits_until_the_wanted_nodes_are_ready(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[], [STARTING], [READY, STARTING], [READY, READY]]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np1", 2)
    assert api.asked == ["alibabacloud.com/nodepool-id=np1"] * 4


def test_a_fixed_pool_waits_until_surplus_nodes_are_gone(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[READY, READY, READY], [READY, READY], [READY]]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np1", 1)
    assert len(api.asked) == 3


def test_an_autoscaling_pool_may_have_more_than_its_minimum(
    api: ApiServer, kubeconfig: Path, store: CloudStore
) -> None:
    api.rounds = [[READY, READY, READY]]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np2", 1)
    assert len(api.asked) == 1


def test_a_deleted_pool_waits_for_nodes_that_are_not_ready_too(
    api: ApiServer, kubeconfig: Path, store: CloudStore
) -> None:
    api.rounds = [[STARTING], []]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np1", None)
    assert len(api.asked) == 2


def test_an_api_server_that_fails_is_asked_again(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [503, [READY]]
    node_waiter(kubeconfig, store, threading.Event(), seconds=5)("np1", 1)
    assert len(api.asked) == 2


def test_the_end_of_the_time_is_told_with_what_there_is(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[READY, STARTING]]
    with pytest.raises(RehearsalError) as refusal:
        node_waiter(kubeconfig, store, threading.Event(), seconds=0.3)("np1", 2)
    assert str(refusal.value) == (
        "Node pool np1 needs 2 Ready nodes, but after 0.3 s it had 2 nodes, 1 of them Ready. "
        "Check `kubectl get nodes -l alibabacloud.com/nodepool-id=np1`, then run `pulumi` again."
    )


def test_a_cancelled_operation_does_not_wait(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    api.rounds = [[]]
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(RehearsalError, match="at least 1 Ready nodes, but when the operation was cancelled it had 0"):
        node_waiter(kubeconfig, store, cancelled)("np2", 1)
    assert len(api.asked) == 1


def test_a_cluster_that_does_not_answer_is_named(api: ApiServer, kubeconfig: Path, store: CloudStore) -> None:
    content = kubeconfig.read_text().replace(str(api.server_port), "1")
    kubeconfig.write_text(content)
    with pytest.raises(RehearsalError, match="the cluster did not respond"):
        node_waiter(kubeconfig, store, threading.Event(), seconds=0.3)("np1", 1)


def test_without_a_kubeconfig_there_is_no_cloud(store: CloudStore, tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="The rehearsal cloud is not running"):
        node_waiter(tmp_path / "none", store, threading.Event(), seconds=5)("np1", 1)
