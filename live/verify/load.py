"""The guide's load test: idle, load, scale out, end of load, scale in."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import IO

from autoscaling.quantity import decimal
from live.cluster_client import ClusterClient
from live.verify.cluster_reader import BrokenLinkError, ClusterReader, HpaStatus
from live.verify.outputs import ServiceOutputs
from live.verify.steps import Step


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Polling interval and timeouts, in seconds."""

    interval: float = 0.5
    load: float = 900
    """Timeout of the load."""
    margin: float = 120
    """Extra time after the HPA's scale-down window, for the metric to fall, the controller to sync and pods to end."""


class _View:
    """A snapshot of an HPA and the number of its Ready pods."""

    def __init__(self, service: ServiceOutputs, cluster: ClusterReader) -> None:
        # Read the HPA first: its reading can't include a pod that becomes Ready between the requests.
        self.hpa: HpaStatus = cluster.hpa(service.hpa, service.namespace, [service.metrics[0].name])
        deployment = cluster.deployment(service.deployment, service.namespace)
        self.ready = sum(pod.ready for pod in cluster.pods_of(deployment))

    def __str__(self) -> str:
        return f"{self.hpa}, {self.hpa.desired} desired, {self.ready} Ready"

    @property
    def idle(self) -> bool:
        return self.hpa.reading is not None and decimal(self.hpa.reading) == "0"

    def settled_at(self, replicas: int) -> bool:
        return self.hpa.desired == replicas and self.ready == replicas


class LoadTest:
    """Loads a service and watches the HPA scale it.

    Args:
        service: an idle service.
        client: client of its cluster.
        command: the command that generates the load and prints `hey`'s summary at its end.
        reading: expected reading at the minimum number of replicas; None: any reading above the target.
        reading_tolerance: allowed deviation of the reading.
        peak: expected maximum of replicas; None: any number above the minimum.
        pace: polling interval and timeouts.
    """

    def __init__(
        self,
        service: ServiceOutputs,
        client: ClusterClient,
        command: Sequence[str],
        *,
        reading: Decimal | None = None,
        reading_tolerance: Decimal = Decimal(0),
        peak: int | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._service = service
        self._cluster = ClusterReader(client)
        self._command = command
        self._reading = reading
        self._tolerance = reading_tolerance
        self._peak = peak
        self._pace = pace or Pace()

    def under_load(self) -> Iterator[Step]:
        """Wait until the service is idle, run the load, and report how the HPA reacted.

        If the service does not become idle, no load starts and the first step is the last.

        Raises:
            UnreachableError: the cluster can't be reached. The load is stopped.
        """
        low = self._service.min_replicas
        expected = f"0/{self._service.metrics[0].target} at {low} replica(s)"
        before = self._wait_step("idle before load", expected, lambda view: view.idle and view.settled_at(low))
        yield before
        if not before.ok:
            return
        seen: list[_View] = []

        def observe() -> None:
            # A failed read does not stop the load.
            with contextlib.suppress(BrokenLinkError):
                seen.append(self._view())

        yield _load_step(self._command, observe, self._pace)
        # The HPA and the pods lag behind the load: wait until both have caught up.
        with contextlib.suppress(BrokenLinkError):
            self._wait(lambda view: view.idle and view.ready == view.hpa.desired, seen)
        # Only readings at the minimum number of replicas count.
        yield self._reading_step(
            [view.hpa.reading for view in seen if view.ready <= low and view.hpa.reading is not None]
        )
        yield self._growth_step(seen)

    def after_load(self) -> Step:
        """Wait until the replicas are back at the minimum.

        Raises:
            UnreachableError: the cluster can't be reached.
        """
        low = self._service.min_replicas
        return self._wait_step("scale in", f"{low} replica(s) again", lambda view: view.settled_at(low))

    def _view(self) -> _View:
        return _View(self._service, self._cluster)

    def _wait_step(self, name: str, expected: str, reached: Callable[[_View], bool]) -> Step:
        try:
            last = self._wait(reached, [])
        except BrokenLinkError as error:
            return Step(name, expected, str(error), False)
        return Step(name, expected, str(last), reached(last))

    def _wait(self, reached: Callable[[_View], bool], seen: list[_View]) -> _View:
        """Return the first view that meets the condition, or the last view; append each view to `seen`."""
        seen.append(self._view())
        deadline = time.monotonic() + seen[-1].hpa.window_seconds + self._pace.margin
        while not reached(seen[-1]):
            time.sleep(self._pace.interval)
            late = time.monotonic() > deadline
            try:
                seen.append(self._view())
            except BrokenLinkError:
                # Errors during a control plane update are brief. Raise only lasting errors.
                if late:
                    raise
            if late:
                break
        return seen[-1]

    def _reading_step(self, readings: Sequence[Decimal]) -> Step:
        target, low = self._service.metrics[0].target, self._service.min_replicas
        highest = max(readings, default=None)
        if self._reading is None:
            expected = f"above {target}"
            ok = highest is not None and highest > Decimal(target)
        else:
            expected = f"{decimal(self._reading)} plus or minus {decimal(self._tolerance)}, at {low} replica(s)"
            ok = highest is not None and abs(highest - self._reading) <= self._tolerance
        observed = "no reading" if highest is None else f"{decimal(highest)}/{target}"
        return Step("HPA reading under load", expected, observed, ok)

    def _growth_step(self, seen: Sequence[_View]) -> Step:
        low, peak = self._service.min_replicas, self._peak
        desired = max((view.hpa.desired for view in seen), default=0)
        ready = max((view.ready for view in seen), default=0)
        expected = f"more than {low} replica(s)" if peak is None else f"a peak of {peak} replicas"
        ok = desired == ready and (desired > low if peak is None else desired == peak)
        return Step("scale out", expected, f"a peak of {desired} desired, {ready} Ready", ok)


def responses_by_code(summary: str) -> dict[int, int]:
    """Count the responses by status code in `hey`'s summary."""
    return {int(code): int(count) for code, count in re.findall(r"^\s*\[(\d{3})\]\s+(\d+) responses", summary, re.M)}


def _load_step(command: Sequence[str], observe: Callable[[], None], pace: Pace) -> Step:
    with tempfile.TemporaryFile() as output:
        exit_code = _run(command, output, observe, pace)
        output.seek(0)
        summary = output.read().decode(errors="replace")
    counts = responses_by_code(summary)
    observed = ", ".join(f"{count} x {code}" for code, count in sorted(counts.items())) or "no response"
    errors = "Error distribution" in summary
    if errors:
        observed += ", and errors"
    if exit_code is None:
        observed += f", and the load was stopped after {pace.load:g} s"
    elif exit_code:
        observed += f", and the load ended with exit code {exit_code}"
    return Step("load", "every response is 200", observed, exit_code == 0 and not errors and set(counts) == {200})


def _run(command: Sequence[str], output: IO[bytes], observe: Callable[[], None], pace: Pace) -> int | None:
    """Run the load and return its exit code, or None if it was stopped at the timeout."""
    load = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
    )
    deadline = time.monotonic() + pace.load
    try:
        while load.poll() is None and time.monotonic() < deadline:
            observe()
            time.sleep(pace.interval)
        return load.poll()
    finally:
        if load.poll() is None:
            os.killpg(load.pid, signal.SIGKILL)
            load.wait()
