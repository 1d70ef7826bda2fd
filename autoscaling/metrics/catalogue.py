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
    """None where no label holds the name of the Kubernetes node."""


class Ratio(_Strict):
    """The two series that a ratio is made of."""

    numerator: str
    denominator: str


class GpuMetric(_Strict):
    """One metric that the adapter can expose."""

    name: str
    """The exposed name."""
    series: str
    """Name in Prometheus; by default the exposed one, which can't have the colon that some have."""
    guide: bool = False
    """Whether it is in the guide's table; those are exposed always, and others where a service uses them."""
    meaning: str
    unit: Literal["%", "MiB", "requests"]
    range: tuple[float, float]
    """Lowest and highest value of one series, in `unit`."""
    scale: float = 1
    """By what a series is multiplied to be in `unit`."""
    level: Level
    """What a series describes: a whole card, a process or a container on it, or the engine that serves requests."""
    aggregation: Aggregation
    """How the series of one pod, namespace or node become one value, where a service does not say otherwise."""
    exporters: tuple[Literal["ack", "upstream"], ...]
    """Which exporter has it."""
    card_modes: tuple[CardModeName, ...]
    """On which cards its value is that of one pod."""
    ratio: Ratio | None = None

    @model_validator(mode="before")
    @classmethod
    def _series_is_the_name(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {"series": values.get("name"), **values}

    def exposed_as(self, aggregation: Aggregation | None) -> str:
        """The exposed name of a use; with another aggregation than the default it ends in that aggregation's name."""
        if aggregation in (None, self.aggregation):
            return self.name
        return f"{self.name}_{aggregation.upper() if self.name.isupper() else aggregation}"

    def exported_under(self, labels: LabelPreset) -> bool:
        """Whether the exporter with these labels has the metric."""
        return exporter_of(labels) in self.exporters


class Catalogue(_Strict):
    """All metrics, and the labels of their series."""

    labels: dict[LabelPreset, Labels]
    engine_labels: Labels
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

    def labels_of(self, metric: GpuMetric, preset: LabelPreset) -> Labels:
        """The labels of the metric's series."""
        return self.engine_labels if metric.level == "engine" else self.labels[preset]


@cache
def catalogue() -> Catalogue:
    """The catalogue; read once."""
    text = Path(__file__).with_name("catalogue.yaml").read_text()
    return Catalogue.model_validate(yaml.safe_load(text))


def exporter_of(labels: LabelPreset) -> Literal["ack", "upstream"]:
    """Whose exporter names its labels so."""
    return "ack" if labels == "ack" else "upstream"
