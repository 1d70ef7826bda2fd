"""Find metrics adapters and autoscalers of other owners that conflict with the stack."""

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
"""The stack that created an HPA. A stack finds its HPA by it even after a rename in the settings."""

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
    """Alternative to deleting it."""


SCALERS = (
    Scaler(_HPA, "autoscaling/v1", "horizontalpodautoscalers"),
    Scaler("ScaledObject", "keda.sh/v1alpha1", "scaledobjects"),
    Scaler(
        "CronHorizontalPodAutoscaler",
        "autoscaling.alibabacloud.com/v1beta1",
        "cronhorizontalpodautoscalers",
        hint=", or point it at the HPA instead",
    ),
)
"""Kubernetes' HPA, in a version that every cluster serves; KEDA's and ACK's kinds, which a cluster may lack."""


@dataclass(frozen=True)
class _Autoscaler:
    """The relevant parts of an autoscaler in the cluster."""

    scaler: Scaler
    namespace: str
    name: str
    target: tuple[str, str]
    """Kind and name."""
    stack: str | None
    """The stack that created an HPA, if any."""
    uid: str
    owners: set[str | None]
    """UIDs of its owners."""


FoundScalers = Mapping[Scaler, Iterable[Object]]


def other_adapters(api_services: Iterable[Object]) -> Iterator[str]:
    """Yield an error for each other owner of a metrics API.

    Args:
        api_services: the cluster's APIServices.
    """
    by_owner: dict[tuple[str, str | None, str | None], list[str]] = defaultdict(list)
    for api_service in api_services:
        owner, annotations = owner_of(api_service), _annotations(api_service)
        release = annotations.get(_HELM_RELEASE)
        # Not every installation method sets Helm's annotation.
        ours = owner == ADAPTER_SERVICE and release in (None, ADAPTER_NAME)
        if api_service["spec"].get("group") in METRICS_GROUPS and not ours:
            by_owner[owner, release, annotations.get(_HELM_NAMESPACE)].append(api_service["metadata"]["name"])
    for (owner, release, namespace), names in by_owner.items():
        adapter = f"Helm release {ADAPTER_NAME}" if owner == ADAPTER_SERVICE else ADAPTER_SERVICE
        installed = f" (Helm release {release})" if release else ""
        uninstall = f": `helm uninstall {release} -n {namespace}`" if release and namespace else ""
        yield (
            f"{' and '.join(names)} {'belong' if len(names) > 1 else 'belongs'} to {owner}{installed}, but the adapter "
            f"of this stack, {adapter}, serves the same API. Each API can have only a single adapter. Uninstall the "
            f"other adapter{uninstall}. If an APIService remains, run `kubectl delete apiservice {' '.join(names)}`."
        )


def adapter_of_unknown_origin(api_services: Iterable[Object], found: FoundScalers, stack: str) -> Iterator[str]:
    """Yield a warning if another owner may have installed the cluster's adapter.

    Not every release carries its stack's name. HPAs do, and they are created after the adapter.

    Args:
        api_services: the cluster's APIServices.
        found: autoscalers in the stack's namespaces, by kind.
        stack: name of the stack on its HPAs.
    """
    registered = [entry["metadata"]["name"] for entry in api_services if owner_of(entry) == ADAPTER_SERVICE]
    if registered and not any(autoscaler.stack == stack for autoscaler in _autoscalers(found)):
        yield (
            f"{ADAPTER_SERVICE} already serves {' and '.join(registered)}, but this stack has no HPA yet. Unless an "
            f"earlier `pulumi up` of this stack installed that adapter, `pulumi up` will fail: the release name "
            f"{ADAPTER_NAME} is taken. `./ackgpu adopt` adopts the release as it is. `helm uninstall {ADAPTER_NAME} "
            f"-n {ADAPTER_NAMESPACE}` removes the release; HPAs that use it pause until `pulumi up` finishes."
        )


def other_autoscalers(services: Sequence[Service], found: FoundScalers, stack: str) -> Iterator[str]:
    """Yield an error for each other autoscaler of the stack's Deployments.

    Args:
        services: the stack's services.
        found: autoscalers in the services' namespaces, by kind.
        stack: name of the stack on its HPAs.
    """
    by_target = {(service.namespace, "Deployment", service.object_name): service for service in services}
    by_autoscaler = {(service.namespace, _HPA, service.autoscaler_name): service for service in services}
    autoscalers = _autoscalers(found)
    other_uids = {autoscaler.uid for autoscaler in autoscalers if autoscaler.scaler.kind != _HPA}
    for autoscaler in autoscalers:
        scaler, namespace, name, owner = autoscaler.scaler, autoscaler.namespace, autoscaler.name, autoscaler.stack
        kind, target = autoscaler.target
        rival = by_target.get((namespace, kind, target))
        if owner == stack:
            if rival and (rival.adopted or rival.retain_on_delete) and rival.autoscaler_name != name:
                yield (
                    f"HPA {namespace}/{name} of this stack scales {kind} {namespace}/{target}, but the settings now "
                    f"name the HPA {rival.autoscaler_name}. Because adopted or retainOnDelete is set, `pulumi up` "
                    f"would not delete {name}, and a Deployment with two HPAs is not scaled. Set autoscaler.name back "
                    f"to {name}, or first run `kubectl delete hpa {name} -n {namespace}`."
                )
            continue
        # A ScaledObject owns an HPA, and recreates it.
        if other_uids & autoscaler.owners:
            continue
        namesake = by_autoscaler.get((namespace, scaler.kind, name))
        # Created by hand as in the guide: `up` adopts it.
        if namesake and namesake is rival and owner is None:
            continue
        of_stack = f" of stack {owner}" if owner else ""
        scales = f"{scaler.kind} {namespace}/{name}{of_stack} scales {kind} {namespace}/{target}"
        delete = f"`kubectl delete {scaler.plural} {name} -n {namespace}`"
        if namesake:
            keep = (
                f" If {owner} is an earlier name of this stack, keep the HPA with `kubectl annotate hpa {name} "
                f"-n {namespace} --overwrite {STACK_ANNOTATION}={stack}`."
            )
            yield (
                f"{scales}, but the HPA of this stack for Deployment {namespace}/{namesake.object_name} has the "
                f"same name. Delete the existing HPA ({delete}), or give the service a different autoscaler.name."
                f"{keep if owner else ''}"
            )
        elif rival:
            yield (
                f"{scales}, and so does HPA {namespace}/{rival.autoscaler_name} of this stack. A Deployment can have "
                f"only a single autoscaler. Delete the other autoscaler ({delete}){scaler.hint}, or remove the service "
                "from services."
            )


def unknown_former_names(services: Sequence[Service], found: FoundScalers, stack: str) -> Iterator[str]:
    """Yield a warning for each renamed service whose former name is unknown to the stack.

    Args:
        services: the stack's services.
        found: autoscalers in the services' namespaces, by kind.
        stack: name of the stack on its HPAs.
    """
    own = [autoscaler for autoscaler in _autoscalers(found) if autoscaler.stack == stack]
    known = {(autoscaler.namespace, autoscaler.target[1]) for autoscaler in own}
    for service in services:
        # A stack without any HPA creates all services.
        if service.formerly and own and (service.namespace, service.formerly) not in known:
            yield (
                f"formerly of service {service.name} is {service.formerly!r}, but this stack has no such service in "
                f"namespace {service.namespace}. `pulumi up` would create {service.name} as a new service, and delete "
                "services that are not in the settings. Check the former name."
            )


def platform_users(metrics: Collection[str], hpas: Iterable[Object], stack: str) -> Iterator[str]:
    """Yield each HPA of another owner that needs a platform, and its target.

    Include every HPA of another stack, because its pods run on the platform's nodes.

    Args:
        metrics: names of the pod metrics that the platform's adapter exposes.
        hpas: HPAs of all namespaces, in any API version that has metrics.
        stack: name of the platform's own stack on its HPAs.
    """
    for hpa in hpas:
        found = _autoscaler(SCALERS[0], hpa)
        if found.stack == stack or (found.stack is None and set(metrics_read(hpa)).isdisjoint(metrics)):
            continue
        kind, target = found.target
        creator = f" of stack {found.stack}" if found.stack else ", not created by a stack"
        yield f"{kind} {found.namespace}/{target} (HPA {found.namespace}/{found.name}{creator})"


def owner_of(api_service: Object) -> str:
    """Return the Service that serves an aggregated API, as `<namespace>/<name>`."""
    service = api_service["spec"].get("service")
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
