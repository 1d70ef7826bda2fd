"""The catalogue of metrics, read from `catalogue.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, model_validator

from autoscaling.ack.card_modes import CardModeName

Level = Literal["device", "process", "container", "engine"]
Aggregation = Literal["avg", "sum", "max"]
LabelPreset = Literal["ack", "upstream", "upstream-exported"]
LABEL_PRESETS: tuple[LabelPreset, ...] = get_args(LabelPreset)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Labels(_Strict):
    """Names of the labels that carry an object's namespace, pod and node."""

    namespace: str
    pod: str
    node: str | None = None
    """None if no label holds the name of the Kubernetes node."""


class Ratio(_Strict):
    """The two series of a ratio."""

    numerator: str
    denominator: str


class GpuMetric(_Strict):
    """A metric that the adapter can expose."""

    name: str
    """The exposed name."""
    series: str
    """Name in Prometheus; by default the exposed name, which cannot contain a colon."""
    guide: bool = False
    """Whether the guide's table lists it. Such metrics are always exposed, others only if a service uses them."""
    meaning: str
    unit: Literal["%", "MiB", "requests"]
    range: tuple[float, float]
    """Lowest and highest value of a series, in `unit`."""
    scale: float = 1
    """Factor from the series to `unit`."""
    level: Level
    """Subject of a series: a whole card, a process or container on it, or an inference engine."""
    aggregation: Aggregation
    """Default aggregation of several series of a pod, namespace or node."""
    exporters: tuple[Literal["ack", "upstream"], ...]
    """Exporters that have the metric."""
    card_modes: tuple[CardModeName, ...]
    """Card modes in which its value belongs to a single pod."""
    ratio: Ratio | None = None

    @model_validator(mode="before")
    @classmethod
    def _series_is_the_name(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"series": values.get("name"), **values}

    def exposed_as(self, aggregation: Aggregation | None) -> str:
        """Return the exposed name; a non-default aggregation is appended to it."""
        if aggregation in (None, self.aggregation):
            return self.name
        return f"{self.name}_{aggregation.upper() if self.name.isupper() else aggregation}"

    def exported_under(self, labels: LabelPreset) -> bool:
        """Return whether the exporter with these labels has the metric."""
        return exporter_of(labels) in self.exporters


class Catalogue(_Strict):
    """All metrics, and the labels of their series."""

    labels: dict[LabelPreset, Labels]
    engine_labels: Labels
    metrics: tuple[GpuMetric, ...]

    def find(self, name: str) -> GpuMetric | None:
        """Return the metric with this name, or None."""
        return next((metric for metric in self.metrics if metric.name == name), None)

    def get(self, name: str) -> GpuMetric:
        """Return the metric with this name.

        Raises:
            KeyError: the catalogue has no metric with this name.
        """
        metric = self.find(name)
        if metric is None:
            raise KeyError(name)
        return metric

    def labels_of(self, metric: GpuMetric, preset: LabelPreset) -> Labels:
        """Return the labels of the metric's series."""
        return self.engine_labels if metric.level == "engine" else self.labels[preset]


@cache
def catalogue() -> Catalogue:
    """Return the catalogue; its file is read once."""
    text = Path(__file__).with_name("catalogue.yaml").read_text()
    return Catalogue.model_validate(yaml.safe_load(text))


def exporter_of(labels: LabelPreset) -> Literal["ack", "upstream"]:
    """Return the exporter with these labels."""
    return "ack" if labels == "ack" else "upstream"
