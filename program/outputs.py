"""What the stack tells its users: names and commands, none of them secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaling.ack.versions import CUSTOM_METRICS_PATH
from autoscaling.metrics.adapter_rules import RuleSet
from autoscaling.metrics.extra_rule_checks import exposed_metrics
from autoscaling.metrics.extra_rules import ExtraRule


def metric_resources(rules: RuleSet, extra_rules: Sequence[ExtraRule]) -> list[str]:
    """Each `<resource>/<metric>` that the program's own rules and the user's expose."""
    exposed = {metric.name: metric.resources for metric in rules.exposed} | exposed_metrics(extra_rules)
    return [f"{resource}s/{name}" for name, resources in exposed.items() for resource in resources]


def check_commands(services: Sequence[Mapping[str, Any]]) -> list[str]:
    """Shell commands that check the stack by hand, in the guide's order."""
    commands = [f"kubectl get --raw {CUSTOM_METRICS_PATH}"]
    for service in services:
        namespace = service["namespace"]
        pods = f"{CUSTOM_METRICS_PATH}/namespaces/{namespace}/pods/*"
        commands += [
            f"kubectl get pods -n {namespace} -l app={service['deployment']} -o wide",
            f"kubectl get svc {service['service']} -n {namespace}",
            *(f"kubectl get --raw '{pods}/{metric['name']}'" for metric in service["metrics"]),
            f"curl -v '{service['predictUrl']}'",
            f"kubectl get hpa {service['hpa']} -n {namespace}",
        ]
    return commands
