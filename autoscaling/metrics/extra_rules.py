"""Users' own rules for the adapter, in the checkable part of prometheus-adapter's grammar.

https://github.com/kubernetes-sigs/prometheus-adapter/blob/v0.12.0/docs/config.md has the full grammar. Here, a rule
names a single series, so that its exposed name is known. Its query uses only the three placeholders, so that it can be
parsed. `autoscaling.metrics.extra_rule_checks` has the checks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Resource = Literal["namespace", "node", "pod", "service", "namespaces", "nodes", "pods", "services"]


class _Model(BaseModel):
    # The same as for the other settings.
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )


class ResourceOverride(_Model):
    """The kind of object that a label names."""

    resource: Resource
    """Kind of the object whose name the label holds: `namespace`, `node`, `pod` or `service`."""

    @property
    def kind(self) -> str:
        """The kind in the singular; the adapter accepts both."""
        return self.resource.removesuffix("s")


class RuleResources(_Model):
    """The Kubernetes objects that the series belong to."""

    overrides: Annotated[dict[str, ResourceOverride], Field(min_length=1)]
    """Maps each label to the kind of object that it names. For a pod or Service, also map the label that holds its
    namespace."""


class RuleName(_Model):
    """The exposed name of the metric; by default the name of the series."""

    matches: str = ".*"
    """A regular expression that matches part of the series' name."""
    as_: Annotated[str, Field(alias="as")] = ""
    """The exposed name; `${1}` stands for the first group of `matches`."""


class ExtraRule(_Model):
    """A rule of your own, which exposes a further series as a metric."""

    series_query: str
    """The name of the series, with label matchers, such as `my_queue_length{pod!=""}`."""
    series_filters: list[Annotated[dict[Literal["is", "isNot"], str], Field(min_length=1, max_length=1)]] = []
    """Regular expressions that the series' name must match (`is`) or not (`isNot`). Only adopted rules need them."""
    resources: RuleResources
    name: RuleName = RuleName()
    metrics_query: str
    """PromQL with the placeholders `<<.Series>>`, `<<.LabelMatchers>>` and `<<.GroupBy>>`."""

    def as_written(self) -> dict[str, Any]:
        """Return the rule in the chart's format, with the user's own keys and texts."""
        return self.model_dump(by_alias=True, exclude_unset=True)
