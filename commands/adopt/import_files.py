"""The files for `pulumi import`: first the components, then the providers and the live resources.

There are two files because the engine creates a file's providers before its components, and one provider has a parent
component.

At the import, the providers read most resources themselves. The file describes two kinds of resources:
- Release: the provider would store its values, with the Prometheus address and token, in the state as plain text.
- Service: the provider would read the cluster IP, which the program does not set, and then replace the Service.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoscaling.metrics.adapter_values import value_at
from commands.adopt.plan import Plan, Step
from live.cluster_client import Object
from live.helm_release import HelmRelease

NODE_POOL = "alicloud:cs/nodePool:NodePool"
RELEASE = "kubernetes:helm.sh/v3:Release"

_SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
"""Marks a secret value for the engine, in JSON."""

_ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity")
"""Fields of a Service that Kubernetes sets and the program does not."""

_RELEASE_STATUS = ("name", "namespace", "status", "revision", "chart", "version")

_PROMETHEUS = ("AlibabaCloudMetricsAdapter", "prometheus")


@dataclass(frozen=True)
class LiveResource:
    """A live resource."""

    identity: str
    """The ID that the provider uses."""
    live: Object | HelmRelease | None = None
    """The live object. None if the provider reads it."""


def resource_key(step: Step) -> tuple[str, ...]:
    """Return the key under which a step of the preview finds its live resource."""
    if step.type in (NODE_POOL, RELEASE):
        return (step.type,)
    metadata = step.inputs.get("metadata") or {}
    return str(step.inputs.get("kind")), metadata.get("namespace", ""), metadata.get("name", "")


def import_files(plan: Plan, found: Mapping[tuple[str, ...], LiveResource]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the two import files; `found` has the live resources by `resource_key`.

    A file is empty if it has nothing to import.
    """
    components = [entry for entry in plan.entries if entry.get("component")]
    providers = [entry for entry in plan.entries if entry["type"].startswith("pulumi:providers:")]
    adopted: list[Mapping[str, Any]] = []
    for entry in plan.entries:
        step = plan.steps[plan.urn(entry)]
        if resource := found.get(resource_key(step)):
            adopted.append({**entry, "id": resource.identity, **_described(step, resource)})
    if not adopted:
        return {}, {}
    resources = [*providers, *adopted]
    table = {**plan.names, **{entry["name"]: plan.urn(entry) for entry in components}}
    used = {resource[key] for resource in resources for key in ("parent", "provider") if key in resource}
    return (
        {"resources": components} if components else {},
        {"nameTable": {name: urn for name, urn in table.items() if name in used}, "resources": resources},
    )


def _described(step: Step, resource: LiveResource) -> dict[str, Any]:
    if isinstance(resource.live, HelmRelease):
        inputs = {**step.inputs, "version": resource.live.version, "values": _without_secrets(resource.live.values)}
        status = {key: getattr(resource.live, key) for key in _RELEASE_STATUS}
        outputs = {**inputs, "status": status, "__inputs": _secret(inputs)}
        return {"inputs": inputs, "outputs": outputs}
    if resource.live and resource.live["kind"] == "Service":
        inputs = _service_inputs(resource.live)
        outputs = {
            **resource.live,
            "__inputs": inputs,
            "__initialApiVersion": resource.live["apiVersion"],
            "__fieldManager": "pulumi-kubernetes-adopted",
        }
        return {"inputs": inputs, "outputs": outputs}
    return {}


def _service_inputs(live: Object) -> dict[str, Any]:
    own = ("name", "namespace", "labels", "annotations")
    metadata = {key: live["metadata"][key] for key in own if key in live["metadata"]}
    spec = {key: value for key, value in live["spec"].items() if key not in _ALLOCATED}
    spec["ports"] = [{key: value for key, value in port.items() if key != "nodePort"} for port in spec["ports"]]
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata, "spec": spec}


def _without_secrets(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each secret value with an empty secret, so that the state marks it as secret."""
    masked: dict[str, Any] = copy.deepcopy(dict(values))
    prometheus = value_at(masked, _PROMETHEUS) or {}
    for key in ("url", "prometheusHeader"):
        if key in prometheus:
            prometheus[key] = _secret("")
    return masked


def _secret(value: Any) -> dict[str, str]:
    return {**_SECRET, "plaintext": json.dumps(value)}
