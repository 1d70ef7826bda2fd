"""The report of the main job: samples of the service while it scales, the timeline picture and `result.json`."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from prometheus_client.parser import text_string_to_metric_families

from autoscaling.ack.node_labels import POOL_LABEL
from live.cluster_client import ClusterClient
from live.verify import ServiceOutputs, Step, print_step
from live.verify.cluster_reader import ClusterReader
from rehearsal.layout import PORTS, Layout, cache_folder
from rehearsal.simulation.gpu_exporter import ANSWERED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_INTERVAL_SECONDS = 0.5


@dataclass(frozen=True)
class Sample:
    """Readings of a service and its node pool at a point in time."""

    seconds: float
    """Time since the first sample."""
    requests_per_second: float
    metric: float | None
    """The HPA's reading in percent, or None if it has no reading."""
    target: float
    desired_replicas: int
    ready_replicas: int
    gpu_nodes: int


@dataclass
class Result:
    """The content of `result.json`."""

    steps: list[Step] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    replicas: dict[str, int] = field(default_factory=dict)
    second_preview_changes: int = 0
    leftovers: list[str] = field(default_factory=list)

    def record(self, step: Step) -> None:
        """Record a step and print it."""
        self.steps.append(step)
        print_step(len(self.steps), step)

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Record the duration of a `with` block."""
        start = time.monotonic()
        yield
        self.seconds[stage] = round(time.monotonic() - start, 1)

    def write(self, path: Path) -> None:
        """Write `result.json`."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")


@contextlib.contextmanager
def sample_service(layout: Layout, client: ClusterClient, service: ServiceOutputs) -> Iterator[list[Sample]]:
    """Sample a service every half second during a `with` block, and a last time at its end."""
    samples: list[Sample] = []
    ended = threading.Event()

    def run() -> None:
        cluster, start = ClusterReader(client), time.monotonic()
        before, answered_before = start, _requests_answered(layout)
        last = False
        while not last:
            last = ended.wait(_INTERVAL_SECONDS)
            now, answered = time.monotonic(), _requests_answered(layout)
            samples.append(_sample(cluster, service, now - start, (answered - answered_before) / (now - before)))
            before, answered_before = now, answered

    thread = threading.Thread(target=run, name="sampler")
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def _sample(cluster: ClusterReader, service: ServiceOutputs, seconds: float, requests_per_second: float) -> Sample:
    hpa = cluster.hpa(service.hpa, service.namespace, [service.metrics[0].name])
    deployment = cluster.deployment(service.deployment, service.namespace)
    return Sample(
        seconds=seconds,
        requests_per_second=requests_per_second,
        metric=None if hpa.reading is None else float(hpa.reading),
        target=float(service.metrics[0].target),
        desired_replicas=hpa.desired,
        ready_replicas=deployment["status"].get("readyReplicas", 0),
        gpu_nodes=len(cluster.get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"]),
    )


def _requests_answered(layout: Layout) -> float:
    text = httpx.get(f"http://{layout.address}:{PORTS.gpu_exporter}/metrics", trust_env=False).text
    families = text_string_to_metric_families(text)
    samples = (sample for family in families for sample in family.samples)
    return next(sample.value for sample in samples if sample.name == f"{ANSWERED}_total")


def draw_timeline(path: Path, samples: Sequence[Sample], metric: str) -> None:
    """Draw load, metric, replicas and nodes over time, and shade the time under load.

    The picture is a PNG of 1200 x 900 pixels. It requires at least one sample.
    """
    # matplotlib caches its font list here; creating the list takes seconds.
    os.environ.setdefault("MPLCONFIGDIR", str(cache_folder() / "matplotlib"))
    # Imported late: it takes a second that most commands do not need.
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    seconds = [sample.seconds for sample in samples]
    # From the palette of Okabe and Ito, which colour-blind readers can distinguish.
    blue, orange, green, grey = "#0072B2", "#D55E00", "#009E73", "#666666"
    figure = Figure(figsize=(12, 9), dpi=100, layout="constrained")
    panels = load, reading, replicas, nodes = figure.subplots(4, 1, sharex=True, height_ratios=[2, 3, 3, 2])

    rates = [sample.requests_per_second for sample in samples]
    load.plot(seconds, rates, color=grey, linewidth=2, label="completed requests")
    load.set_ylabel("load (requests/s)")
    load.set_title("GPU autoscaling under the guide's load")

    # The HPA keeps a reading until its next sync, so only the load is drawn as a line.
    def steps(panel: Axes, values: Sequence[float], label: str, color: str, style: str = "-") -> None:
        panel.step(seconds, values, where="post", color=color, linestyle=style, linewidth=2, label=label)

    values = [math.nan if sample.metric is None else sample.metric for sample in samples]
    steps(reading, values, f"{metric}, average per pod", blue)
    steps(reading, [sample.target for sample in samples], "HPA target", orange, "--")
    reading.set_ylabel("GPU utilization (%)")
    steps(replicas, [sample.ready_replicas for sample in samples], "ready replicas", green)
    steps(replicas, [sample.desired_replicas for sample in samples], "desired replicas", orange, "--")
    replicas.set_ylabel("replicas")
    steps(nodes, [sample.gpu_nodes for sample in samples], "GPU nodes", blue)
    nodes.set_ylabel("nodes")
    nodes.set_xlabel("time (s)")

    # A rate covers the time before its sample.
    loaded = [index for index, rate in enumerate(rates) if rate > 0]
    for panel in panels:
        if loaded:
            label = "under load" if panel is load else ""
            panel.axvspan(
                seconds[max(loaded[0] - 1, 0)], seconds[loaded[-1]], color=grey, alpha=0.12, lw=0, label=label
            )
        panel.grid(alpha=0.3)
        # Leave room for the legend above the curves and for the full width of a line at 0.
        top = 1.4 * max(panel.dataLim.y1, 1)
        panel.set_ylim(-0.03 * top, top)
        panel.legend(loc="upper right", ncols=3)
    for panel in (replicas, nodes):
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    nodes.set_xlim(0, seconds[-1])
    figure.savefig(path)
