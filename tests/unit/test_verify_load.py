"""The load test, with an HPA that follows a script."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from live.cluster_client import UnreachableError
from live.verify import LoadTest, Step
from live.verify.cluster_reader import ClusterReader
from live.verify.load import Pace, responses_by_code
from tests.unit.fake_cluster import HPA, FakeCluster, Script, healthy, hpa, running

# The output of `hey -n 10000 -c 200` v0.1.5, without its histogram.
SUMMARY = """
Summary:
  Total:	42.3397 secs
  Requests/sec:	236.1849

Latency distribution:
  10%% in 0.7926 secs

Status code distribution:
  [200]	10000 responses


"""
REFUSED = '\nError distribution:\n  [12]	Get "http://192.0.2.1/predict": dial tcp: connection refused\n'

FAST = Pace(interval=0.001, load=20, margin=20)
HASTY = Pace(interval=0.001, load=20, margin=0.05)
"""For a wait that must time out."""
IDLE = ("0", 1, 1)
AS_IN_THE_GUIDE = [IDLE, ("0", 1, 1), ("23", 1, 1), ("23", 2, 1), ("11500m", 2, 2), ("0", 2, 2), IDLE]


def load(cluster: FakeCluster, summary: str = SUMMARY, exit_code: int = 0) -> list[str]:
    """Return a command that replaces `hey` and runs until the script's load ends."""
    host, port = cluster.host.removeprefix("http://").split(":")
    program = (
        "import http.client, sys\n"
        f"connection = http.client.HTTPConnection({host!r}, {port}, timeout=30)\n"
        "connection.request('GET', '/load')\n"
        "assert connection.getresponse().read() == b'over'\n"
        f"print({summary!r})\n"
        f"sys.exit({exit_code})"
    )
    return [sys.executable, "-c", program]


def run_load_test(
    moments: Sequence[tuple[str | None, int, int]],
    *,
    loaded: int,
    summary: str = SUMMARY,
    exit_code: int = 0,
    pace: Pace = FAST,
    **expected: Any,
) -> list[Step]:
    with running(Script(moments, loaded).answers) as cluster:
        command = load(cluster, summary, exit_code)
        load_test = LoadTest(cluster.service, cluster.client, command, pace=pace, **expected)
        return [*load_test.under_load(), load_test.after_load()]


def test_the_guides_scaling_passes_each_step() -> None:
    steps = run_load_test(AS_IN_THE_GUIDE, loaded=5, reading=Decimal(23), reading_tolerance=Decimal(2), peak=2)
    assert [(step.ok, step.observed) for step in steps] == [
        (True, "0/20, 1 desired, 1 Ready"),
        (True, "10000 x 200"),
        (True, "23/20"),
        (True, "a peak of 2 desired, 2 Ready"),
        (True, "0/20, 1 desired, 1 Ready"),
    ]


def test_without_expected_numbers_any_scale_out_passes() -> None:
    moments = [IDLE, ("60", 1, 1), ("60", 3, 1), ("20", 3, 3), ("0", 3, 3), IDLE]
    assert [step.ok for step in run_load_test(moments, loaded=4)] == [True] * 5


@pytest.mark.parametrize(
    ("moments", "failed", "observed"),
    [
        ([IDLE, ("95", 1, 1), ("23", 2, 2), IDLE], "HPA reading under load", "95/20"),
        ([IDLE, ("19", 1, 1), ("23", 2, 2), IDLE], "HPA reading under load", "19/20"),
        ([IDLE, ("23", 1, 1), ("23", 2, 2), ("23", 3, 3), IDLE], "scale out", "a peak of 3 desired, 3 Ready"),
        ([IDLE, ("23", 1, 1), IDLE], "scale out", "a peak of 1 desired, 1 Ready"),
        ([IDLE, ("23", 1, 1), ("0", 2, 1), IDLE], "scale out", "a peak of 2 desired, 1 Ready"),
    ],
)
def test_unexpected_scaling_fails_the_step_concerned(
    moments: list[tuple[str, int, int]], failed: str, observed: str
) -> None:
    steps = run_load_test(moments, loaded=len(moments) - 1, reading=Decimal(23), reading_tolerance=Decimal(2), peak=2)
    assert [(step.name, step.observed) for step in steps if not step.ok] == [(failed, observed)]


def test_reports_the_last_state_if_replicas_do_not_scale_in() -> None:
    moments = [IDLE, ("23", 1, 1), ("11", 2, 2), ("0", 2, 2)]
    [step] = [step for step in run_load_test(moments, loaded=3, pace=HASTY) if not step.ok]
    assert (step.name, step.observed) == ("scale in", "0/20, 2 desired, 2 Ready")


def test_waits_for_pods_that_become_ready_after_the_load() -> None:
    slow_start = [IDLE, ("23", 1, 1), *[("23", 2, 1)] * 20, *[("0", 2, 1)] * 40, ("0", 2, 2), IDLE]
    steps = run_load_test(slow_start, loaded=3, reading=Decimal(23), peak=2)
    assert [step for step in steps if not step.ok] == []


def test_a_reading_after_the_load_counts() -> None:
    late = [IDLE, *[("0", 1, 1)] * 2, *[("23", 2, 1)] * 20, ("0", 2, 2), IDLE]
    with running(Script(late, loaded=2).answers) as cluster:
        load_test = LoadTest(cluster.service, cluster.client, load(cluster), pace=FAST)
        [_, _, reading, growth] = load_test.under_load()
    assert (reading.observed, growth.ok) == ("23/20", True)


@pytest.mark.parametrize(
    ("summary", "exit_code", "observed"),
    [
        (SUMMARY.replace("[200]	10000", "[200]	9998 responses\n  [503]	2"), 0, "9998 x 200, 2 x 503"),
        (SUMMARY + REFUSED, 0, "10000 x 200, and errors"),
        ("usage: hey", 1, "no response, and the load ended with exit code 1"),
        (SUMMARY, 3, "10000 x 200, and the load ended with exit code 3"),
    ],
)
def test_a_load_with_failed_requests_fails(summary: str, exit_code: int, observed: str) -> None:
    step = run_load_test(AS_IN_THE_GUIDE, loaded=5, summary=summary, exit_code=exit_code)[1]
    assert (step.ok, step.observed) == (False, observed)


def test_does_not_count_the_error_distribution_as_responses() -> None:
    assert responses_by_code(SUMMARY + REFUSED.replace("[12]", "[500]")) == {200: 10000}


@pytest.mark.parametrize("moment", [("5", 1, 1), ("0", 2, 2), ("0", 1, 0), (None, 1, 1)])
def test_a_busy_service_gets_no_load(moment: tuple[str | None, int, int]) -> None:
    with running(Script([moment], loaded=1).answers) as cluster:
        [before] = LoadTest(cluster.service, cluster.client, load(cluster), pace=HASTY).under_load()
        assert "/load" not in cluster.requests
    assert not before.ok
    assert before.expected == "0/20 at 1 replica(s)"


def test_waits_for_a_service_to_become_idle() -> None:
    with running(Script([("30", 3, 3)] * 5 + [IDLE], loaded=99).answers) as cluster:
        before = next(LoadTest(cluster.service, cluster.client, ["false"], pace=FAST).under_load())
    assert before.ok


def test_a_missing_hpa_fails_each_wait() -> None:
    with running({**healthy(), HPA: None}) as cluster:
        load_test = LoadTest(cluster.service, cluster.client, ["false"], pace=FAST)
        steps = [*load_test.under_load(), load_test.after_load()]
    assert [(step.name, step.ok) for step in steps] == [("idle before load", False), ("scale in", False)]
    assert all("not found (404)" in step.observed for step in steps)


SERVER_ERROR = (500, {"message": "etcd leader changed"})


def test_a_failed_read_ends_neither_a_wait_nor_the_load() -> None:
    script = Script([("30", 3, 3), *AS_IN_THE_GUIDE], loaded=6)
    read_hpa: Callable[[], dict[str, Any]] = script.answers[HPA]
    reads = iter(range(10**6))
    with running({**script.answers, HPA: lambda: SERVER_ERROR if next(reads) in {1, 3, 4} else read_hpa()}) as cluster:
        load_test = LoadTest(cluster.service, cluster.client, load(cluster), pace=FAST)
        steps = [*load_test.under_load(), load_test.after_load()]
    assert [step for step in steps if not step.ok] == []


def test_a_lasting_error_is_reported_at_the_end_of_the_wait() -> None:
    reads = iter(range(10**6))
    with running({**healthy(), HPA: lambda: SERVER_ERROR if next(reads) else hpa("30", 3)}) as cluster:
        [before] = LoadTest(cluster.service, cluster.client, ["false"], pace=HASTY).under_load()
    assert (before.ok, before.observed) == (
        False,
        "the API server responds with Internal Server Error (500): etcd leader changed",
    )


@pytest.mark.parametrize(("window", "seconds"), [(15, 15), (None, 300)])
def test_the_wait_for_scale_in_uses_the_hpas_window(window: int | None, seconds: int) -> None:
    with running({**healthy(), HPA: hpa("0", 1, window=window)}) as cluster:
        assert (
            ClusterReader(cluster.client).hpa("gpu-hpa", "default", [cluster.service.metrics[0].name]).window_seconds
            == seconds
        )


@pytest.fixture
def endless_load(tmp_path: Path) -> tuple[list[str], int]:
    """A load of two processes that never ends, and a pipe that both keep open."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    return ["sh", "-c", 'exec 3>"$1"; sleep 600 & echo x >&3; wait', "sh", str(pipe)], reader


def started(reader: int) -> bool:
    try:
        return bool(os.read(reader, 8))
    except BlockingIOError:
        return False


def all_ended(reader: int) -> bool:
    """Return whether all processes close the pipe within 10 s."""
    return bool(select.select([reader], [], [], 10)[0]) and os.read(reader, 8) == b""


def test_a_load_that_does_not_end_is_stopped_with_all_its_processes(endless_load: tuple[list[str], int]) -> None:
    command, reader = endless_load
    with running(healthy()) as cluster:
        pace = Pace(interval=0.001, load=1, margin=0)
        steps = LoadTest(cluster.service, cluster.client, command, pace=pace).under_load()
        next(steps)
        step = next(steps)
    assert (step.ok, step.observed) == (False, "no response, and the load was stopped after 1 s")
    assert started(reader)
    assert all_ended(reader)


def test_an_interrupted_load_test_stops_the_load(endless_load: tuple[list[str], int]) -> None:
    command, reader = endless_load

    def until_the_credential_expires() -> Any:
        return (401, {"message": "Unauthorized"}) if started(reader) else hpa("0", 1)

    with running({**healthy(), HPA: until_the_credential_expires}) as cluster:
        steps = LoadTest(cluster.service, cluster.client, command, pace=FAST).under_load()
        assert next(steps).ok
        with pytest.raises(UnreachableError):
            next(steps)
    assert all_ended(reader)
