"""The stack's outputs: names and commands, without secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from autoscaling.ack.versions import CUSTOM_METRICS_PATH
from autoscaling.metrics.adapter_rules import RuleSet
from autoscaling.metrics.extra_rule_checks import exposed_metrics
from autoscaling.metrics.extra_rules import ExtraRule
from autoscaling.settings.services import SERVICE_SUFFIX, Service


def service_output(
    service: Service, *, address: pulumi.Input[str], hpa: pulumi.Input[str]
) -> pulumi.Output[dict[str, Any]]:
    """Return the output that describes a service, for `./ackgpu verify` and `checks`.

    Args:
        service: the service's settings.
        address: the address of its load balancer.
        hpa: the name of its HPA.
    """
    autoscaler = service.autoscaler
    # A dictionary of outputs is slower: the SDK would revisit every task whenever one ends.
    return pulumi.Output.all(address, hpa).apply(
        lambda known: {
            "name": service.name,
            "namespace": service.namespace,
            "deployment": service.object_name,
            "service": f"{service.object_name}{SERVICE_SUFFIX}",
            "address": known[0],
            "predictUrl": f"http://{known[0]}{service.probe.path}",
            "answer": service.probe.answer,
            "hpa": known[1],
            "metrics": [{"name": metric.exposed_name, "target": f"{metric.target:f}"} for metric in autoscaler.metrics],
            "minReplicas": autoscaler.min_replicas,
            "maxReplicas": autoscaler.max_replicas,
        }
    )


def metric_resources(rules: RuleSet, extra_rules: Sequence[ExtraRule]) -> list[str]:
    """Return each `<resource>/<metric>` that the program's rules and the user's rules expose."""
    exposed = {metric.name: metric.resources for metric in rules.exposed} | exposed_metrics(extra_rules)
    return [f"{resource}s/{name}" for name, resources in exposed.items() for resource in resources]


def check_commands(services: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return shell commands that check the stack by hand, in the guide's order."""
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
