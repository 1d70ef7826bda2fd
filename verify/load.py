"""The guide's load walk: idle, load, more replicas, load off, back."""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import IO

from kubernetes import client

from verify.cluster import Cluster, HpaStatus, decimal
from verify.outputs import ServiceOutputs
from verify.steps import Step

_INTERVAL_SECONDS = 0.5
_IDLE_SECONDS = 60
_LOAD_SECONDS = 900
_MARGIN_SECONDS = 120
"""Beyond the HPA's own window: the metric falls, the controller syncs, pods end."""


class _View:
    """The HPA and the Ready pods at one moment."""

    def __init__(self, service: ServiceOutputs, cluster: Cluster) -> None:
        self.hpa: HpaStatus = cluster.hpa(service.hpa, service.namespace)
        deployment = cluster.deployment(service.deployment, service.namespace)
        self.ready = len(cluster.ready_pods(deployment))

    def __str__(self) -> str:
        return f"{self.hpa}, {self.hpa.desired} desired, {self.ready} Ready"

    def settled_at(self, replicas: int) -> bool:
        return self.hpa.desired == replicas and self.ready == replicas


class LoadWalk:
    """Puts a load on a service and sees the HPA follow it.

    Args:
        service: what is loaded; it should be idle.
        api: its cluster.
        command: the load, a program that ends by itself and prints `hey`'s summary.
        reading: what the HPA should read on one replica; None: anything above the target.
        reading_tolerance: how far off it may be.
        peak: replicas it should reach and not pass; None: any number above the minimum.
    """

    def __init__(
        self,
        service: ServiceOutputs,
        api: client.ApiClient,
        command: Sequence[str],
        *,
        reading: Decimal | None = None,
        reading_tolerance: Decimal = Decimal(0),
        peak: int | None = None,
    ) -> None:
        self._service = service
        self._cluster = Cluster(api)
        self._command = command
        self._reading = reading
        self._tolerance = reading_tolerance
        self._peak = peak

    def under_load(self) -> Iterator[Step]:
        """Wait until the service is idle, run the load to its end, and tell what the HPA did meanwhile."""
        low = self._service.min_replicas
        idle = self._wait(_IDLE_SECONDS, lambda view: view.settled_at(low) and view.hpa.reading == 0)
        yield Step(
            "before the load",
            f"0/{self._service.target} at {low} replica(s)",
            str(idle),
            idle.settled_at(low) and idle.hpa.reading == 0,
        )
        seen: list[_View] = []
        with tempfile.TemporaryFile() as output:
            finished = _run_load(self._command, output, lambda: seen.append(self._view()))
            output.seek(0)
            summary = output.read().decode(errors="replace")
        yield _load_step(summary, finished)
        yield _reading_step(seen, idle, self._service, self._reading, self._tolerance)
        yield _growth_step(seen, low, self._peak)

    def after_load(self) -> Step:
        """Wait until the replicas are back at the minimum."""
        low = self._service.min_replicas
        seconds = self._view().hpa.window_seconds + _MARGIN_SECONDS
        last = self._wait(seconds, lambda view: view.settled_at(low))
        return Step("after the load", f"back to {low} replica(s)", str(last), last.settled_at(low))

    def _view(self) -> _View:
        return _View(self._service, self._cluster)

    def _wait(self, seconds: float, reached: Callable[[_View], bool]) -> _View:
        deadline = time.monotonic() + seconds
        while True:
            view = self._view()
            if reached(view) or time.monotonic() > deadline:
                return view
            time.sleep(_INTERVAL_SECONDS)


def _run_load(command: Sequence[str], output: IO[bytes], observe: Callable[[], None]) -> bool:
    load = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    deadline = time.monotonic() + _LOAD_SECONDS
    try:
        while load.poll() is None and time.monotonic() < deadline:
            observe()
            time.sleep(_INTERVAL_SECONDS)
    finally:
        if load.poll() is None:
            load.send_signal(signal.SIGKILL)
            load.wait()
    return load.returncode == 0


def answers(summary: str) -> dict[int, int]:
    """Responses by status code, from `hey`'s summary."""
    return {int(code): int(count) for code, count in re.findall(r"^\s*\[(\d{3})\]\s+(\d+) responses", summary, re.M)}


def _load_step(summary: str, finished: bool) -> Step:
    counts = answers(summary)
    observed = ", ".join(f"{count} x {code}" for code, count in sorted(counts.items())) or "no answer"
    errors = "Error distribution" in summary
    if errors:
        observed += ", and errors"
    if not finished:
        observed += ", and the load did not end by itself"
    return Step("the load", "every answer is 200", observed, finished and not errors and set(counts) == {200})


def _reading_step(
    seen: Sequence[_View],
    idle: _View,
    service: ServiceOutputs,
    reading: Decimal | None,
    tolerance: Decimal,
) -> Step:
    # A reading is of one replica as long as no second one could have been counted.
    alone = [view.hpa.reading for view in seen if view.ready <= idle.ready and view.hpa.reading is not None]
    highest = max(alone, default=None)
    if reading is None:
        expected = f"a reading above {service.target}"
        ok = highest is not None and highest > idle.hpa.target
    else:
        expected = f"a reading of {decimal(reading)} (within {decimal(tolerance)}) on {idle.ready} replica(s)"
        ok = highest is not None and abs(highest - reading) <= tolerance
    observed = "no reading" if highest is None else f"{decimal(highest)}/{service.target}"
    return Step("under the load", expected, observed, ok)


def _growth_step(seen: Sequence[_View], low: int, peak: int | None) -> Step:
    desired = max((view.hpa.desired for view in seen), default=0)
    ready = max((view.ready for view in seen), default=0)
    expected = f"more than {low} replicas" if peak is None else f"{peak} replicas, and no more"
    ok = desired == ready and (desired > low if peak is None else desired == peak)
    return Step("the replicas grow", expected, f"{desired} desired and {ready} Ready at most", ok)
