"""The life cycle of a stack on the real engine and control plane, in order."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal

import httpx
import pytest
from kubernetes import client
from pulumi import automation
from pulumi.automation import OpType

from live.verify import LoadTest, Step, check_stack
from rehearsal.alicloud.store import NODE_POOL
from rehearsal.leftovers import cluster_leftovers
from tests.engine.conftest import Rehearsal, only_load_on_this_machine
from tests.engine.secret_search import in_files, secrets_of
from tests.rehearsed_account import fail_creations

pytestmark = pytest.mark.usefixtures("live")


@pytest.fixture(scope="module")
def live(rehearsal: Rehearsal) -> Iterator[automation.UpResult]:
    yield rehearsal.up()


def failed_steps_after(rehearsal: Rehearsal, seconds: float = 60) -> list[Step]:
    """Wait until no step fails, or until the timeout; return the failed steps."""
    deadline = time.monotonic() + seconds
    while True:
        failed = [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok]
        if not failed or time.monotonic() > deadline:
            return failed


def test_every_check_of_the_guide_passes_after_up(rehearsal: Rehearsal) -> None:
    steps = list(check_stack(rehearsal.outputs(), rehearsal.client))
    assert len(steps) == 8
    assert [step for step in steps if not step.ok] == []


def test_the_adapter_lists_the_metrics_in_the_guide(rehearsal: Rehearsal) -> None:
    response = rehearsal.api.call_api(
        "/apis/custom.metrics.k8s.io/v1beta1",
        "GET",
        auth_settings=["BearerToken"],
        _preload_content=False,
        _return_http_data_only=True,
    )
    names = {resource["name"] for resource in json.loads(response.data)["resources"]}
    assert {
        "nodes/DCGM_CUSTOM_PROCESS_SM_UTIL",
        "pods/DCGM_CUSTOM_PROCESS_SM_UTIL",
        "namespaces/DCGM_CUSTOM_PROCESS_SM_UTIL",
        "pods/DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO",
    } <= names


def test_a_second_preview_finds_no_changes(rehearsal: Rehearsal) -> None:
    assert set(rehearsal.stack.preview().change_summary) == {OpType.SAME}


def test_a_refresh_finds_no_drift(rehearsal: Rehearsal) -> None:
    changes = rehearsal.stack.refresh(color="never").summary.resource_changes
    assert set(changes or {}) == {OpType.SAME}


@pytest.mark.case("G3")
def test_no_secret_is_in_the_state(rehearsal: Rehearsal) -> None:
    secrets = secrets_of(rehearsal.layout)
    decrypted = json.dumps(rehearsal.stack.export_stack().deployment).encode()
    assert all(secret.is_in(decrypted) for secret in secrets), "the search finds the secrets"
    assert list(in_files(rehearsal.layout.backend, secrets)) == []


def test_the_prometheus_address_needs_its_token(rehearsal: Rehearsal) -> None:
    address = rehearsal.layout.prometheus_api_url.read_text()
    good = httpx.get(f"{address}/api/v1/query", params={"query": "up"}, trust_env=False)
    bad = httpx.get(f"{address[:-3]}x/api/v1/query", params={"query": "up"}, trust_env=False)
    assert good.json()["status"] == "success"
    assert bad.status_code == 403


def test_the_hpa_reads_23_on_one_replica_and_settles_at_two(rehearsal: Rehearsal) -> None:
    [service] = rehearsal.outputs().services
    hey = str(rehearsal.tools / "hey")
    load_test = LoadTest(
        service,
        rehearsal.client,
        [hey, "-n", "10000", "-c", "200", service.predict_url],
        reading=Decimal(23),
        reading_tolerance=Decimal(2),
        peak=2,
    )
    with only_load_on_this_machine():
        steps = [*load_test.under_load(), load_test.after_load()]
    assert [step for step in steps if not step.ok] == []


def test_a_new_target_updates_the_hpa_in_place(rehearsal: Rehearsal) -> None:
    services = rehearsal.setting("services")
    services[0]["autoscaler"]["metrics"][0]["target"] = 30
    rehearsal.edit(services=services)
    changes = rehearsal.up().summary.resource_changes or {}
    assert changes.get(OpType.UPDATE) == 1
    assert set(changes) == {OpType.SAME, OpType.UPDATE}
    hpa = client.AutoscalingV2Api(rehearsal.api).read_namespaced_horizontal_pod_autoscaler("gpu-hpa", "default")
    assert hpa.spec.metrics[0].pods.target.average_value == "30"


def test_the_guides_rules_expose_only_the_metrics_in_the_guide(rehearsal: Rehearsal) -> None:
    rehearsal.edit(metricsAdapter={**rehearsal.setting("metricsAdapter"), "rules": "seed"})
    rehearsal.up()
    outputs = rehearsal.outputs()
    assert "nodes/DCGM_FI_DEV_GPU_UTIL" in outputs.metric_resources
    assert "pods/DCGM_FI_DEV_GPU_UTIL" not in outputs.metric_resources
    # New rules restart the adapter, as with the vendor's reloader. The HPA reads it again at its next sync.
    assert failed_steps_after(rehearsal) == []


def test_a_sold_out_pool_stops_up_and_the_next_up_continues(rehearsal: Rehearsal) -> None:
    pool = rehearsal.setting("gpuNodePool")
    fail_creations(rehearsal.store, NODE_POOL, "OperationDenied.NoStock")
    rehearsal.edit(gpuNodePool={**pool, "name": "other"})
    # A rename changes the pool in place, so the failure still applies to the next creation.
    assert OpType.UPDATE in (rehearsal.up().summary.resource_changes or {})
    rehearsal.stack.destroy(color="never")
    with pytest.raises(automation.CommandError, match=r"OperationDenied\.NoStock"):
        rehearsal.up()
    rehearsal.up()
    assert [step for step in check_stack(rehearsal.outputs(), rehearsal.client) if not step.ok] == []


def test_destroy_deletes_everything_in_order(rehearsal: Rehearsal) -> None:
    deleted: list[str] = []

    def note(event: automation.EngineEvent) -> None:
        if event.res_outputs_event and event.res_outputs_event.metadata.op == OpType.DELETE:
            deleted.append(event.res_outputs_event.metadata.type.split(":")[-1])

    rehearsal.stack.destroy(color="never", on_event=note)
    assert deleted.index("HorizontalPodAutoscaler") < deleted.index("Release") < deleted.index("Prometheus")
    assert deleted.index("Service") < deleted.index("Deployment") < deleted.index("NodePool")
    assert cluster_leftovers(rehearsal.layout) == []


def test_no_secret_is_in_the_history_or_the_backups(rehearsal: Rehearsal) -> None:
    backend = rehearsal.layout.backend
    assert len(list(backend.rglob("history/**/*.history.json"))) > 5
    assert list(in_files(backend, secrets_of(rehearsal.layout))) == []
