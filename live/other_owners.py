"""Find metrics adapters and autoscalers of other owners that conflict with the stack's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE, ADAPTER_SERVICE
from autoscaling.settings.services import Service
from live.cluster_client import Object
from live.kept_rules import metrics_read

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
class _Autoscaler:
    """What counts of an autoscaler in the cluster."""

    scaler: Scaler
    namespace: str
    name: str
    target: tuple[str, str]
    """Kind and name."""
    stack: str | None
    """The stack that made an HPA; None: no stack did."""
    uid: str
    owners: set[str | None]
    """Their uids."""


FoundScalers = Mapping[Scaler, Iterable[Object]]


def other_adapters(registrations: Iterable[Object]) -> Iterator[str]:
    """Yield a sentence on each other owner of a metrics API.

    Args:
        registrations: the cluster's APIServices.
    """
    by_owner: dict[tuple[str, str | None, str | None], list[str]] = defaultdict(list)
    for registration in registrations:
        owner, annotations = owner_of(registration), _annotations(registration)
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


def adapter_of_unknown_origin(registrations: Iterable[Object], found: FoundScalers, stack: str) -> Iterator[str]:
    """Yield a warning where the cluster has an adapter that the stack may not have installed.

    Not every release carries the name of its stack. The stack's HPAs, which are made after the adapter, do.

    Args:
        registrations: the cluster's APIServices.
        found: the objects of each kind in the stack's namespaces.
        stack: the name that the stack writes on its HPAs.
    """
    registered = [entry["metadata"]["name"] for entry in registrations if owner_of(entry) == ADAPTER_SERVICE]
    if registered and not any(autoscaler.stack == stack for autoscaler in _autoscalers(found)):
        yield (
            f"{ADAPTER_SERVICE} already serves {' and '.join(registered)}, and this stack has no HPA yet. Unless an "
            f"earlier `up` of this stack installed that adapter, `up` will fail: the release name {ADAPTER_NAME} is "
            f"taken. `./ackgpu adopt` adopts the release as it is. `helm uninstall {ADAPTER_NAME} "
            f"-n {ADAPTER_NAMESPACE}` removes it; HPAs that use it pause until `up` finishes."
        )


def other_autoscalers(services: Sequence[Service], found: FoundScalers, stack: str) -> Iterator[str]:
    """Yield a sentence on each other autoscaler of a Deployment of the stack.

    Args:
        services: of the stack.
        found: the objects of each kind in their namespaces.
        stack: the name that the stack writes on its HPAs.
    """
    by_target = {(ours.namespace, "Deployment", ours.object_name): ours for ours in services}
    by_autoscaler = {(ours.namespace, _HPA, ours.autoscaler_name): ours for ours in services}
    autoscalers = _autoscalers(found)
    makers = {autoscaler.uid for autoscaler in autoscalers if autoscaler.scaler.kind != _HPA}
    for autoscaler in autoscalers:
        scaler, namespace, name, maker = autoscaler.scaler, autoscaler.namespace, autoscaler.name, autoscaler.stack
        kind, target = autoscaler.target
        rival = by_target.get((namespace, kind, target))
        if maker == stack:
            if rival and (rival.adopted or rival.retain_on_delete) and rival.autoscaler_name != name:
                yield (
                    f"HPA {namespace}/{name} of this stack scales {kind} {namespace}/{target}. With adopted or "
                    f"retainOnDelete it would stay beside HPA {namespace}/{rival.autoscaler_name}, and with two HPAs "
                    f"neither scales. Keep its name, or run `kubectl delete hpa {name} -n {namespace}` first."
                )
            continue
        # A ScaledObject makes an HPA, and recreates it when it is deleted.
        if makers & autoscaler.owners:
            continue
        namesake = by_autoscaler.get((namespace, scaler.kind, name))
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
                f"{scales}, and the HPA of this stack for Deployment {namespace}/{namesake.object_name} has the "
                f"same name. Delete the other HPA ({delete}), or give the service another autoscaler.name."
                f"{keep if maker else ''}"
            )
        elif rival:
            yield (
                f"{scales}, and so does HPA {namespace}/{rival.autoscaler_name} of this stack. A Deployment can have "
                f"one autoscaler. Delete the other ({delete}){scaler.hint}, or remove the service from services."
            )


def unknown_former_names(services: Sequence[Service], found: FoundScalers, stack: str) -> Iterator[str]:
    """Yield a warning on each renamed service whose former name the stack does not have.

    Args:
        services: of the stack.
        found: the objects of each kind in their namespaces.
        stack: the name that the stack writes on its HPAs.
    """
    own = [autoscaler for autoscaler in _autoscalers(found) if autoscaler.stack == stack]
    have = {(autoscaler.namespace, autoscaler.target[1]) for autoscaler in own}
    for service in services:
        # A stack without any HPA makes all of them.
        if service.formerly and own and (service.namespace, service.formerly) not in have:
            yield (
                f"formerly of service {service.name} is {service.formerly!r}, which this stack does not have in "
                f"namespace {service.namespace}. The service is created, and a service missing in the settings is "
                "deleted. Check the former name."
            )


def platform_users(metrics: Collection[str], hpas: Iterable[Object], stack: str) -> Iterator[str]:
    """Yield each HPA of another owner that needs a platform, with what it scales.

    An HPA of another stack counts whatever it reads, since its pods run on the platform's nodes.

    Args:
        metrics: names under which the platform's adapter exposes metrics for pods.
        hpas: of all namespaces, in any version of the API that has their metrics.
        stack: the name that the platform's own stack writes on its HPAs.
    """
    for hpa in hpas:
        found = _autoscaler(SCALERS[0], hpa)
        if found.stack == stack or (found.stack is None and set(metrics_read(hpa)).isdisjoint(metrics)):
            continue
        kind, target = found.target
        made_by = f" of stack {found.stack}" if found.stack else ", not made by a stack"
        yield f"{kind} {found.namespace}/{target} (HPA {found.namespace}/{found.name}{made_by})"


def owner_of(registration: Object) -> str:
    """Return `<namespace>/<name>` of the Service behind an aggregated API."""
    service = registration["spec"].get("service")
    return f"{service['namespace']}/{service['name']}" if service else "the API server itself"


def _autoscalers(found: FoundScalers) -> list[_Autoscaler]:
    return [_autoscaler(scaler, entry) for scaler, objects in found.items() for entry in objects]


def _autoscaler(scaler: Scaler, found: Object) -> _Autoscaler:
    metadata, target = found["metadata"], found["spec"].get("scaleTargetRef") or {}
    return _Autoscaler(
        scaler,
        metadata["namespace"],
        metadata["name"],
        # KEDA's default kind.
        (target.get("kind") or "Deployment", target.get("name") or ""),
        _annotations(found).get(STACK_ANNOTATION) if scaler.kind == _HPA else None,
        metadata.get("uid") or "",
        {owner.get("uid") for owner in metadata.get("ownerReferences") or ()},
    )


def _annotations(found: Object) -> Object:
    annotations: Object = found["metadata"].get("annotations") or {}
    return annotations
