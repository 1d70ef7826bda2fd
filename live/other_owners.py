"""Find metrics adapters and autoscalers of other owners that conflict with the stack's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE, ADAPTER_SERVICE
from live.cluster_client import Object

METRICS_GROUPS = ("custom.metrics.k8s.io", "external.metrics.k8s.io")
"""API groups that the vendor's chart registers. An HPA reads the first, in the version that the cluster prefers."""

STACK_ANNOTATION = "ackgpu/stack"
"""On each HPA the stack that made it, so that the stack still knows an HPA that was renamed in its settings."""

_HPA = "HorizontalPodAutoscaler"
_HELM_RELEASE, _HELM_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"


@dataclass(frozen=True)
class Scaler:
    """A kind of object that sets the replicas of a Deployment."""

    kind: str
    api: str
    """`<group>/<version>`."""
    plural: str
    hint: str = ""
    """What the user can do instead."""


SCALERS = (
    Scaler(_HPA, "autoscaling/v1", "horizontalpodautoscalers"),
    Scaler("ScaledObject", "keda.sh/v1alpha1", "scaledobjects"),
    Scaler(
        "CronHorizontalPodAutoscaler",
        "autoscaling.alibabacloud.com/v1beta1",
        "cronhorizontalpodautoscalers",
        hint=", or let it point at the HPA",
    ),
)
"""Kubernetes' own, in the version that each cluster serves, and KEDA's and ACK's, which a cluster may lack."""


@dataclass(frozen=True)
class Scaled:
    """A Deployment of the stack and the HPA that the stack gives it."""

    namespace: str
    deployment: str
    autoscaler: str
    renamed: bool = False
    """Whether the Deployment has the service's former name."""
    retained: bool = False
    """Whether its objects stay when the service is deleted."""


def other_adapters(registrations: Iterable[Object]) -> Iterator[str]:
    """Yield a sentence on each other owner of a metrics API.

    Args:
        registrations: the cluster's APIServices.
    """
    by_owner: dict[tuple[str, str | None, str | None], list[str]] = defaultdict(list)
    for registration in registrations:
        owner, annotations = owner_of(registration), _annotations(registration["metadata"])
        release = annotations.get(_HELM_RELEASE)
        # Not every way of installing leaves Helm's annotation.
        ours = owner == ADAPTER_SERVICE and release in (None, ADAPTER_NAME)
        if registration["spec"].get("group") in METRICS_GROUPS and not ours:
            by_owner[owner, release, annotations.get(_HELM_NAMESPACE)].append(registration["metadata"]["name"])
    for (owner, release, namespace), names in by_owner.items():
        adapter = f"Helm release {ADAPTER_NAME}" if owner == ADAPTER_SERVICE else ADAPTER_SERVICE
        installed = f" (Helm release {release})" if release else ""
        uninstall = f": `helm uninstall {release} -n {namespace}`" if release and namespace else ""
        yield (
            f"{' and '.join(names)} {'belong' if len(names) > 1 else 'belongs'} to {owner}{installed}, and the adapter "
            f"of this stack, {adapter}, serves the same API. A cluster can have one adapter for each API. Uninstall "
            f"the other adapter{uninstall}; `kubectl delete apiservice {' '.join(names)}` deletes what is left of it."
        )


def adapter_of_unknown_origin(
    registrations: Iterable[Object], found: Mapping[Scaler, Iterable[Object]], stack: str
) -> Iterator[str]:
    """Yield a warning where the cluster has an adapter that the stack may not have installed.

    Not every release carries the name of its stack. The stack's HPAs, which are made after the adapter, do.

    Args:
        registrations: the cluster's APIServices.
        found: the objects of each kind in the stack's namespaces.
        stack: the name that the stack writes on its HPAs.
    """
    ours = (
        stack_of(autoscaler["metadata"]) == stack
        for scaler, objects in found.items()
        if scaler.kind == _HPA
        for autoscaler in objects
    )
    registered = [entry["metadata"]["name"] for entry in registrations if owner_of(entry) == ADAPTER_SERVICE]
    if registered and not any(ours):
        yield (
            f"{ADAPTER_SERVICE} already serves {' and '.join(registered)}, and this stack has no HPA yet. Unless an "
            f"earlier `up` of this stack installed that adapter, `up` will fail: the release name {ADAPTER_NAME} is "
            f"taken. `./ackgpu adopt` adopts the release as it is. `helm uninstall {ADAPTER_NAME} "
            f"-n {ADAPTER_NAMESPACE}` removes it; HPAs that use it pause until `up` finishes."
        )


def other_autoscalers(scaled: Sequence[Scaled], found: Mapping[Scaler, Iterable[Object]], stack: str) -> Iterator[str]:
    """Yield a sentence on each other autoscaler of a Deployment of the stack.

    Args:
        scaled: the stack's Deployments.
        found: the objects of each kind in their namespaces.
        stack: the name that the stack writes on its HPAs.
    """
    by_deployment = {(ours.namespace, ours.deployment): ours for ours in scaled}
    by_autoscaler = {(ours.namespace, ours.autoscaler): ours for ours in scaled}
    reported = {
        autoscaler["metadata"]["uid"]
        for scaler, objects in found.items()
        for autoscaler in objects
        if scaler.kind != _HPA and "uid" in autoscaler["metadata"]
    }
    for scaler, objects in found.items():
        for found_object in objects:
            metadata, kind, target = found_object["metadata"], *_target(found_object)
            namespace, name = metadata["namespace"], metadata["name"]
            maker = stack_of(metadata) if scaler.kind == _HPA else None
            if maker == stack:
                former = by_deployment.get((namespace, target)) if kind == "Deployment" else None
                if former and former.retained and former.autoscaler != name:
                    yield (
                        f"HPA {namespace}/{name} of this stack scales {kind} {namespace}/{target}. With adopted or "
                        f"retainOnDelete it would stay beside HPA {namespace}/{former.autoscaler}, and with two HPAs "
                        f"neither scales. Keep its name, or run `kubectl delete hpa {name} -n {namespace}` first."
                    )
                continue
            # A ScaledObject makes an HPA, and recreates it when it is deleted.
            if any(owner.get("uid") in reported for owner in metadata.get("ownerReferences") or ()):
                continue
            rival = by_deployment.get((namespace, target)) if kind == "Deployment" else None
            namesake = by_autoscaler.get((namespace, name)) if scaler.kind == _HPA else None
            # Made by hand as in the guide: `up` adopts it.
            if namesake and namesake is rival and maker is None:
                continue
            of = f" of stack {maker}" if maker else ""
            scales = f"{scaler.kind} {namespace}/{name}{of} scales {kind} {namespace}/{target}"
            delete = f"`kubectl delete {scaler.plural} {name} -n {namespace}`"
            if namesake:
                keep = (
                    f" If {maker} is an earlier name of this stack, keep it with `kubectl annotate hpa {name} "
                    f"-n {namespace} --overwrite {STACK_ANNOTATION}={stack}`."
                )
                yield (
                    f"{scales}, and the HPA of this stack for Deployment {namespace}/{namesake.deployment} has the "
                    f"same name. Delete the other HPA ({delete}), or give the service another autoscaler.name."
                    f"{keep if maker else ''}"
                )
            elif rival:
                yield (
                    f"{scales}, and so does HPA {namespace}/{rival.autoscaler} of this stack. A Deployment can have "
                    f"one autoscaler. Delete the other ({delete}){scaler.hint}, or remove the service from services."
                )


def unknown_former_names(
    scaled: Sequence[Scaled], found: Mapping[Scaler, Iterable[Object]], stack: str
) -> Iterator[str]:
    """Yield a warning on each renamed service whose former name the stack does not have.

    Args:
        scaled: the stack's Deployments.
        found: the objects of each kind in their namespaces.
        stack: the name that the stack writes on its HPAs.
    """
    autoscalers = [autoscaler for objects in found.values() for autoscaler in objects]
    own = [autoscaler for autoscaler in autoscalers if stack_of(autoscaler["metadata"]) == stack]
    have = {(autoscaler["metadata"]["namespace"], _target(autoscaler)[1]) for autoscaler in own}
    for service in scaled:
        # A stack without any HPA makes all of them.
        if service.renamed and own and (service.namespace, service.deployment) not in have:
            yield (
                f"formerly is {service.deployment!r}, and this stack has no such service in namespace "
                f"{service.namespace}. The service is created, and a service that the settings no longer have is "
                "deleted. Check the former name."
            )


def owner_of(registration: Object) -> str:
    """Return `<namespace>/<name>` of the Service behind an aggregated API."""
    service = registration["spec"].get("service")
    return f"{service['namespace']}/{service['name']}" if service else "the API server itself"


def _target(autoscaler: Object) -> tuple[str, str]:
    """Return kind and name; KEDA's default kind where there is none."""
    target = autoscaler["spec"].get("scaleTargetRef")
    if not isinstance(target, Mapping):
        target = {}
    return target.get("kind") or "Deployment", target.get("name") or ""


def stack_of(metadata: Object) -> str | None:
    """Return the stack that made an HPA; None: no stack did."""
    stack: str | None = _annotations(metadata).get(STACK_ANNOTATION)
    return stack


def _annotations(metadata: Object) -> Object:
    annotations: Object = metadata.get("annotations") or {}
    return annotations
