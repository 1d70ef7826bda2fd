"""A user's own rules for the adapter: the part of prometheus-adapter's grammar that can be checked before a start.

https://github.com/kubernetes-sigs/prometheus-adapter/blob/v0.12.0/docs/config.md has the whole of it. Here a rule names
one series, so that the name it exposes is known; and its query has the three placeholders only, so that it can be
parsed. `autoscaling.metrics.extra_rule_checks` has what must hold in a rule and between rules.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Resource = Literal["namespace", "node", "pod", "service", "namespaces", "nodes", "pods", "services"]


class _Model(BaseModel):
    # As that of the settings, whose part it is.
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )


class ResourceOverride(_Model):
    """What a label holds the name of."""

    resource: Resource
    """Kind of the object whose name the label holds: `namespace`, `node`, `pod` or `service`."""

    @property
    def kind(self) -> str:
        """The kind in the singular; the adapter takes both."""
        return self.resource.removesuffix("s")


class RuleResources(_Model):
    """To which Kubernetes objects the series belong."""

    overrides: Annotated[dict[str, ResourceOverride], Field(min_length=1)]
    """Label to kind of object; a pod or a Service needs a label of its namespace too."""


class RuleName(_Model):
    """The name under which the metric is exposed; by default the series' own."""

    matches: str = ".*"
    """A regular expression that is found in the name of the series."""
    as_: Annotated[str, Field(alias="as")] = ""
    """The exposed name, where `${1}` stands for what the first group of `matches` found."""


class ExtraRule(_Model):
    """A rule of your own for the adapter, which exposes one series more."""

    series_query: str
    """The series, by its name and by label matchers, such as `my_queue_length{pod!=""}`."""
    series_filters: list[Annotated[dict[Literal["is", "isNot"], str], Field(min_length=1, max_length=1)]] = []
    """Conditions on the name of the series, each with a regular expression: `is` or `isNot`. Only for rules that are
    adopted; a rule that names its series needs none."""
    resources: RuleResources
    name: RuleName = RuleName()
    metrics_query: str
    """PromQL with the placeholders `<<.Series>>`, `<<.LabelMatchers>>` and `<<.GroupBy>>`."""

    def as_written(self) -> dict[str, Any]:
        """The rule as the chart takes it: each key and each text as the user wrote it."""
        return self.model_dump(by_alias=True, exclude_unset=True)
