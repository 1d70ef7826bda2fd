"""Settings for the live Deployment, Service and HPA of a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from autoscaling.ack.card_modes import GPU_CORE, GPU_MEMORY, WHOLE_GPU
from autoscaling.ack.load_balancer import ADDRESS_TYPE
from autoscaling.hpa.behavior import with_defaults
from autoscaling.metrics.catalogue import Aggregation, catalogue
from autoscaling.settings.services import Service
from commands.adopt.live_objects import ServiceObjects, display_name
from commands.adopt.proposal import Key, Proposal, may_be_secret, number
from live.cluster_client import Object

_MIG = "nvidia.com/mig-"


def propose_service(proposal: Proposal, service: Service, key: Key, found: ServiceObjects) -> None:
    """Propose the settings, under the service's key, that keep its live objects as they are."""
    values: dict[Key, Any] = {}
    if found.deployment:
        values |= _deployment(service, found.deployment, proposal)
        proposal.notes.append(_disruption_budget(service, found))
    if found.service:
        values |= _load_balancer(found.service, proposal)
    if found.autoscalers:
        values |= _autoscaler(service, found.autoscalers, proposal)
    if values:
        values["adopted",] = True
    proposal.settings |= {(*key, *inner): value for inner, value in values.items()}


def _deployment(service: Service, live: Object, proposal: Proposal) -> dict[Key, Any]:
    spec, name = live["spec"], display_name(live)
    if spec["selector"] != {"matchLabels": {"app": service.object_name}}:
        labels = ", ".join(f"{key}={value}" for key, value in (spec["selector"].get("matchLabels") or {}).items())
        proposal.problems.append(
            f"{name} selects pods by {labels or 'expressions'}, but the program selects app={service.object_name}. "
            "Kubernetes can't change a selector, so `pulumi up` would replace the Deployment. Give the service another "
            "name to create a new Deployment beside it."
        )
    pod = spec["template"]["spec"]
    containers = pod["containers"]
    if len(containers) > 1:
        proposal.problems.append(
            f"{name} has {len(containers)} containers, but the program supports only one. Remove the service from "
            "services. docs/getting-started.md shows a program for an HPA alone."
        )
        return {}
    [container] = containers
    env = {entry["name"]: entry.get("value", "") for entry in container.get("env") or [] if "valueFrom" not in entry}
    secret = [name for name in env if may_be_secret(name)]
    if secret:
        proposal.problems.append(
            f"{name} has environment variables that may be secrets: {', '.join(secret)}. Move them to a "
            "Kubernetes Secret and add its name to envFrom."
        )
    resources = container.get("resources") or {}
    ports = container.get("ports") or []
    values: dict[Key, Any] = {
        ("containerName",): container["name"],
        ("image",): container["image"],
        ("args",): list(container.get("args") or []),
        ("env",): {name: value for name, value in env.items() if name not in secret},
        ("envFrom",): [
            source["secretRef"]["name"] for source in container.get("envFrom") or [] if "secretRef" in source
        ],
    }
    # The API server copies GPU limits into the requests.
    for name, value in (resources.get("requests") or {}).items():
        if name in ("cpu", "memory"):
            values[name,] = value
    values.update(_gpus(resources.get("limits") or {}))
    if ports:
        values["containerPort",] = ports[0]["containerPort"]
    return values


def _disruption_budget(service: Service, found: ServiceObjects) -> str:
    created = f"PodDisruptionBudget {service.namespace}/{service.object_name} would be created"
    others = ", ".join(
        f"{budget['metadata']['namespace']}/{budget['metadata']['name']}" for budget in found.disruption_budgets
    )
    if others:
        return (
            f"{created}, but another PodDisruptionBudget already selects the same pods: {others}. Kubernetes can't "
            f"evict a pod that two budgets select. Delete {others} first."
        )
    return f"{created}: draining a node then evicts only one pod of the service at a time."


def _gpus(limits: Mapping[str, str]) -> dict[Key, Any]:
    if GPU_MEMORY in limits:
        shared: dict[Key, Any] = {("gpuMemoryGiB",): int(limits[GPU_MEMORY])}
        return shared | ({("gpuCorePercent",): int(limits[GPU_CORE])} if GPU_CORE in limits else {})
    mig = next((name for name in limits if name.startswith(_MIG)), None)
    if mig:
        return {("migProfile",): mig.removeprefix(_MIG).replace(".me", "+me"), ("gpus",): int(limits[mig])}
    return {("gpus",): int(limits[WHOLE_GPU])} if WHOLE_GPU in limits else {}


def _load_balancer(live: Object, proposal: Proposal) -> dict[Key, Any]:
    spec, name = live["spec"], display_name(live)
    if spec["type"] != "LoadBalancer":
        proposal.notes.append(
            f"{name} has type {spec['type']}. It would become a LoadBalancer with an address outside the cluster."
        )
    if len(spec["ports"]) > 1:
        lost = ", ".join(str(port["port"]) for port in spec["ports"][1:])
        proposal.problems.append(
            f"{name} would keep only port {spec['ports'][0]['port']} and lose {lost}. Create another Service "
            "for the other ports."
        )
    address = (live["metadata"].get("annotations") or {}).get(ADDRESS_TYPE, "internet")
    return {("port",): spec["ports"][0]["port"], ("loadBalancer",): address}


def _autoscaler(service: Service, found: Sequence[Object], proposal: Proposal) -> dict[Key, Any]:
    live = next((hpa for hpa in found if hpa["metadata"]["name"] == service.autoscaler_name), found[0])
    if len(found) > 1:
        names = ", ".join(sorted(hpa["metadata"]["name"] for hpa in found))
        proposal.problems.append(
            f"Deployment {service.namespace}/{service.object_name} has several HPAs: {names}. Kubernetes does not "
            "scale a Deployment with two HPAs. Delete all but one."
        )
    spec = live["spec"]
    unsupported: list[str] = []
    metrics = list(_metrics(spec, unsupported))
    if unsupported:
        proposal.notes.append(
            f"{display_name(live)} would no longer scale on its metrics of type {', '.join(unsupported)}, because "
            "settings support only Pods metrics with an averageValue."
        )
    values: dict[Key, Any] = {
        ("name",): live["metadata"]["name"],
        ("minReplicas",): spec.get("minReplicas", 1),
        ("maxReplicas",): spec["maxReplicas"],
    }
    if metrics:
        values["metrics",] = metrics
    for side, rules in with_defaults(spec.get("behavior")).items():
        values[side, "stabilizationWindowSeconds"] = rules["stabilizationWindowSeconds"]
        values[side, "policies"] = rules["policies"]
    return {("autoscaler", *key): value for key, value in values.items()}


def _metrics(spec: Mapping[str, Any], unsupported: list[str]) -> Iterator[dict[str, Any]]:
    """Yield metrics as settings; add metric types that settings can't express to `unsupported`."""
    for metric in spec.get("metrics") or []:
        # The format of v2beta1, then of v2.
        pods = metric.get("pods") or {}
        average = pods.get("targetAverageValue") or (pods.get("target") or {}).get("averageValue")
        if average is None:
            unsupported.append(metric["type"])
        else:
            yield {**_metric(pods.get("metricName") or pods["metric"]["name"]), "target": number(str(average))}


def _metric(exposed: str) -> dict[str, str]:
    """Return name and aggregation of a catalogue metric, or the exposed name for a user's own rule."""
    for metric in catalogue().metrics:
        if metric.exposed_as(None) == exposed:
            return {"name": metric.name}
        for aggregation in get_args(Aggregation):
            if metric.exposed_as(aggregation) == exposed:
                return {"name": metric.name, "aggregation": aggregation}
    return {"name": exposed}
