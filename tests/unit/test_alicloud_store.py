"""The state of the simulated cloud in a file that several processes share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rehearsal.alicloud.node_pools import NodePool, node_pools
from rehearsal.alicloud.store import ADDON, NODE_POOL, PROMETHEUS, CloudResource, CloudStore
from rehearsal.errors import RehearsalError
from tests.rehearsed_account import fail_creations


@pytest.fixture
def store(tmp_path: Path) -> CloudStore:
    store = CloudStore(tmp_path / "cloud.json")
    store.create(cluster_id="c1", region="cn-beijing", version="1.36.3-aliyun.1")
    return store


def pool(**changes: Any) -> CloudResource:
    inputs = {"clusterId": "c1", "nodePoolName": "gpu", "instanceTypes": ["ecs.gn7i-c8g1.2xlarge"], **changes}
    return CloudResource(type=NODE_POOL, inputs=inputs, outputs={"nodePoolId": "np1"})


def test_without_a_running_cloud_the_error_says_how_to_start_it(tmp_path: Path) -> None:
    store = CloudStore(tmp_path / "none" / "cloud.json")
    message = "The rehearsal cloud is not running. Start it with `./ackgpu up`."
    with pytest.raises(RehearsalError) as reading:
        store.read()
    with pytest.raises(RehearsalError) as writing, store.transaction():
        pass
    assert (str(reading.value), str(writing.value)) == (message, message)


def test_only_the_owner_can_read_the_file(store: CloudStore, tmp_path: Path) -> None:
    with store.transaction() as cloud:
        cloud.resources["np"] = pool(password="hidden")
    assert (tmp_path / "cloud.json").stat().st_mode & 0o777 == 0o600


def test_concurrent_changes_are_all_kept(store: CloudStore) -> None:
    def add(number: int) -> None:
        with store.transaction() as cloud:
            cloud.resources[f"np{number}"] = pool()

    with ThreadPoolExecutor(8) as workers:
        list(workers.map(add, range(40)))
    assert len(store.read().resources) == 40


def test_a_failed_change_leaves_the_file_unchanged(store: CloudStore) -> None:
    before = store.read()
    with pytest.raises(ZeroDivisionError), store.transaction() as cloud:
        cloud.resources["np"] = pool()
        raise ZeroDivisionError
    assert store.read() == before


def test_a_failure_can_be_injected_several_times(store: CloudStore) -> None:
    fail_creations(store, NODE_POOL, "Throttling", times=2)
    with store.transaction() as cloud:
        reasons = [cloud.pop_failure(NODE_POOL) for _ in range(3)]
    reason = "Throttling: the request was denied due to request throttling"
    assert reasons == [reason, reason, None]
    assert store.read().failures == {NODE_POOL: []}


def test_the_initial_size_is_the_minimum_or_the_desired_size() -> None:
    scaling = {"enable": True, "minSize": 1, "maxSize": 4}
    assert NodePool.from_resource(pool(scalingConfig=scaling, desiredSize="3")).initial_nodes == 1
    assert NodePool.from_resource(pool(desiredSize="3")).initial_nodes == 3
    assert NodePool.from_resource(pool(scalingConfig={**scaling, "enable": False}, desiredSize="2")).initial_nodes == 2


def test_a_pool_has_the_labels_and_taints_of_its_nodes(store: CloudStore) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    with store.transaction() as cloud:
        cloud.resources["c1:np1"] = pool(labels=[{"key": "ack.node.gpu.schedule", "value": "default"}], taints=[taint])
    [found] = node_pools(store.read())
    assert (found.id, found.name) == ("np1", "gpu")
    assert found.labels == {"ack.node.gpu.schedule": "default"}
    assert found.taints == [taint]


@pytest.mark.parametrize(
    ("resource", "has_prometheus"),
    [
        (CloudResource(type=PROMETHEUS, inputs={"clusterId": "c1"}, outputs={}), True),
        (CloudResource(type=ADDON, inputs={"clusterId": "c1", "name": "arms-prometheus"}, outputs={}), True),
        (CloudResource(type=ADDON, inputs={"clusterId": "c1", "name": "logtail-ds"}, outputs={}), False),
    ],
    ids=["an instance", "the add-on", "another add-on"],
)
def test_an_instance_or_the_addon_provides_prometheus(
    store: CloudStore, resource: CloudResource, has_prometheus: bool
) -> None:
    assert store.read().prometheus() is None
    with store.transaction() as cloud:
        cloud.resources["c1"] = resource
    assert (store.read().prometheus() is not None) is has_prometheus
