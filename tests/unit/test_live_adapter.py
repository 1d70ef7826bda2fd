"""The adapter's live release: warnings at preview, kept rules, and cleanup after a killed run."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from autoscaling.metrics.adapter_rules import RuleSet
from live import adapter_release
from program.chart import chart_version
from tests.unit.fake_cluster import FakeCluster, running
from tests.unit.program import Recorder, run_program, stack_config

SECRETS = "/api/v1/namespaces/kube-system/secrets"
HPAS = "/apis/autoscaling/v2/horizontalpodautoscalers"
NAME = "ack-alibaba-cloud-metrics-adapter"
RELEASE = "kubernetes:helm.sh/v3:Release"
OURS = "ackgpu/unit"
MANIFEST = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: adapter, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: adapter}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: adapter}
---
apiVersion: example.com/v1
kind: Unknown
metadata: {name: adapter}
"""
RULE = {"seriesQuery": 'queue{pod!=""}', "metricsQuery": "q"}


def record(
    revision: int = 1, *, status: str = "deployed", version: str = "1.3.2", stack: str | None = OURS, minutes: int = 10
) -> dict[str, Any]:
    changed = datetime.now(UTC) - timedelta(minutes=minutes)
    values = {"AlibabaCloudMetricsAdapter": {"prometheus": {"adapter": {"rules": {"custom": [RULE]}}}}}
    content = {
        "name": NAME,
        "namespace": "kube-system",
        "version": revision,
        "info": {"status": status, "last_deployed": changed.isoformat()},
        "chart": {"metadata": {"name": NAME, "version": version}},
        "config": {**values, **({"global": {"ackgpu": {"stack": stack}}} if stack else {})},
        "manifest": MANIFEST,
    }
    packed = base64.b64encode(gzip.compress(json.dumps(content).encode()))
    return {
        "metadata": {"name": f"sh.helm.release.v1.{NAME}.v{revision}"},
        "data": {"release": base64.b64encode(packed).decode()},
    }


def kinds(*entries: tuple[str, str, bool]) -> dict[str, Any]:
    return {"resources": [{"kind": kind, "name": name, "namespaced": namespaced} for kind, name, namespaced in entries]}


def answers(*records: dict[str, Any], hpas: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "/apis/apiregistration.k8s.io/v1/apiservices": {"items": []},
        SECRETS: {"items": list(records)},
        HPAS: {"items": list(hpas)},
        "/api/v1": kinds(
            ("ServiceAccount", "serviceaccounts/token", True), ("ServiceAccount", "serviceaccounts", True)
        ),
        "/apis/rbac.authorization.k8s.io/v1": kinds(("ClusterRole", "clusterroles", False)),
        "/apis/apps/v1": kinds(("Deployment", "deployments", True)),
    }


def reader(metric: str) -> dict[str, Any]:
    metrics = [{"type": "Pods", "pods": {"metric": {"name": metric}}}]
    return {"metadata": {"namespace": "demo", "name": "own"}, "spec": {"metrics": metrics}}


def previewed(*records: dict[str, Any], hpas: tuple[dict[str, Any], ...] = (), **found: Any) -> Recorder:
    with running({**answers(*records, hpas=hpas), **found}) as cluster:
        return run_program(stack_config("rehearsal"), Recorder(preview=True, kubeconfig=cluster.kubeconfig))


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, logger="httpx")
    caplog.set_level(logging.INFO)
    return caplog


def test_another_chart_version_warns_and_replaces_the_release(logged: pytest.LogCaptureFixture) -> None:
    release = previewed(record(version="1.2.0")).resource(RELEASE)
    assert (
        "The adapter's chart changes from 1.2.0 to 1.3.2. `pulumi up` uninstalls the release and installs it again"
        in logged.text
    )
    assert release.replace_on_changes == ("version",)
    assert release.delete_before_replace
    assert release.inputs["version"] == "1.3.2"


@pytest.mark.parametrize(
    "records", [(), (record(),), (record(status="failed"),), (record(version="1.2.0", stack=None),)]
)
def test_no_warning_for_an_update_or_another_owners_release(
    logged: pytest.LogCaptureFixture, records: tuple[dict[str, Any], ...]
) -> None:
    previewed(*records)
    assert "adapter" not in logged.text


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "uninstalling"])
def test_warns_about_an_unfinished_release(logged: pytest.LogCaptureFixture, status: str) -> None:
    previewed(record(status=status))
    assert f"The adapter's release has been {status} since " in logged.text
    assert "`pulumi up --replace '**::adapter-release'`" in logged.text
    logged.clear()
    previewed(record(status=status, stack="ackgpu/another"))
    assert status not in logged.text


def test_a_preview_sends_each_request_once() -> None:
    with running(answers(record(), hpas=(reader("queue"),))) as cluster:
        run_program(stack_config("rehearsal"), Recorder(preview=True, kubeconfig=cluster.kubeconfig))
    assert f"{SECRETS}?labelSelector=owner=helm,name={NAME}" in cluster.requests
    assert sorted(cluster.requests) == sorted(set(cluster.requests))


def rules_of(recorder: Recorder) -> Any:
    return recorder.secret_values["AlibabaCloudMetricsAdapter"]["prometheus"]["adapter"]["rules"]["custom"]


def test_keeps_and_reports_a_rule_that_an_hpa_reads(logged: pytest.LogCaptureFixture) -> None:
    recorder = previewed(record(), hpas=(reader("queue"),))
    assert rules_of(recorder) == [RULE, *RuleSet().rules()]
    assert (
        "keeps its rule for queue, although the rule is no longer in the settings, because these HPAs still read the "
        "metric: demo/own" in logged.text
    )
    assert "queue" in recorder.outputs["adapterRules"]


def test_reads_hpas_from_an_older_cluster() -> None:
    older: dict[str, Any] = {HPAS: None, HPAS.replace("v2", "v2beta1"): {"items": [reader("queue")]}}
    assert RULE in rules_of(previewed(record(), **older))


@pytest.mark.parametrize(
    "found", [{SECRETS: (403, {"message": "no"})}, {SECRETS: {"items": [{"metadata": {"name": "x"}, "data": {}}]}}]
)
def test_an_unreadable_release_is_only_a_warning(logged: pytest.LogCaptureFixture, found: dict[str, Any]) -> None:
    assert rules_of(previewed(**found)) == RuleSet().rules()
    assert "Could not " in logged.text


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[FakeCluster]:
    with running(answers(*request.param)) as found:
        yield found


def with_records(*records: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cluster", [records], indirect=True)


@with_records(record(1, status="superseded"), record(2, status="pending-install"))
def test_deletes_an_interrupted_installation_in_reverse_order(cluster: FakeCluster) -> None:
    assert adapter_release.uninstall(cluster.kubeconfig, OURS)
    assert cluster.deleted == [
        "/apis/apps/v1/namespaces/kube-system/deployments/adapter",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/adapter",
        "/api/v1/namespaces/kube-system/serviceaccounts/adapter",
        f"{SECRETS}/sh.helm.release.v1.{NAME}.v1",
        f"{SECRETS}/sh.helm.release.v1.{NAME}.v2",
    ]


@pytest.mark.parametrize("remove", [adapter_release.uninstall, adapter_release.drop_pending_update])
@pytest.mark.parametrize(
    "cluster",
    [(), (record(status="pending-upgrade", stack="ackgpu/another"),), (record(stack=None, minutes=0),)],
    indirect=True,
)
def test_keeps_releases_of_other_owners(cluster: FakeCluster, remove: Any) -> None:
    assert not remove(cluster.kubeconfig, OURS)
    assert cluster.deleted == []


@with_records(record(1), record(2, status="pending-upgrade"))
def test_deletes_the_record_of_an_interrupted_update(cluster: FakeCluster) -> None:
    assert adapter_release.drop_pending_update(cluster.kubeconfig, OURS)
    assert cluster.deleted == [f"{SECRETS}/sh.helm.release.v1.{NAME}.v2"]


@with_records(record(1), record(2))
def test_keeps_the_records_of_a_finished_update(cluster: FakeCluster) -> None:
    assert not adapter_release.drop_pending_update(cluster.kubeconfig, OURS)
    assert cluster.deleted == []


@with_records()
def test_waits_for_a_provider_that_is_still_installing(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    records = iter([record(status="pending-install", minutes=0)] * 2)
    cluster.answers[SECRETS] = lambda: {"items": [next(records, record())]}
    assert adapter_release.uninstall(cluster.kubeconfig, OURS)
    assert cluster.requests[:3] == [f"{SECRETS}?labelSelector=owner=helm,name={NAME}"] * 3


@pytest.mark.parametrize(
    ("chart", "version"),
    [
        ("https://example.com/charts-incubator/ack-alibaba-cloud-metrics-adapter-1.3.2.tgz", "1.3.2"),
        ("https://example.com/adapter-1.10.0-rc.1+build.tgz", "1.10.0-rc.1+build"),
        ("https://example.com/adapter.tgz", None),
        ("oci://example.com/adapter", None),
        ("no such chart", None),
    ],
)
def test_reads_the_chart_version_from_its_address(chart: str, version: str | None) -> None:
    assert chart_version(chart) == version


def test_reads_the_chart_version_from_the_chart(tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    assert chart_version(str(folder)) is None
    (folder / "Chart.yaml").write_text("name: adapter\nversion: 1.4.0\n")
    assert chart_version(str(folder)) == "1.4.0"
    with tarfile.open(tmp_path / "adapter.tgz", "w:gz") as archive:
        archive.add(folder, "adapter")
    assert chart_version(str(tmp_path / "adapter.tgz")) == "1.4.0"
    (tmp_path / "adapter.tgz").write_text("not an archive")
    assert chart_version(str(tmp_path / "adapter.tgz")) is None
