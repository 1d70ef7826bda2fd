"""What in a cluster belongs to others and can't be there beside the stack: metrics adapters and autoscalers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaling.versions import ADAPTER_NAME, ADAPTER_NAMESPACE, ADAPTER_SERVICE

METRICS_GROUPS = ("custom.metrics.k8s.io", "external.metrics.k8s.io")
"""API groups that the vendor's chart registers; an HPA reads the first, in whichever version the cluster prefers."""

STACK_ANNOTATION = "ackgpu/stack"
"""On each HPA the stack that made it: one that was renamed in the settings is still known as its own."""

_HPA = "HorizontalPodAutoscaler"
_HELM_RELEASE, _HELM_NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"

Object = Mapping[str, Any]
"""A Kubernetes object as the API server answers it."""


@dataclass(frozen=True)
class Scaler:
    """A kind of object that sets the replicas of a Deployment."""

    kind: str
    api: str
    """`<group>/<version>`."""
    plural: str
    hint: str = ""
    """What its users can do instead."""


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
"""Kubernetes' own, in the version that each cluster serves; KEDA's and ACK's, which a cluster may not have."""


@dataclass(frozen=True)
class Scaled:
    """A Deployment of the stack and the HPA that the stack gives it."""

    namespace: str
    deployment: str
    autoscaler: str


def other_adapters(registrations: Iterable[Object]) -> Iterator[str]:
    """A sentence on each other owner of a metrics API.

    Args:
        registrations: the cluster's APIServices.
    """
    by_owner: dict[str, list[Object]] = defaultdict(list)
    for registration in registrations:
        owner = _owner(registration)
        if registration["spec"].get("group") in METRICS_GROUPS and owner != ADAPTER_SERVICE:
            by_owner[owner].append(registration)
    for owner, owned in by_owner.items():
        names = [registration["metadata"]["name"] for registration in owned]
        annotations = owned[0]["metadata"].get("annotations") or {}
        release, namespace = annotations.get(_HELM_RELEASE), annotations.get(_HELM_NAMESPACE)
        installed = f" (Helm release {release})" if release else ""
        uninstall = f": `helm uninstall {release} -n {namespace}`" if release and namespace else ""
        yield (
            f"{' and '.join(names)} {'belong' if len(names) > 1 else 'belongs'} to {owner}{installed}, and the adapter "
            f"of this stack, {ADAPTER_SERVICE}, serves the same: a cluster has one adapter for each. Take the other "
            f"one away{uninstall}; what it left behind goes with `kubectl delete apiservice {' '.join(names)}`."
        )


def adapter_of_unknown_origin(
    registrations: Iterable[Object], found: Mapping[Scaler, Iterable[Object]], stack: str
) -> Iterator[str]:
    """A sentence where an adapter is there that the stack may not have installed.

    Who installed a release can't be told from the cluster; the stack's HPAs, which come after it, carry its name.

    Args:
        registrations: the cluster's APIServices.
        found: what the namespaces of the stack have of each kind.
        stack: the name that the stack writes on its HPAs.
    """
    ours = (
        _stack_of(one["metadata"]) == stack
        for scaler, objects in found.items()
        if scaler.kind == _HPA
        for one in objects
    )
    registered = [one["metadata"]["name"] for one in registrations if _owner(one) == ADAPTER_SERVICE]
    if registered and not any(ours):
        yield (
            f"{' and '.join(registered)} is served by {ADAPTER_SERVICE} already, and this stack has no HPA yet: where "
            f"its own earlier `up` did not install that adapter, `up` will stop at the name of the release "
            f"{ADAPTER_NAME}, which is taken. `helm uninstall {ADAPTER_NAME} -n {ADAPTER_NAMESPACE}` makes room, and "
            "HPAs that read it stand still until `up` has ended."
        )


def other_autoscalers(scaled: Sequence[Scaled], found: Mapping[Scaler, Iterable[Object]], stack: str) -> Iterator[str]:
    """A sentence on each other autoscaler of a Deployment of the stack.

    Args:
        scaled: the stack's Deployments.
        found: what their namespaces have of each kind.
        stack: the name that the stack writes on its HPAs.
    """
    ours = {(one.namespace, one.deployment): one.autoscaler for one in scaled}
    told = {one["metadata"].get("uid") for scaler, objects in found.items() if scaler.kind != _HPA for one in objects}
    for scaler, objects in found.items():
        for found_object in objects:
            metadata, target = found_object["metadata"], found_object["spec"].get("scaleTargetRef") or {}
            namespace, name = metadata["namespace"], metadata["name"]
            # KEDA's default.
            if target.get("kind", "Deployment") != "Deployment":
                continue
            # A ScaledObject makes an HPA, and makes it anew when it is deleted.
            if any(maker["uid"] in told for maker in metadata.get("ownerReferences") or ()):
                continue
            autoscaler = ours.get((namespace, target.get("name", "")))
            if autoscaler is None or _is_ours(scaler, metadata, autoscaler, stack):
                continue
            yield (
                f"{scaler.kind} {namespace}/{name} scales Deployment {namespace}/{target['name']}, and so does HPA "
                f"{namespace}/{autoscaler} of this stack: a Deployment takes one autoscaler. Delete the other "
                f"(`kubectl delete {scaler.plural} {name} -n {namespace}`){scaler.hint}, or take the service out of "
                "services."
            )


def _owner(registration: Object) -> str:
    service = registration["spec"].get("service")
    return f"{service['namespace']}/{service['name']}" if service else "the API server itself"


def _is_ours(scaler: Scaler, metadata: Object, autoscaler: str, stack: str) -> bool:
    return scaler.kind == _HPA and (metadata["name"] == autoscaler or _stack_of(metadata) == stack)


def _stack_of(metadata: Object) -> str | None:
    stack: str | None = (metadata.get("annotations") or {}).get(STACK_ANNOTATION)
    return stack
