"""What the stack tells its users: names and commands, none of them secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoscaling.adapter_rules import RulePreset, exposed_resources
from autoscaling.extra_rule_checks import exposed_metrics
from autoscaling.extra_rules import ExtraRule
from autoscaling.gpu_metrics import catalogue
from autoscaling.versions import CUSTOM_METRICS_PATH


def metric_resources(preset: RulePreset, extra_rules: Sequence[ExtraRule]) -> list[str]:
    """Each `<resource>/<metric>` of the catalogue that the preset's rules expose, and of the user's own rules."""
    exposed = {metric.name: exposed_resources(metric, preset) for metric in catalogue().metrics}
    exposed |= exposed_metrics(extra_rules)
    return [f"{resource}/{name}" for name, resources in exposed.items() for resource in resources]


def check_commands(services: Sequence[Mapping[str, Any]]) -> list[str]:
    """Shell commands that check the stack by hand, in the guide's order."""
    commands = [f"kubectl get --raw {CUSTOM_METRICS_PATH}"]
    for service in services:
        namespace = service["namespace"]
        pods = f"{CUSTOM_METRICS_PATH}/namespaces/{namespace}/pods/*/{service['metric']}"
        commands += [
            f"kubectl get pods -n {namespace} -l app={service['name']} -o wide",
            f"kubectl get svc {service['service']} -n {namespace}",
            f"kubectl get --raw '{pods}'",
            f"curl -v '{service['predictUrl']}'",
            f"kubectl get hpa {service['hpa']} -n {namespace}",
        ]
    return commands
