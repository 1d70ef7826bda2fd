"""What a rehearsal leaves for people and programs: the timeline as a picture, the result as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from live.checks import Step
from rehearsal.toolchain.build import cache_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    """Draw load, metric, replicas and nodes over one time axis; the time under load is shaded.

    Args:
        path: of the PNG, 1200 x 900 pixels.
        samples: at least one, in the order of time.
        metric: name of the HPA's metric.
    """
    # Where matplotlib keeps its list of the machine's fonts, which takes it seconds to make.
    os.environ.setdefault("MPLCONFIGDIR", str(cache_folder() / "matplotlib"))
    # Imported here: it takes a second, and most commands don't draw.
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    time = [sample.seconds for sample in samples]
    # Of the palette of Okabe and Ito, which the colour-blind can tell apart.
    blue, orange, green, grey = "#0072B2", "#D55E00", "#009E73", "#666666"
    figure = Figure(figsize=(12, 9), dpi=100, layout="constrained")
    panels = load, reading, replicas, nodes = figure.subplots(4, 1, sharex=True, height_ratios=[2, 3, 3, 2])

    rates = [sample.requests_per_second for sample in samples]
    load.plot(time, rates, color=grey, linewidth=2, label="requests answered")
    load.set_ylabel("load (requests/s)")
    load.set_title("Rehearsal of the guide's load")

    # The HPA keeps a reading until its next sync: all but the load are steps.
    def steps(panel: Axes, values: Sequence[float], label: str, color: str, style: str = "-") -> None:
        panel.step(time, values, where="post", color=color, linestyle=style, linewidth=2, label=label)

    values = [math.nan if sample.metric is None else sample.metric for sample in samples]
    steps(reading, values, f"{metric}, average of the pods", blue)
    steps(reading, [sample.target for sample in samples], "target of the HPA", orange, "--")
    reading.set_ylabel("GPU use (%)")
    steps(replicas, [sample.ready_replicas for sample in samples], "ready replicas", green)
    steps(replicas, [sample.desired_replicas for sample in samples], "desired replicas", orange, "--")
    replicas.set_ylabel("replicas")
    steps(nodes, [sample.gpu_nodes for sample in samples], "GPU nodes", blue)
    nodes.set_ylabel("nodes")
    nodes.set_xlabel("time (s)")

    # A rate is of the time before its sample.
    loaded = [index for index, rate in enumerate(rates) if rate > 0]
    for panel in panels:
        if loaded:
            label = "under load" if panel is load else ""
            panel.axvspan(time[max(loaded[0] - 1, 0)], time[loaded[-1]], color=grey, alpha=0.12, lw=0, label=label)
        panel.grid(alpha=0.3)
        # Room for the legend above the curves, and for a whole line at 0.
        top = 1.4 * max(panel.dataLim.y1, 1)
        panel.set_ylim(-0.03 * top, top)
        panel.legend(loc="upper right", ncols=3)
    for panel in (replicas, nodes):
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
    nodes.set_xlim(0, time[-1])
    figure.savefig(path)
