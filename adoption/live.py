"""What the cluster has: asked of its API server, which is asked for nothing but to answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import yaml
from kubernetes import client, config

from adoption.part import AdoptionError
from autoscaling.settings import Settings
from autoscaling.settings.model import SERVICE_SUFFIX, Service
from autoscaling.versions import ADAPTER_NAME, ADAPTER_NAMESPACE
from verify.cluster import BrokenLinkError, Cluster, ClusterError
from verify.helm_release import HelmRelease, HelmReleaseError, latest, secret_selector

Object = Mapping[str, Any]
"""A Kubernetes object as the API server answers it."""

_KINDS = {
    "Deployment": "deployments",
    "Service": "services",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
}


@dataclass(frozen=True)
class ServiceObjects:
    """What the cluster has of one service."""

    deployment: Object | None
    service: Object | None
    autoscalers: Sequence[Object]
    """All HPAs of the Deployment."""


@dataclass(frozen=True)
class Live:
    """What the cluster has of the stack."""

    services: Sequence[ServiceObjects]
    """In the order of the settings."""
    release: HelmRelease | None


class LiveCluster:
    """A cluster by its kubeconfig.

    Each method raises `AdoptionError` where the cluster can't be reached, or does not answer.
    """

    def __init__(self, kubeconfig: str) -> None:
        try:
            self._api = config.new_client_from_config_dict(yaml.safe_load(kubeconfig))
        # Of whatever kind: its text may have a part of the kubeconfig.
        except Exception:
            raise AdoptionError("the cluster's kubeconfig can't be read: get a new one in the ACK console.") from None
        self._cluster = Cluster(self._api)

    def look(self, settings: Settings) -> Live:
        """What there is under the names of the settings."""
        api = f"/apis/autoscaling/{settings.cluster.autoscaling_api}"
        return Live([self._objects(one, api) for one in settings.services], self._release())

    def as_served(self, wanted: Object) -> Object:
        """An object that is wanted, with the API server's own defaults: it is asked what it would make of it."""
        metadata = {**wanted["metadata"], "name": f"{wanted['metadata']['name'][:50]}-as-wanted"}
        path = f"{_path(wanted)}?dryRun=All"
        try:
            answer = self._api.call_api(
                path,
                "POST",
                header_params={"Content-Type": "application/json", "Accept": "application/json"},
                body={**wanted, "metadata": metadata},
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
            )
            served: Object = json.loads(answer.data)
        except (client.ApiException, ValueError):
            raise AdoptionError(
                f"the API server does not say what {wanted['kind']} it would make: try again."
            ) from None
        return served

    def _objects(self, service: Service, autoscaling: str) -> ServiceObjects:
        name, namespace = service.object_name, service.namespace
        deployments = self._named(f"/apis/apps/v1/namespaces/{namespace}/deployments", name)
        services = self._named(f"/api/v1/namespaces/{namespace}/services", f"{name}{SERVICE_SUFFIX}")
        autoscalers = self._list(f"{autoscaling}/namespaces/{namespace}/horizontalpodautoscalers")
        return ServiceObjects(
            next(iter(deployments), None),
            next(iter(services), None),
            [one for one in autoscalers if _scales(one, name)],
        )

    def _release(self) -> HelmRelease | None:
        selector = quote(secret_selector(ADAPTER_NAME))
        secrets = self._list(f"/api/v1/namespaces/{ADAPTER_NAMESPACE}/secrets?labelSelector={selector}")
        try:
            found = latest(secrets)
        except HelmReleaseError as error:
            raise AdoptionError(f"the release {ADAPTER_NAME} can't be read: {error}.") from None
        return None if found and found.status == "uninstalled" else found

    def _named(self, path: str, name: str) -> list[Object]:
        return self._list(f"{path}?fieldSelector={quote(f'metadata.name={name}')}")

    def _list(self, path: str) -> list[Object]:
        try:
            answer = self._cluster.get(path)
        except (ClusterError, BrokenLinkError) as error:
            raise AdoptionError(f"{path.partition('?')[0]}: {error}".rstrip(".") + ".") from None
        kind = {"apiVersion": re.sub(r"^/apis?/|/namespaces.*$", "", path), "kind": answer["kind"].removesuffix("List")}
        return [{**kind, **one} for one in answer["items"]]


def _path(wanted: Object) -> str:
    version = wanted["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{group}/namespaces/{wanted['metadata']['namespace']}/{_KINDS[wanted['kind']]}"


def _scales(autoscaler: Object, deployment: str) -> bool:
    target = autoscaler["spec"]["scaleTargetRef"]
    return target["kind"] == "Deployment" and target["name"] == deployment
