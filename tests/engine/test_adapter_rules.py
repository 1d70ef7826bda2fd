"""Rules on the real adapter: generated rules read the documented values, and refused rules would not work."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from kubernetes import client

from autoscaling.ack.versions import ADAPTER_NAME
from autoscaling.metrics.adapter_rules import RuleSet
from autoscaling.metrics.exposed_name import name_of_rule
from live.verify.cluster_reader import ClusterReader
from rehearsal.processes import Processes
from rehearsal.simulation.scaling_groups import kwok_node
from tests.engine.adapter_trial import CONTROL_RULE, NAMESPACE, AdapterTrial, Exited, ListsNothing, Served
from tests.engine.command import wait_until
from tests.engine.conftest import Rehearsal

DATA = Path(__file__).parents[1] / "data"
SETS: list[dict[str, Any]] = yaml.safe_load((DATA / "extra_rules.yaml").read_text())["sets"]

_PROMETHEUS_PORT = 9191

GENERATED_NAMESPACE = "generated"
"""Namespace of the series for generated rules."""

SM_UTIL = "DCGM_CUSTOM_PROCESS_SM_UTIL"
GENERATED_VALUES = [
    pytest.param(
        RuleSet(uses=frozenset({(SM_UTIL, "max"), (SM_UTIL, "sum")})),
        {
            SM_UTIL: {"busy": 20},
            f"{SM_UTIL}_MAX": {"busy": 30},
            f"{SM_UTIL}_SUM": {"busy": 40},
            "DCGM_CUSTOM_PROCESS_MEM_USED": {"busy": 4096},
            "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO": {"busy": 25},
        },
        id="ack",
    ),
    pytest.param(
        RuleSet(idle_as_zero=True),
        {
            SM_UTIL: {"busy": 20, "idle": 0},
            "DCGM_CUSTOM_PROCESS_MEM_USED": {"busy": 4096, "idle": 0},
            "DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO": {"busy": 25, "idle": 0},
        },
        id="ack, idle pods as 0",
    ),
    pytest.param(
        RuleSet(labels="upstream-exported", uses=frozenset({("DCGM_FI_PROF_GR_ENGINE_ACTIVE", None)})),
        {
            "DCGM_FI_DEV_GPU_UTIL": {"busy": 44},
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE": {"busy": 42, "idle": 95},
        },
        id="upstream",
    ),
    pytest.param(
        RuleSet(
            uses=frozenset(
                {
                    ("vllm_num_requests_waiting", None),
                    ("vllm_num_requests_waiting", "max"),
                    ("vllm_kv_cache_usage_perc", None),
                    ("sglang_num_queue_reqs", None),
                    ("sglang_token_usage", None),
                }
            )
        ),
        {
            "vllm_num_requests_waiting": {"busy": 7},
            "vllm_num_requests_waiting_max": {"busy": 4},
            "vllm_kv_cache_usage_perc": {"busy": 25},
            "sglang_num_queue_reqs": {"idle": 6},
            "sglang_token_usage": {"idle": 50},
        },
        id="engines",
    ),
]
"""Rules, and the expected values of each metric by pod."""

COPIES = 128
"""Go starts each iteration over a map of three at one of eight random positions.

A single position gives the rarer answer. The chance that no copy gets it is 1 in 20 million."""


class _Exposition(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write((DATA / "adapter_series.prom").read_bytes())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def processes(rehearsal: Rehearsal) -> Iterator[Processes]:
    with Processes(rehearsal.layout) as processes:
        yield processes


@pytest.fixture(scope="module")
def prometheus(rehearsal: Rehearsal, processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a second Prometheus, with the static series."""
    folder, address = tmp_path_factory.mktemp("prometheus"), rehearsal.layout.address
    with HTTPServer((address, 0), _Exposition) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        job = {
            "job_name": "extra-rules",
            "honor_labels": True,
            "static_configs": [{"targets": [f"{address}:{server.server_port}"]}],
        }
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [job]}
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        processes.start(
            "prometheus on trial",
            [
                rehearsal.tools / "prometheus",
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}:{_PROMETHEUS_PORT}",
            ],
        )
        url = f"http://{address}:{_PROMETHEUS_PORT}"
        wait_until(partial(_has_series, url), "Prometheus has the series", seconds=60)
        yield url
        server.shutdown()


def _has_series(url: str) -> bool:
    try:
        return bool(httpx.get(f"{url}/api/v1/series?match[]=batch_size", trust_env=False).json().get("data"))
    except httpx.TransportError:
        return False


@pytest.fixture(scope="module")
def pods_and_nodes(rehearsal: Rehearsal) -> Iterator[None]:
    """The pods and nodes of the series."""
    core = client.CoreV1Api(rehearsal.api)
    nodes = ("node-1", "node-2")
    pods = {NAMESPACE: ("bert-a", "bert-b"), GENERATED_NAMESPACE: ("busy", "idle", "broken")}
    for node in nodes:
        core.create_node(kwok_node(node, {}, {"cpu": "1", "memory": "1Gi", "pods": "1"}))
    for namespace in pods:
        core.create_namespace({"metadata": {"name": namespace}})

    def created(namespace: str, pod: str) -> bool:
        body = {
            "metadata": {"name": pod},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "example.com/bert:1"}]},
        }
        try:
            core.create_namespaced_pod(namespace, body)
        except client.ApiException as error:
            # The API server refuses pods until the namespace has its service account.
            if error.status != 403:
                raise
            return False
        return True

    for namespace, names in pods.items():
        for pod in names:
            wait_until(partial(created, namespace, pod), f"pod {pod} is created")
    yield
    for namespace in pods:
        core.delete_namespace(namespace)
    for node in nodes:
        core.delete_node(node)
    wait_until(
        lambda: not pods.keys() & {namespace.metadata.name for namespace in core.list_namespace().items},
        "the namespaces are deleted",
    )


@pytest.fixture(scope="module")
def trial(
    rehearsal: Rehearsal,
    processes: Processes,
    prometheus: str,
    pods_and_nodes: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> AdapterTrial:
    folder = tmp_path_factory.mktemp("adapter")
    return AdapterTrial(rehearsal.layout, rehearsal.tools, folder, processes, prometheus)


@pytest.mark.case("A1")
@pytest.mark.case("A3")
@pytest.mark.case("A5")
@pytest.mark.case("B9")
@pytest.mark.parametrize(("rules", "values"), GENERATED_VALUES)
def test_generated_rules_read_the_expected_values(
    trial: AdapterTrial, rules: RuleSet, values: dict[str, dict[str, Any]]
) -> None:
    with trial.run([CONTROL_RULE, *rules.rules()]) as outcome:
        assert isinstance(outcome, Served), outcome
        listed = outcome.names()
        for metric, pods in values.items():
            assert f"pods/{metric}" in listed
            assert _matches(outcome.of_pods(metric, GENERATED_NAMESPACE), pods), metric
            assert outcome.of_pods(metric, "gpu-mon") in ({}, "error 404"), "the exporter's own pod has no value"


GENERATED = [CONTROL_RULE, *RuleSet().rules()]


@pytest.mark.parametrize(
    "rule_set",
    [
        pytest.param(
            rule_set, id=rule_set["id"], marks=[pytest.mark.case(rule_set["case"])] if "case" in rule_set else []
        )
        for rule_set in SETS
    ],
)
def test_the_real_adapter_behaves_as_recorded(trial: AdapterTrial, rule_set: dict[str, Any]) -> None:
    expected = rule_set["adapter"]
    if "differs" in expected:
        return _check_copies_differ(trial, rule_set)
    with trial.run([*GENERATED, *rule_set["rules"]]) as outcome:
        if "ends" in expected:
            assert isinstance(outcome, Exited), outcome
            assert expected["ends"] in outcome.log
        elif "lists_nothing" in expected:
            assert isinstance(outcome, ListsNothing), outcome
            assert expected["lists_nothing"] in outcome.log
        else:
            assert isinstance(outcome, Served), outcome
            _check_served(outcome, expected)


def _check_served(served: Served, expected: dict[str, Any]) -> None:
    names = served.names()
    pods = {name.removeprefix("pods/") for name in names if name.startswith("pods/")}
    generated = {name_of_rule(rule) for rule in GENERATED}
    assert pods - generated == set(expected["lists"]) - generated
    assert set(expected.get("lists_too", [])) <= names
    for metric, values in (expected["lists"] | expected.get("before", {})).items():
        assert _matches(served.of_pods(metric), values), (metric, served.of_pods(metric))
    for metric, values in expected.get("lists_of_nodes", {}).items():
        assert f"nodes/{metric}" in names
        assert _matches(served.of_nodes(metric), values), (metric, served.of_nodes(metric))


def _matches(observed: Any, expected: Any) -> bool:
    if isinstance(expected, str) or isinstance(observed, str):
        return bool(observed == expected)
    choices = {name: value if isinstance(value, list) else [value] for name, value in expected.items()}
    return observed.keys() == choices.keys() and all(
        value in [Decimal(str(choice)) for choice in choices[name]] for name, value in observed.items()
    )


def _check_copies_differ(trial: AdapterTrial, rule_set: dict[str, Any]) -> None:
    """Check that copies of a rule with different names get different answers in a single run of the adapter."""
    [rule], [(metric, answers)] = rule_set["rules"], rule_set["adapter"]["differs"].items()
    copies = [{**rule, "name": {"as": f"{metric}_{number}"}} for number in range(COPIES)]
    with trial.run([*GENERATED, *copies]) as served:
        assert isinstance(served, Served)
        observed = [served.of_pods(f"{metric}_{number}") for number in range(COPIES)]
    for answer in answers:
        assert any(_matches(values, answer) for values in observed), (answer, observed)


@pytest.mark.case("B3")
@pytest.mark.case("B5")
def test_the_chart_does_not_change_rules_and_an_hpa_reads_the_metric_of_an_extra_rule(rehearsal: Rehearsal) -> None:
    # Prometheus lacks most of these series; that does not affect the others.
    extra = _with_unique_names(rule_set for rule_set in SETS if "says" not in rule_set)
    [service] = rehearsal.setting("services")
    metric = "gpu_PROCESS_SM_UTIL_avg"
    autoscaler = {**service["autoscaler"], "metrics": [{"name": metric, "target": 20}]}
    rehearsal.edit(
        metricsAdapter={**rehearsal.setting("metricsAdapter"), "extraRules": extra},
        services=[{**service, "autoscaler": autoscaler}],
    )
    try:
        rehearsal.up()
        config_map = client.CoreV1Api(rehearsal.api).read_namespaced_config_map(f"{ADAPTER_NAME}-config", "kube-system")
        text = config_map.data["config.yaml"]
        assert "gpu_${1}_avg" in text
        rules = yaml.safe_load(text)["rules"]
        # The provider omits empty lists.
        assert rules[-len(extra) :] == [{key: value for key, value in rule.items() if value != []} for rule in extra]
        assert len(rules) > len(extra), "the program's own rules come first"
        hpa = ClusterReader(rehearsal.client).hpa(autoscaler["name"], "default", [metric])
        assert hpa.scaling_active and hpa.metrics[0].reading is not None
    finally:
        rehearsal.stack.destroy(color="never")
        rehearsal.reset()


def _with_unique_names(sets: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    names: set[str] = set()
    for rule_set in sets:
        if not names & rule_set["adapter"]["lists"].keys():
            names |= rule_set["adapter"]["lists"].keys()
            rules += rule_set["rules"]
    return rules


def test_the_api_server_refuses_hpas_on_metric_names_that_the_check_refuses(rehearsal: Rehearsal) -> None:
    refused = [rule_set for rule_set in SETS if rule_set.get("hpa") == "refused"]
    assert refused
    for rule_set in refused:
        [metric] = rule_set["adapter"]["lists"]
        assert _hpa_on(metric, rehearsal) == 422, metric
    assert _hpa_on("a_usual-name.1", rehearsal) == 201


def _hpa_on(metric: str, rehearsal: Rehearsal) -> int:
    """Return the API server's status for a dry-run HPA on a metric with this name."""
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "bert"},
        "maxReplicas": 2,
        "metrics": [
            {
                "type": "Pods",
                "pods": {"metric": {"name": metric}, "target": {"type": "AverageValue", "averageValue": "1"}},
            }
        ],
    }
    body = {"apiVersion": "autoscaling/v2", "metadata": {"name": "trial"}, "spec": spec}
    try:
        api = client.AutoscalingV2Api(rehearsal.api)
        return int(api.create_namespaced_horizontal_pod_autoscaler_with_http_info("default", body, dry_run="All")[1])
    except client.ApiException as error:
        return int(error.status)
