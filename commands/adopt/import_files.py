"""The files for `pulumi import`: first the components, then the providers and what was found.

There are two because the engine creates the providers of a file before its components, and one provider has a parent
component.

At the import the providers read most resources themselves. For two the file says how they are. From a release the
provider would read the values, with the address of Prometheus and its token, into the plain state. From a Service it
would read the cluster IP, which the program leaves to Kubernetes, and then replace the Service.
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
"""Marks a secret in JSON for the engine."""

_ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity")
"""Fields of a Service that Kubernetes fills in and the program does not set."""

_RELEASE_STATUS = ("name", "namespace", "status", "revision", "chart", "version")

_PROMETHEUS = ("AlibabaCloudMetricsAdapter", "prometheus")


@dataclass(frozen=True)
class Thing:
    """A resource that was found."""

    identity: str
    """The id that the provider gives it."""
    live: Object | HelmRelease | None = None
    """The live object; None: the provider reads it."""


def which(step: Step) -> tuple[str, ...]:
    """The key of a resource of the program among the things that were found."""
    if step.type in (NODE_POOL, RELEASE):
        return (step.type,)
    metadata = step.inputs.get("metadata") or {}
    return str(step.inputs.get("kind")), metadata.get("namespace", ""), metadata.get("name", "")


def import_files(plan: Plan, found: Mapping[tuple[str, ...], Thing]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two files for what was found, by `which`; each is empty if there is nothing to import."""
    components = [entry for entry in plan.entries if entry.get("component")]
    providers = [entry for entry in plan.entries if entry["type"].startswith("pulumi:providers:")]
    adopted: list[Mapping[str, Any]] = []
    for entry in plan.entries:
        step = plan.steps[plan.urn(entry)]
        if thing := found.get(which(step)):
            adopted.append({**entry, "id": thing.identity, **_described(step, thing)})
    if not adopted:
        return {}, {}
    resources = [*providers, *adopted]
    table = {**plan.names, **{entry["name"]: plan.urn(entry) for entry in components}}
    named = {resource[key] for resource in resources for key in ("parent", "provider") if key in resource}
    return (
        {"resources": components} if components else {},
        {"nameTable": {name: urn for name, urn in table.items() if name in named}, "resources": resources},
    )


def _described(step: Step, thing: Thing) -> dict[str, Any]:
    if isinstance(thing.live, HelmRelease):
        inputs = {**step.inputs, "version": thing.live.version, "values": _without_secrets(thing.live.values)}
        status = {key: getattr(thing.live, key) for key in _RELEASE_STATUS}
        outputs = {**inputs, "status": status, "__inputs": _secret(inputs)}
        return {"inputs": inputs, "outputs": outputs}
    if thing.live and thing.live["kind"] == "Service":
        inputs = _service_inputs(thing.live)
        outputs = {
            **thing.live,
            "__inputs": inputs,
            "__initialApiVersion": thing.live["apiVersion"],
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
    """The values with an empty secret in place of each secret, so that the state knows that it is secret."""
    masked: dict[str, Any] = copy.deepcopy(dict(values))
    prometheus = value_at(masked, _PROMETHEUS) or {}
    for key in ("url", "prometheusHeader"):
        if key in prometheus:
            prometheus[key] = _secret("")
    return masked


def _secret(value: Any) -> dict[str, str]:
    return {**_SECRET, "plaintext": json.dumps(value)}
