"""The catalogue of GPU metrics, read from `gpu_metrics.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

Level = Literal["device", "process"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Labels(_Strict):
    """Names of the labels that carry an object's namespace, pod and node."""

    namespace: str
    pod: str
    node: str


class Ratio(_Strict):
    """The two series that a ratio is made of."""

    numerator: str
    denominator: str


class GpuMetric(_Strict):
    """One metric that the adapter exposes."""

    name: str
    meaning: str
    unit: Literal["%", "MiB"]
    range: tuple[float, float]
    """Lowest and highest value of one series, in `unit`."""
    level: Level
    """What a series describes: a whole card, or one process on it."""
    aggregation: Literal["avg", "sum", "max"]
    """How the series of one pod, namespace or node become one value."""
    ratio: Ratio | None = None


class Catalogue(_Strict):
    """All metrics, and the labels of their series."""

    labels: Labels
    metrics: tuple[GpuMetric, ...]

    def find(self, name: str) -> GpuMetric | None:
        """The metric of that name, or None."""
        return next((metric for metric in self.metrics if metric.name == name), None)

    def get(self, name: str) -> GpuMetric:
        """The metric of that name.

        Raises:
            KeyError: there is none.
        """
        metric = self.find(name)
        if metric is None:
            raise KeyError(name)
        return metric


@cache
def catalogue() -> Catalogue:
    """The catalogue; read once."""
    text = Path(__file__).with_name("gpu_metrics.yaml").read_text()
    return Catalogue.model_validate(yaml.safe_load(text))
