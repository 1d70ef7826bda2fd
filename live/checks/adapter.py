"""What the adapter that serves the custom metrics API was given: the address of Prometheus and its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml
from kubernetes import client

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.exposed_name import exposed_name
from live.checks.cluster import BrokenLinkError, Cluster, Pod

_URL_ARGUMENT, _HEADER_ARGUMENT = "--prometheus-url=", "--prometheus-header="


@dataclass(frozen=True)
class Adapter:
    """The running adapter's configuration, read from its pod."""

    prometheus_url: str
    """A secret: its path holds a token."""
    prometheus_headers: Mapping[str, str]
    """Of each query; a secret."""
    rules: Sequence[Rule]

    def __repr__(self) -> str:
        return f"Adapter({len(self.rules)} rules)"

    def rule_of(self, metric: str) -> Rule | None:
        """The rule that exposes the metric."""
        return next((rule for rule in self.rules if exposed_name(rule) == metric), None)


def ready_pod(cluster: Cluster, registration: client.V1APIService) -> Pod:
    """A pod behind a registration.

    Raises:
        BrokenLinkError: there is none, or none is Ready.
    """
    reference = registration.spec.service
    pods = cluster.pods_behind(reference.name, reference.namespace)
    if not pods:
        raise BrokenLinkError(f"the adapter is down: no pod runs behind {reference.namespace}/{reference.name}")
    ready = [pod for pod in pods if pod.ready]
    if not ready:
        raise BrokenLinkError(f"the adapter is down: its pod {pods[0].name} is not Ready ({pods[0].reason})")
    return ready[0]


def mounted_rules(cluster: Cluster, registration: client.V1APIService) -> Sequence[Rule]:
    """The rules that the pods behind a registration are given, whether they can work with them or not.

    Raises:
        BrokenLinkError: there is no such pod, or it has no rules where the vendor's chart and upstream's put them.
    """
    reference = registration.spec.service
    pods = cluster.pods_behind(reference.name, reference.namespace)
    if not pods:
        raise BrokenLinkError(f"the adapter is down: no pod runs behind {reference.namespace}/{reference.name}")
    rules = _rules(cluster, pods[0].spec, reference.namespace)
    if rules is None:
        raise BrokenLinkError(f"the configuration of the adapter's pod {pods[0].name} can't be read")
    return rules


def running_adapter(cluster: Cluster, registration: client.V1APIService) -> Adapter:
    """Read the configuration of a pod behind a registration.

    Raises:
        BrokenLinkError: there is no such pod, none is Ready, or its configuration is not where the vendor's chart and
            upstream's put it.
    """
    pod = ready_pod(cluster, registration)
    arguments = [argument for container in pod.spec.containers for argument in container.args or []]
    url = next(_values(arguments, _URL_ARGUMENT), None)
    headers = {name: value for name, _, value in (one.partition("=") for one in _values(arguments, _HEADER_ARGUMENT))}
    rules = _rules(cluster, pod.spec, registration.spec.service.namespace)
    if url is None or rules is None:
        raise BrokenLinkError(f"the configuration of the adapter's pod {pod.name} can't be read")
    return Adapter(url, headers, rules)


def _values(arguments: Sequence[str], flag: str) -> Iterator[str]:
    return (one.removeprefix(flag) for one in arguments if one.startswith(flag))


def _rules(cluster: Cluster, spec: client.V1PodSpec, namespace: str) -> Sequence[Rule] | None:
    for volume in spec.volumes or []:
        for text in cluster.config_map(volume.config_map.name, namespace).values() if volume.config_map else ():
            try:
                content = yaml.safe_load(text)
            except yaml.YAMLError:
                continue
            if isinstance(content, dict) and isinstance(content.get("rules"), list):
                rules: list[Rule] = content["rules"]
                return rules
    return None
