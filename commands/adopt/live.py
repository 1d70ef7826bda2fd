"""What the cluster has, as its API server says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoscaling.ack.versions import ADAPTER_NAME
from autoscaling.settings import Settings
from autoscaling.settings.services import SERVICE_SUFFIX, Service
from commands.adopt.part import AdoptionError
from commands.adopt.selectors import selects
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
    """Those of another name that have the Deployment's pods."""
    disruption_budgets: Sequence[Object] = ()
    """Those that have the Deployment's pods."""


@dataclass(frozen=True)
class Live:
    """What the cluster has of the stack."""

    services: Sequence[ServiceObjects]
    """In the order of the settings."""
    release: HelmRelease | None


class LiveCluster:
    """A cluster that is asked for nothing but to answer.

    Each method raises `UnreachableError` where it does not, and `AdoptionError` where it hides what has to be known.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def look(self, settings: Settings) -> Live:
        """What there is under the names of the settings."""
        live = Live([self._objects(one, settings) for one in settings.services], self._release())
        if self._client.hidden:
            raise AdoptionError(
                f"the credential for the cluster may not list {self._client.hidden[0]}: use one of an administrator."
            )
        return live

    def as_served(self, wanted: Object) -> Object:
        """An object that is wanted, as the API server would store it, with its own defaults."""
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
            [one for one in autoscalers if _scales(one, name)],
            [one for one in services if one is not own and _has_pods(one, deployment)],
            [one for one in budgets if _has_pods(one, deployment)],
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
        return [{**kinds, **one} for one in self._client.listed(_path({**kinds, "metadata": {"namespace": namespace}}))]


def _path(wanted: Object) -> str:
    version = wanted["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{group}/namespaces/{wanted['metadata']['namespace']}/{_KINDS[wanted['kind']]}"


def _named(objects: Sequence[Object], name: str) -> Object | None:
    return next((one for one in objects if one["metadata"]["name"] == name), None)


def _has_pods(one: Object, deployment: Object | None) -> bool:
    """Whether a Service or a PodDisruptionBudget selects the pods of a Deployment."""
    if deployment is None:
        return False
    selector = one["spec"].get("selector")
    if one["kind"] == "Service":
        # One without a selector has no pods, where an empty one of the other kind has all.
        selector = {"matchLabels": selector} if selector else None
    return selects(selector, deployment["spec"]["template"]["metadata"]["labels"])


def _scales(autoscaler: Object, deployment: str) -> bool:
    target = autoscaler["spec"]["scaleTargetRef"]
    return bool(target["kind"] == "Deployment" and target["name"] == deployment)
