"""All settings of a stack, and the checks on them, section by section.

Each default is in these models and nowhere else. `make docs` writes the docstring of a field, or else of its model,
into docs/settings.md and Pulumi.yaml. The models check single values; the `findings` of a section check values against
each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal

from autoscaling.metrics.adapter_rules import Rule, RuleSet
from autoscaling.settings.autoscaler import autoscaler_findings
from autoscaling.settings.autoscaler_metrics import metric_findings
from autoscaling.settings.capacity import Budget, budget_findings, capacity_findings
from autoscaling.settings.cluster import Cluster, cluster_findings
from autoscaling.settings.errors import Finding
from autoscaling.settings.field_types import Duration, Form, Model, Text
from autoscaling.settings.gpu_node_pool import GpuNodePool, pool_findings
from autoscaling.settings.metrics_adapter import MetricsAdapter, adapter_findings
from autoscaling.settings.prometheus import Prometheus, prometheus_findings
from autoscaling.settings.services import Service, service_findings

Region = Literal[
    "ap-northeast-1", "ap-northeast-2", "ap-southeast-1", "ap-southeast-3", "ap-southeast-5",
    "ap-southeast-6", "ap-southeast-7", "cn-beijing", "cn-chengdu", "cn-guangzhou", "cn-hangzhou",
    "cn-hangzhou-finance", "cn-heyuan", "cn-hongkong", "cn-huhehaote", "cn-north-2-gov-1", "cn-qingdao",
    "cn-shanghai", "cn-shanghai-finance-1", "cn-shenzhen", "cn-shenzhen-finance-1", "cn-wulanchabu",
    "cn-zhangjiakou", "eu-central-1", "eu-west-1", "me-central-1", "us-east-1", "us-west-1",
]  # fmt: skip
"""Regions with both ACK and Managed Prometheus, from their pages of supported regions (2024-11 to 2026-10)."""

REMOVED_SETTINGS = {"prometheus.scrapeInterval": "it had no effect"}
"""Settings of earlier versions, with the reason why each was removed."""

_WAIT = Duration("must be a duration of at most 60m, such as 90s or 5m; 0s turns the wait off", 0, 60 * 60)
_STACK = Form(
    r"(?!<)[-A-Za-z0-9_.]+(/[-A-Za-z0-9_.]+){0,2}", "must be the name of a stack, such as organization/ackgpu/platform"
)


class Settings(Model):
    """All settings of a stack: the configuration keys that begin with the project's name."""

    region: Region
    """Region of the cluster, such as cn-hangzhou."""
    cluster: Cluster
    gpu_node_pool: GpuNodePool
    prometheus: Prometheus = Prometheus()
    metrics_adapter: MetricsAdapter = MetricsAdapter()
    budget: Budget = Budget()
    services: list[Service]
    """The inference services, as a list. With `[]`, the stack is only a platform for services of other stacks."""
    platform: Annotated[Text, _STACK] | None = None
    """Name of another stack, such as `organization/ackgpu/platform`, whose cluster, nodes, Prometheus and adapter the
    services use. This stack then sets only `services` and `waitForMetrics`."""
    wait_for_metrics: Annotated[str, _WAIT] = "5m"
    """How long `up` waits until each HPA reads its metric. With `0s`, `up` does not wait, for example while metrics are
    down."""

    @cached_property
    def rule_set(self) -> RuleSet:
        """The program's own rules for the metrics of the services."""
        adapter = self.metrics_adapter
        uses = {(use.name, use.aggregation) for service in self.services for use in service.autoscaler.metrics}
        uses |= {(use.name, use.aggregation) for use in adapter.expose}
        return RuleSet(
            preset=adapter.rules,
            labels=adapter.labels,
            card_mode=self.gpu_node_pool.card_mode,
            idle_as_zero=adapter.idle_as_zero,
            uses=frozenset(uses),
        )

    @property
    def adapter_rules(self) -> list[Rule]:
        """All rules of the adapter, in the order of its chart."""
        return [*self.rule_set.rules(), *(rule.as_written() for rule in self.metrics_adapter.extra_rules)]


def findings(settings: Settings) -> Iterator[Finding]:
    """Return every error between settings, and every warning."""
    for section in (
        cluster_findings,
        pool_findings,
        capacity_findings,
        budget_findings,
        service_findings,
        autoscaler_findings,
        metric_findings,
        adapter_findings,
        prometheus_findings,
    ):
        yield from section(settings)
