"""What the cluster has of a stack, as its API server says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaling.ack.versions import ADAPTER_NAME
from autoscaling.settings import Settings
from autoscaling.settings.services import SERVICE_SUFFIX, Service
from commands.adopt.proposal import AdoptionError
from live.adapter_release import newest_release
from live.cluster_client import ClusterClient
from live.helm_release import HelmRelease, HelmReleaseError

Object = Mapping[str, Any]
"""A Kubernetes object as the API server answers it."""

_KINDS = {
    "Deployment": "deployments",
    "Service": "services",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "PodDisruptionBudget": "poddisruptionbudgets",
}


@dataclass(frozen=True)
class ServiceObjects:
    """What the cluster has of one service."""

    deployment: Object | None
    service: Object | None
    autoscalers: Sequence[Object]
    """All HPAs of the Deployment."""
    other_services: Sequence[Object] = ()
    """Services of another name that select the Deployment's pods."""
    disruption_budgets: Sequence[Object] = ()
    """The budgets that select the Deployment's pods."""


@dataclass(frozen=True)
class LiveObjects:
    """What the cluster has of the stack."""

    services: Sequence[ServiceObjects]
    """In the order of the settings."""
    release: HelmRelease | None


class ObjectFinder:
    """Finds the objects of a stack in a cluster, and changes nothing in it.

    Each method raises `UnreachableError` where the cluster does not answer, and `AdoptionError` where it hides what
    has to be known.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def look(self, settings: Settings) -> LiveObjects:
        """The objects that the settings name."""
        objects = LiveObjects([self._objects(service, settings) for service in settings.services], self._release())
        if self._client.hidden:
            raise AdoptionError(
                f"the credential for the cluster may not list {self._client.hidden[0]}: use one of an administrator."
            )
        return objects

    def as_served(self, wanted: Object) -> Object:
        """A wanted object as the API server would store it, with its own defaults."""
        metadata = {**wanted["metadata"], "name": f"{wanted['metadata']['name'][:50]}-as-wanted"}
        served = self._client.would_create(_path(wanted), {**wanted, "metadata": metadata})
        if served is None:
            raise AdoptionError(f"the credential for the cluster may not create a {wanted['kind']}.")
        return served

    def _objects(self, service: Service, settings: Settings) -> ServiceObjects:
        name, namespace = service.object_name, service.namespace
        version = f"autoscaling/{settings.cluster.autoscaling_api}"
        autoscalers = self._list(version, "HorizontalPodAutoscaler", namespace)
        services = self._list("v1", "Service", namespace)
        budgets = self._list("policy/v1", "PodDisruptionBudget", namespace)
        deployment = _named(self._list("apps/v1", "Deployment", namespace), name)
        own = _named(services, f"{name}{SERVICE_SUFFIX}")
        return ServiceObjects(
            deployment,
            own,
            [hpa for hpa in autoscalers if _scales(hpa, name)],
            [other for other in services if other is not own and _has_pods(other, deployment)],
            [budget for budget in budgets if _has_pods(budget, deployment)],
        )

    def _release(self) -> HelmRelease | None:
        try:
            found = newest_release(self._client)
        except HelmReleaseError as error:
            raise AdoptionError(f"the release {ADAPTER_NAME} can't be read: {error}.") from None
        return None if found and found.status == "uninstalled" else found

    def _list(self, version: str, kind: str, namespace: str) -> list[Object]:
        kinds = {"apiVersion": version, "kind": kind}
        # A list names the kind of its items once.
        items = self._client.listed(_path({**kinds, "metadata": {"namespace": namespace}}))
        return [{**kinds, **item} for item in items]


def _path(wanted: Object) -> str:
    version = wanted["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{group}/namespaces/{wanted['metadata']['namespace']}/{_KINDS[wanted['kind']]}"


def _named(objects: Sequence[Object], name: str) -> Object | None:
    return next((item for item in objects if item["metadata"]["name"] == name), None)


def _has_pods(owner: Object, deployment: Object | None) -> bool:
    """Whether a Service or a PodDisruptionBudget selects the pods of a Deployment."""
    if deployment is None:
        return False
    selector = owner["spec"].get("selector")
    if owner["kind"] == "Service":
        # A Service without a selector has no pods; an empty LabelSelector selects all.
        selector = {"matchLabels": selector} if selector else None
    return selects(selector, deployment["spec"]["template"]["metadata"]["labels"])


def _scales(autoscaler: Object, deployment: str) -> bool:
    target = autoscaler["spec"]["scaleTargetRef"]
    return bool(target["kind"] == "Deployment" and target["name"] == deployment)


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects pods with these labels: an empty one selects all, and None selects none.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/
    """
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_holds(expression, labels) for expression in selector.get("matchExpressions") or [])


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key = expression["key"]
    among = labels.get(key) in (expression.get("values") or [])
    results = {"In": among, "NotIn": not among, "Exists": key in labels, "DoesNotExist": key not in labels}
    return results[expression["operator"]]
