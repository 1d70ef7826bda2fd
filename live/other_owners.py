"""What in a cluster belongs to others and can't be there beside the stack: metrics adapters and autoscalers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE, ADAPTER_SERVICE
from live.cluster_client import Object

METRICS_GROUPS = ("custom.metrics.k8s.io", "external.metrics.k8s.io")
"""API groups that the vendor's chart registers; an HPA reads the first, in whichever version the cluster prefers."""

STACK_ANNOTATION = "ackgpu/stack"
"""On each HPA the stack that made it: one that was renamed in the settings is still known as its own."""

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
    renamed: bool = False
    """Whether the Deployment has the service's former name."""
    retained: bool = False
    """Whether what the stack made for it stays when it is deleted."""


def other_adapters(registrations: Iterable[Object]) -> Iterator[str]:
    """A sentence on each other owner of a metrics API.

    Args:
        registrations: the cluster's APIServices.
    """
    by_owner: dict[tuple[str, str | None, str | None], list[str]] = defaultdict(list)
    for registration in registrations:
        owner, annotations = owner_of(registration), _annotations(registration["metadata"])
        release = annotations.get(_HELM_RELEASE)
        # Not each way of an installation leaves Helm's annotation.
        ours = owner == ADAPTER_SERVICE and release in (None, ADAPTER_NAME)
        if registration["spec"].get("group") in METRICS_GROUPS and not ours:
            by_owner[owner, release, annotations.get(_HELM_NAMESPACE)].append(registration["metadata"]["name"])
    for (owner, release, namespace), names in by_owner.items():
        adapter = f"Helm release {ADAPTER_NAME}" if owner == ADAPTER_SERVICE else ADAPTER_SERVICE
        installed = f" (Helm release {release})" if release else ""
        uninstall = f": `helm uninstall {release} -n {namespace}`" if release and namespace else ""
        yield (
            f"{' and '.join(names)} {'belong' if len(names) > 1 else 'belongs'} to {owner}{installed}, and the adapter "
            f"of this stack, {adapter}, serves the same: a cluster has one adapter for each. Take the other "
            f"one away{uninstall}; what it left behind goes with `kubectl delete apiservice {' '.join(names)}`."
        )


def adapter_of_unknown_origin(
    registrations: Iterable[Object], found: Mapping[Scaler, Iterable[Object]], stack: str
) -> Iterator[str]:
    """A sentence where an adapter is there that the stack may not have installed.

    Not each release carries the name of the stack that installed it; the stack's HPAs, which come after it, do.

    Args:
        registrations: the cluster's APIServices.
        found: what the namespaces of the stack have of each kind.
        stack: the name that the stack writes on its HPAs.
    """
    ours = (
        stack_of(one["metadata"]) == stack
        for scaler, objects in found.items()
        if scaler.kind == _HPA
        for one in objects
    )
    registered = [one["metadata"]["name"] for one in registrations if owner_of(one) == ADAPTER_SERVICE]
    if registered and not any(ours):
        yield (
            f"{' and '.join(registered)} {'are' if len(registered) > 1 else 'is'} served by {ADAPTER_SERVICE} "
            "already, and this stack has no HPA yet: where "
            f"its own earlier `up` did not install that adapter, `up` will stop at the name of the release "
            f"{ADAPTER_NAME}, which is taken. `make adopt` takes it over as it is; `helm uninstall {ADAPTER_NAME} -n "
            f"{ADAPTER_NAMESPACE}` makes room for another, and HPAs that read it stand still until `up` has ended."
        )


def other_autoscalers(scaled: Sequence[Scaled], found: Mapping[Scaler, Iterable[Object]], stack: str) -> Iterator[str]:
    """A sentence on each other autoscaler of a Deployment of the stack.

    Args:
        scaled: the stack's Deployments.
        found: what their namespaces have of each kind.
        stack: the name that the stack writes on its HPAs.
    """
    by_deployment = {(one.namespace, one.deployment): one for one in scaled}
    by_autoscaler = {(one.namespace, one.autoscaler): one for one in scaled}
    told = {
        one["metadata"]["uid"]
        for scaler, objects in found.items()
        for one in objects
        if scaler.kind != _HPA and "uid" in one["metadata"]
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
                        f"HPA {namespace}/{name} of this stack scales {kind} {namespace}/{target}, and with "
                        f"retainOnDelete it would stay beside HPA {namespace}/{former.autoscaler}, so that neither "
                        "scales: set retainOnDelete to false and run `pulumi up`, then rename the HPA."
                    )
                continue
            # A ScaledObject makes an HPA, and makes it anew when it is deleted.
            if any(owner.get("uid") in told for owner in metadata.get("ownerReferences") or ()):
                continue
            rival = by_deployment.get((namespace, target)) if kind == "Deployment" else None
            namesake = by_autoscaler.get((namespace, name)) if scaler.kind == _HPA else None
            # Made by hand as in the guide: `up` takes it over.
            if namesake and namesake is rival and maker is None:
                continue
            of = f" of stack {maker}" if maker else ""
            scales = f"{scaler.kind} {namespace}/{name}{of} scales {kind} {namespace}/{target}"
            delete = f"`kubectl delete {scaler.plural} {name} -n {namespace}`"
            if namesake:
                keep = (
                    f"; where {maker} is an earlier name of this stack, keep it with `kubectl annotate hpa {name} "
                    f"-n {namespace} --overwrite {STACK_ANNOTATION}={stack}`"
                )
                yield (
                    f"{scales}, and the HPA of this stack for Deployment {namespace}/{namesake.deployment} has the "
                    f"same name. Delete the other ({delete}), or give the service another autoscaler.name"
                    f"{keep if maker else ''}."
                )
            elif rival:
                yield (
                    f"{scales}, and so does HPA {namespace}/{rival.autoscaler} of this stack: a Deployment takes one "
                    f"autoscaler. Delete the other ({delete}){scaler.hint}, or take the service out of services."
                )


def unknown_former_names(
    scaled: Sequence[Scaled], found: Mapping[Scaler, Iterable[Object]], stack: str
) -> Iterator[str]:
    """A sentence on each renamed service of which the stack has nothing under its former name.

    Args:
        scaled: the stack's Deployments.
        found: what their namespaces have of each kind.
        stack: the name that the stack writes on its HPAs.
    """
    own = [one for objects in found.values() for one in objects if stack_of(one["metadata"]) == stack]
    have = {(one["metadata"]["namespace"], _target(one)[1]) for one in own}
    for one in scaled:
        # Where it has none at all, they are all to be made.
        if one.renamed and own and (one.namespace, one.deployment) not in have:
            yield (
                f"formerly is {one.deployment!r}, and this stack has no such service in namespace {one.namespace}: it "
                "is made anew, and one that the settings no longer name is deleted. Check the former name."
            )


def owner_of(registration: Object) -> str:
    """Return `<namespace>/<name>` of the Service behind an aggregated API."""
    service = registration["spec"].get("service")
    return f"{service['namespace']}/{service['name']}" if service else "the API server itself"


def _target(autoscaler: Object) -> tuple[str, str]:
    """Kind and name; the kind is KEDA's default where there is none."""
    target = autoscaler["spec"].get("scaleTargetRef")
    if not isinstance(target, Mapping):
        target = {}
    return target.get("kind") or "Deployment", target.get("name") or ""


def stack_of(metadata: Object) -> str | None:
    """The stack that made an HPA, where one did."""
    stack: str | None = _annotations(metadata).get(STACK_ANNOTATION)
    return stack


def _annotations(metadata: Object) -> Object:
    annotations: Object = metadata.get("annotations") or {}
    return annotations
