"""What a rehearsal leaves for people and programs: the timeline as a picture, the result as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from verify import Step


@dataclass(frozen=True)
class Sample:
    """A service and its pool at one moment."""

    seconds: float
    """Since the first sample."""
    requests_per_second: float
    metric: float | None
    """The HPA's reading, in percent; None while it has none."""
    target: float
    desired_replicas: int
    ready_replicas: int
    gpu_nodes: int


def write_result(
    path: Path,
    *,
    steps: Sequence[Step],
    seconds: Mapping[str, float],
    replicas: Mapping[str, int],
    second_preview_changes: int,
    leftovers: Sequence[str],
) -> None:
    """Write `result.json`."""
    result = {
        "steps": [asdict(step) for step in steps],
        "seconds": dict(seconds),
        "replicas": dict(replicas),
        "second_preview_changes": second_preview_changes,
        "leftovers": list(leftovers),
    }
    path.write_text(json.dumps(result, indent=2) + "\n")


def draw_timeline(path: Path, samples: Sequence[Sample], metric: str) -> None:
    """Draw load, metric, replicas and nodes over one time axis.

    Args:
        path: of the PNG.
        samples: in the order of time.
        metric: name of the HPA's metric.
    """
    # Imported here: it takes a second, and most commands don't draw.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    time = [sample.seconds for sample in samples]
    figure, (load, reading, replicas, nodes) = pyplot.subplots(
        4, 1, sharex=True, figsize=(12, 10), height_ratios=[2, 3, 3, 2], layout="constrained"
    )
    blue, orange, green, grey = "#0072B2", "#D55E00", "#009E73", "#666666"

    load.fill_between(time, [sample.requests_per_second for sample in samples], color=grey, alpha=0.5)
    load.plot(time, [sample.requests_per_second for sample in samples], color=grey, label="requests answered")
    load.set_ylabel("requests / s")
    load.set_title("Rehearsal of the guide's load")

    values = [float("nan") if sample.metric is None else sample.metric for sample in samples]
    reading.plot(time, values, color=blue, linewidth=2, label=f"{metric}, average of the pods")
    reading.plot(time, [sample.target for sample in samples], color=orange, linestyle="--", label="target of the HPA")
    reading.set_ylabel("GPU use (%)")

    replicas.step(
        time,
        [sample.desired_replicas for sample in samples],
        where="post",
        color=orange,
        linestyle="--",
        linewidth=2,
        label="desired replicas",
    )
    replicas.step(
        time,
        [sample.ready_replicas for sample in samples],
        where="post",
        color=green,
        linewidth=2,
        label="ready replicas",
    )
    replicas.set_ylabel("replicas")

    nodes.step(
        time,
        [sample.gpu_nodes for sample in samples],
        where="post",
        color=blue,
        linewidth=2,
        label="GPU nodes",
    )
    nodes.set_ylabel("nodes")
    nodes.set_xlabel("time since the walk began (s)")

    for axis in (load, reading, replicas, nodes):
        axis.grid(alpha=0.3)
        low, high = axis.get_ylim()
        axis.set_ylim(0, high + 0.25 * (high - min(low, 0)))
        axis.legend(loc="upper right", frameon=True)
    for axis in (replicas, nodes):
        axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    load.set_xlim(time[0], time[-1])
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
