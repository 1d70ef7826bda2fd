"""The adapter behind the custom metrics API: its Prometheus address, its rules, and causes of failure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from autoscaling.metrics.adapter_rules import Rule
from live.cluster_client import Object
from live.verify.cluster_reader import BrokenLinkError, ClusterReader, Pod

_URL, _HEADER = "--prometheus-url=", "--prometheus-header="

_CAUSES = {
    r"x509|tls:": "the API server does not trust the adapter's certificate: the APIService needs a caBundle, or "
    "insecureSkipTLSVerify",
    r"connection refused|not listening": "nothing listens on the port: the APIService, its Service and the adapter "
    "must use the same port",
    r"deadline exceeded|[Tt]imeout|no route to host|unreachable": "the control plane can't reach the adapter: open "
    "its port (443 with the vendor's chart, 6443 with prometheus-adapter's) in the security group and the network "
    "policies",
    r"403|Forbidden": "a proxy or RBAC refuses the control plane: add the cluster's Services to no_proxy, or grant "
    "the adapter's account the roles system:auth-delegator and extension-apiserver-authentication-reader",
    r"401|Unauthorized": "the adapter does not accept the control plane's client certificate: let the adapter trust "
    "the authority in ConfigMap kube-system/extension-apiserver-authentication",
}
"""Likely causes by a pattern in the message of `kube-aggregator`; the first match counts."""


@dataclass(frozen=True)
class Adapter:
    """The running adapter's configuration, read from its pod."""

    prometheus_url: str = field(repr=False)
    """A secret: the path contains a token."""
    prometheus_headers: Mapping[str, str] = field(repr=False)
    """Headers of each query; a secret."""
    rules: Sequence[Rule]


def ready_pod(cluster: ClusterReader, api_service: Object) -> Pod:
    """Return a Ready pod of the adapter that an APIService points to.

    Raises:
        BrokenLinkError: no pod is Ready.
    """
    pods = _pods(cluster, api_service)
    ready = [pod for pod in pods if pod.ready]
    if not ready:
        raise BrokenLinkError(
            f"the adapter is down: its pod {pods[0].name} is not Ready ({pods[0].reason}); `kubectl describe pod "
            f"{pods[0].name} -n {pods[0].namespace}` shows why"
        )
    return ready[0]


def mounted_rules(cluster: ClusterReader, api_service: Object) -> Sequence[Rule]:
    """Read the rules that are mounted into the pods of the adapter, Ready or not, that an APIService points to.

    Raises:
        BrokenLinkError: no pod exists, or its rules are not where the vendor's and upstream's charts mount them.
    """
    return _rules(cluster, _pods(cluster, api_service)[0])


def running_adapter(cluster: ClusterReader, api_service: Object) -> Adapter:
    """Read the configuration of a Ready pod of the adapter that an APIService points to.

    Raises:
        BrokenLinkError: no pod is Ready, or its configuration is not where the vendor's and upstream's charts put it.
    """
    pod = ready_pod(cluster, api_service)
    arguments = [argument for container in pod.spec["containers"] for argument in container.get("args") or ()]
    urls = [argument.removeprefix(_URL) for argument in arguments if argument.startswith(_URL)]
    if not urls:
        raise _unreadable(pod)
    headers = [argument.removeprefix(_HEADER) for argument in arguments if argument.startswith(_HEADER)]
    by_name = {name: value for name, _, value in (header.partition("=") for header in headers)}
    return Adapter(urls[0], by_name, _rules(cluster, pod))


def likely_cause(message: str, allowed_names: Sequence[str] = ()) -> str | None:
    """Return the likely cause of a false condition `Available`, or None if the message is unknown.

    Args:
        message: message of the condition.
        allowed_names: common names that extension servers accept in a client certificate; empty: any.
    """
    # Numbers in an address are not status codes.
    text = re.sub(r"https?://\S+", "", message)
    pattern = next((pattern for pattern in _CAUSES if re.search(pattern, text)), None)
    if pattern is None:
        return None
    names = f", and accept the CN {' or '.join(allowed_names)}" if allowed_names and pattern.startswith("401") else ""
    return _CAUSES[pattern] + names


def _pods(cluster: ClusterReader, api_service: Object) -> list[Pod]:
    reference = api_service["spec"]["service"]
    pods = cluster.pods_behind(reference["name"], reference["namespace"])
    if not pods:
        raise BrokenLinkError(
            f"the adapter is down: Service {reference['namespace']}/{reference['name']} has no pods; check the "
            "adapter's Deployment"
        )
    return pods


def _rules(cluster: ClusterReader, pod: Pod) -> Sequence[Rule]:
    names = [volume["configMap"]["name"] for volume in pod.spec.get("volumes") or () if volume.get("configMap")]
    for name in names:
        for text in cluster.config_map(name, pod.namespace).values():
            try:
                rules: list[Rule] = yaml.safe_load(text)["rules"]
            # Another file in the ConfigMap.
            except (yaml.YAMLError, TypeError, KeyError):
                continue
            return rules
    raise _unreadable(pod)


def _unreadable(pod: Pod) -> BrokenLinkError:
    return BrokenLinkError(
        f"the configuration of the adapter's pod {pod.name} can't be read: the pod needs an argument {_URL}... and a "
        "ConfigMap with rules"
    )
