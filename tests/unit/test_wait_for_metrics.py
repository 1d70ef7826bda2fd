"""`up` on mocks, with a fake cluster: it waits until the HPA reads its metric."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pulumi
import pytest

from live.verify.wait import NoMetricsError, wait_until_metrics_are_read
from tests.unit.fake_cluster import CUSTOM, HPA, VALUES, FakeCluster, Script, healthy, hpa, running
from tests.unit.program import Recorder, run_program, stack_config


def up(cluster: FakeCluster, wait: str = "1s", **recorder: Any) -> Recorder:
    service = {"name": "bert", "image": "i", "autoscaler": {"name": "gpu-hpa"}}
    config = {**stack_config("rehearsal"), "ackgpu:services": [service], "ackgpu:waitForMetrics": wait}
    return run_program(config, Recorder(kubeconfig=cluster.kubeconfig, **recorder))


def test_up_finishes_once_the_hpa_reads_its_metric() -> None:
    with running(healthy()) as cluster:
        up(cluster)
    assert HPA in cluster.requests


def test_up_waits_for_the_first_reading() -> None:
    script = Script([(None, 1, 1), (None, 1, 1), ("0", 1, 1)], loaded=1)
    served = {"items": [{"describedObject": {"name": "bert-0"}, "value": "0"}]}
    with running({**script.answers, VALUES: served}) as cluster:
        up(cluster, wait="30s")
    assert cluster.requests.count(HPA) == 3


def test_up_fails_with_the_broken_link_and_what_to_do() -> None:
    with running({**healthy(), HPA: hpa(None, 1)}) as cluster, pytest.raises(pulumi.RunError) as failure:
        up(cluster)
    assert "HPA default/gpu-hpa: <unknown>/20" in str(failure.value)
    assert str(failure.value).endswith("or set waitForMetrics to 0s to skip this check.")


@pytest.mark.parametrize(("wait", "preview"), [("0s", False), ("5m", True)])
def test_reads_no_metric_at_preview_or_without_a_wait(wait: str, preview: bool) -> None:
    with running({**healthy(), VALUES: {"items": []}}) as cluster:
        up(cluster, wait, preview=preview)
    assert [path for path in cluster.requests if path == HPA or path.startswith(CUSTOM)] == []


@pytest.mark.parametrize(
    ("found", "replacement", "sentence"),
    [
        ("token: t", 'token: "c2VjcmV0\\n"', "can't be reached: the kubeconfig's token has a line break or another"),
        (
            "token: t",
            'token: "c2VjcmV0\\u0142"',
            "can't be reached: the kubeconfig's token has a line break or another",
        ),
        ("token: t", "token: t: c2VjcmV0", "can't be reached: the kubeconfig's current context, server"),
        (
            "token: t",
            "client-certificate: /c2VjcmV0",
            "can't be reached: the kubeconfig has client-certificate, which this client does not support",
        ),
        ("clusters:", "c2VjcmV0:", "can't be reached: the kubeconfig's current context, server"),
    ],
)
def test_reports_an_unusable_kubeconfig_without_quoting_it(found: str, replacement: str, sentence: str) -> None:
    with running(healthy()) as cluster:
        kubeconfig = cluster.kubeconfig.replace(found, replacement)
        with pytest.raises(NoMetricsError) as failure:
            asyncio.run(wait_until_metrics_are_read(cluster.outputs, kubeconfig, 0, print))
    assert str(failure.value).startswith(f"The cluster {sentence}")
    assert "c2VjcmV0" not in "".join(traceback.format_exception(failure.value))
