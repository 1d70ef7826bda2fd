"""A stack's live objects in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaling.settings import Settings
from autoscaling.settings.services import SERVICE_SUFFIX, Service
from commands.adopt.proposal import AdoptionError
from live.adapter_release import newest_release
from live.cluster_client import ClusterClient, Object
from live.helm_release import HelmRelease


@dataclass(frozen=True)
class ServiceObjects:
    """The live objects of a service."""

    deployment: Object | None
    service: Object | None
    autoscalers: Sequence[Object]
    """All HPAs of the Deployment."""
    other_services: Sequence[Object] = ()
    """Other Services that select the Deployment's pods."""
    disruption_budgets: Sequence[Object] = ()
    """The budgets that select the Deployment's pods."""


@dataclass(frozen=True)
class LiveObjects:
    """The objects in the cluster that the stack's settings name."""

    services: Sequence[ServiceObjects]
    """In the order of the settings."""
    release: HelmRelease | None


def read_live_objects(client: ClusterClient, settings: Settings) -> LiveObjects:
    """Read the objects that the settings name.

    Raises:
        AdoptionError: the credential may not list all objects.
        HelmReleaseError: the adapter's release can't be read.
        UnreachableError: the cluster does not answer.
    """
    services = [
        _objects(client, service, f"autoscaling/{settings.cluster.autoscaling_api}") for service in settings.services
    ]
    release = newest_release(client)
    if client.forbidden:
        raise AdoptionError(
            f"The cluster credential may not list {client.forbidden[0]}. Use an account with cluster administrator "
            "rights."
        )
    return LiveObjects(services, None if release and release.status == "uninstalled" else release)


def with_server_defaults(client: ClusterClient, wanted: Object) -> Object:
    """Return an object as the API server would store it, with defaults.

    Raises:
        AdoptionError: the credential may not create the object.
        UnreachableError: the cluster does not answer.
    """
    metadata = {**wanted["metadata"], "name": f"{wanted['metadata']['name'][:50]}-as-wanted"}
    served = client.dry_run_create(_path(wanted), {**wanted, "metadata": metadata})
    if served is None:
        raise AdoptionError(
            f"The cluster credential may not create a {wanted['kind']}. Use an account with cluster administrator "
            "rights."
        )
    return served


def display_name(live: Object) -> str:
    """Return kind, namespace and name of an object."""
    kind = "HPA" if live["kind"] == "HorizontalPodAutoscaler" else live["kind"]
    return f"{kind} {live['metadata']['namespace']}/{live['metadata']['name']}"


def _objects(client: ClusterClient, service: Service, autoscaling: str) -> ServiceObjects:
    def listed(version: str, kind: str) -> list[Object]:
        kinds = {"apiVersion": version, "kind": kind}
        # The API server omits apiVersion and kind of the items in a list.
        items = client.list_objects(_path({**kinds, "metadata": {"namespace": service.namespace}}))
        return [{**kinds, **item} for item in items]

    services, name = listed("v1", "Service"), service.object_name
    deployment = _find(listed("apps/v1", "Deployment"), name)
    own = _find(services, f"{name}{SERVICE_SUFFIX}")
    return ServiceObjects(
        deployment,
        own,
        [hpa for hpa in listed(autoscaling, "HorizontalPodAutoscaler") if _scales(hpa, name)],
        [other for other in services if other is not own and _has_pods(other, deployment)],
        [budget for budget in listed("policy/v1", "PodDisruptionBudget") if _has_pods(budget, deployment)],
    )


def _path(wanted: Object) -> str:
    version = wanted["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{group}/namespaces/{wanted['metadata']['namespace']}/{wanted['kind'].lower()}s"


def _find(objects: Sequence[Object], name: str) -> Object | None:
    return next((item for item in objects if item["metadata"]["name"] == name), None)


def _has_pods(owner: Object, deployment: Object | None) -> bool:
    """Return True if a Service or PodDisruptionBudget selects the pods of a Deployment."""
    if deployment is None:
        return False
    selector = owner["spec"].get("selector")
    if owner["kind"] == "Service":
        # A Service without a selector selects no pods; an empty LabelSelector selects all pods.
        selector = {"matchLabels": selector} if selector else None
    return _selects(selector, deployment["spec"]["template"]["metadata"]["labels"])


def _scales(autoscaler: Object, deployment: str) -> bool:
    target = autoscaler["spec"]["scaleTargetRef"]
    return bool(target["kind"] == "Deployment" and target["name"] == deployment)


def _selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return True if a LabelSelector selects pods with these labels. `{}` selects all pods, None selects none.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/
    """
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_matches(expression, labels) for expression in selector.get("matchExpressions") or [])


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key = expression["key"]
    among = labels.get(key) in (expression.get("values") or [])
    results = {"In": among, "NotIn": not among, "Exists": key in labels, "DoesNotExist": key not in labels}
    return results[expression["operator"]]
