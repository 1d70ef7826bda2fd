"""Users' rules against the real adapter: what is taken works there, and what is refused would not have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kubernetes import client

from autoscaling.adapter_rules import rules
from rehearsal.node_pools import kwok_node
from rehearsal.layout import PORTS
from rehearsal.processes import Processes
from tests.engine.adapter_trial import FIRST, NAMESPACE, AdapterTrial, Blind, Ended, Served
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal
from tests.engine.prometheus import configured

DATA = Path(__file__).parents[1] / "data"
SETS: list[dict[str, Any]] = yaml.safe_load((DATA / "extra_rules.yaml").read_text())["sets"]

COPIES = 16
"""Of two orders each start takes one: all of these alike would be a chance of one in thirty thousand."""


class _Exposition(SimpleHTTPRequestHandler):
    extensions_map = {".prom": "text/plain; version=0.0.4"}

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def series(rehearsal: Rehearsal) -> Iterator[None]:
    """The static series in the cloud's Prometheus."""
    handler = partial(_Exposition, directory=str(DATA))
    with HTTPServer((rehearsal.layout.address, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target = {
            "job_name": "extra-rules",
            "honor_labels": True,
            "metrics_path": "/extra_rules.prom",
            "static_configs": [{"targets": [f"{server.server_address[0]}:{server.server_port}"]}],
        }
        with configured(rehearsal.layout, lambda content: content["scrape_configs"].append(target)):
            url = f"http://{rehearsal.layout.address}:{PORTS.prometheus}/api/v1/series?match[]=batch_size"
            wait_until(lambda: httpx.get(url, trust_env=False).json()["data"], "Prometheus has the series")
            yield
        server.shutdown()


@pytest.fixture(scope="module")
def objects(rehearsal: Rehearsal) -> Iterator[None]:
    """The pods and the node that the series are of."""
    core = client.CoreV1Api(rehearsal.api)
    node = kwok_node("node-1", {}, {"cpu": "1", "memory": "1Gi", "pods": "1"})
    core.create_node(node)
    core.create_namespace({"metadata": {"name": NAMESPACE}})

    def created(pod: str) -> bool:
        body = {
            "metadata": {"name": pod},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "example.com/bert:1"}]},
        }
        try:
            core.create_namespaced_pod(NAMESPACE, body)
        except client.ApiException as error:
            # The namespace's service account comes a moment after the namespace.
            if error.status != 403:
                raise
            return False
        return True

    for pod in ("bert-a", "bert-b"):
        wait_until(partial(created, pod), f"pod {pod} is created")
    yield
    core.delete_namespace(NAMESPACE)
    core.delete_node("node-1")
    wait_until(lambda: NAMESPACE not in [one.metadata.name for one in core.list_namespace().items], "namespace is gone")


@pytest.fixture(scope="module")
def trial(
    rehearsal: Rehearsal, series: None, objects: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AdapterTrial]:
    with Processes(rehearsal.layout) as processes:
        yield AdapterTrial(rehearsal.layout, rehearsal.tools, tmp_path_factory.mktemp("adapter"), processes)


GENERATED = [FIRST, *rules("hardened")]


@pytest.mark.parametrize(
    "one",
    [pytest.param(one, id=one["id"], marks=[pytest.mark.case(one["case"])] if "case" in one else []) for one in SETS],
)
def test_the_real_adapter_does_with_the_rules_what_is_said_of_it(trial: AdapterTrial, one: dict[str, Any]) -> None:
    expected = one["adapter"]
    if "differs" in expected:
        return _differs(trial, one)
    with trial.on([*GENERATED, *one["rules"]]) as outcome:
        if "ends" in expected:
            assert isinstance(outcome, Ended), outcome
            assert expected["ends"] in outcome.log
        elif "lists_nothing" in expected:
            assert isinstance(outcome, Blind), outcome
            assert expected["lists_nothing"] in outcome.log
        else:
            assert isinstance(outcome, Served), outcome
            _serves(outcome, expected)


def _serves(served: Served, expected: dict[str, Any]) -> None:
    names = served.names()
    pods = {name.removeprefix("pods/") for name in names if name.startswith("pods/")}
    ours = {FIRST["seriesQuery"], *(rule["name"]["as"] for rule in rules("hardened"))}
    assert pods - ours == set(expected["lists"]) - ours
    assert set(expected.get("lists_too", [])) <= names
    for metric, values in (expected["lists"] | expected.get("before", {})).items():
        assert _agree(served.of_pods(metric), values), (metric, served.of_pods(metric))
    for metric, values in expected.get("lists_of_nodes", {}).items():
        assert f"nodes/{metric}" in names
        assert _agree(served.of_nodes(metric), values), (metric, served.of_nodes(metric))


def _agree(observed: Any, expected: Any) -> bool:
    if isinstance(expected, str) or isinstance(observed, str):
        return bool(observed == expected)
    choices = {name: value if isinstance(value, list) else [value] for name, value in expected.items()}
    return observed.keys() == choices.keys() and all(
        value in [Decimal(str(one)) for one in choices[name]] for name, value in observed.items()
    )


def _differs(trial: AdapterTrial, one: dict[str, Any]) -> None:
    """Copies of one rule, under other names, get other answers in one start of the adapter."""
    [rule], [(metric, answers)] = one["rules"], one["adapter"]["differs"].items()
    copies = [{**rule, "name": {"as": f"{metric}_{number}"}} for number in range(COPIES)]
    with trial.on([*GENERATED, *copies]) as served:
        assert isinstance(served, Served)
        observed = [served.of_pods(f"{metric}_{number}") for number in range(COPIES)]
    for answer in answers:
        assert any(_agree(each, answer) for each in observed), (answer, observed)


def test_rules_go_through_the_chart_byte_for_byte_and_an_hpa_metric_is_made_of_them(
    rehearsal: Rehearsal, series: None
) -> None:
    taken = [one for one in SETS if "says" not in one and "warns" not in one]
    unique = {rule["name"]["as"] if "name" in rule else "": rule for one in taken for rule in one["rules"]}
    extra = [rule for name, rule in unique.items() if name]
    adapter = rehearsal.setting("metricsAdapter")
    rehearsal.edit(metricsAdapter={**adapter, "extraRules": extra})
    try:
        rehearsal.up()
        config_maps = client.CoreV1Api(rehearsal.api)
        text = config_maps.read_namespaced_config_map("ack-alibaba-cloud-metrics-adapter-config", "kube-system").data[
            "config.yaml"
        ]
        assert "gpu_${1}_avg" in text
        assert yaml.safe_load(text)["rules"] == [*rules("hardened"), *extra]
        listed = client.CustomObjectsApi(rehearsal.api).get_api_resources("custom.metrics.k8s.io", "v1beta1")
        assert "pods/gpu_PROCESS_SM_UTIL_avg" in [resource.name for resource in listed.resources]
    finally:
        rehearsal.stack.destroy(color="never")
        rehearsal.reset()
