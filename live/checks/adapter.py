"""The configuration of the adapter behind the custom metrics API: the address of Prometheus and its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.exposed_name import exposed_name
from live.checks.cluster_reader import BrokenLinkError, ClusterReader, Pod
from live.cluster_client import Object

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


def ready_pod(cluster: ClusterReader, registration: Object) -> Pod:
    """Return a Ready pod behind a registration.

    Raises:
        BrokenLinkError: there is none, or none is Ready.
    """
    pods = _pods(cluster, registration)
    ready = [pod for pod in pods if pod.ready]
    if not ready:
        raise BrokenLinkError(f"the adapter is down: its pod {pods[0].name} is not Ready ({pods[0].reason})")
    return ready[0]


def mounted_rules(cluster: ClusterReader, registration: Object) -> Sequence[Rule]:
    """Read the rules that are mounted into the pods behind a registration, Ready or not.

    Raises:
        BrokenLinkError: there is no such pod, or it has no rules where the vendor's chart and upstream's put them.
    """
    return _rules(cluster, _pods(cluster, registration)[0])


def running_adapter(cluster: ClusterReader, registration: Object) -> Adapter:
    """Read the configuration of a pod behind a registration.

    Raises:
        BrokenLinkError: there is no such pod, none is Ready, or its configuration is not where the vendor's chart and
            upstream's put it.
    """
    pod = ready_pod(cluster, registration)
    arguments = [argument for container in pod.spec["containers"] for argument in container.get("args") or ()]
    url = next(_values(arguments, _URL_ARGUMENT), None)
    headers = {
        name: value for name, _, value in (header.partition("=") for header in _values(arguments, _HEADER_ARGUMENT))
    }
    if url is None:
        raise _unreadable(pod)
    return Adapter(url, headers, _rules(cluster, pod))


def _pods(cluster: ClusterReader, registration: Object) -> list[Pod]:
    reference = registration["spec"]["service"]
    pods = cluster.pods_behind(reference["name"], reference["namespace"])
    if not pods:
        raise BrokenLinkError(f"the adapter is down: no pod runs behind {reference['namespace']}/{reference['name']}")
    return pods


def _values(arguments: Sequence[str], flag: str) -> Iterator[str]:
    return (argument.removeprefix(flag) for argument in arguments if argument.startswith(flag))


def _rules(cluster: ClusterReader, pod: Pod) -> Sequence[Rule]:
    names = [volume["configMap"]["name"] for volume in pod.spec.get("volumes") or () if volume.get("configMap")]
    for name in names:
        for text in cluster.config_map(name, pod.namespace).values():
            try:
                content = yaml.safe_load(text)
            except yaml.YAMLError:
                continue
            if isinstance(content, dict) and isinstance(content.get("rules"), list):
                rules: list[Rule] = content["rules"]
                return rules
    raise _unreadable(pod)


def _unreadable(pod: Pod) -> BrokenLinkError:
    return BrokenLinkError(f"the configuration of the adapter's pod {pod.name} can't be read")
