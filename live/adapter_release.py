"""The adapter's Helm release in a cluster: read it, delete it, or drop an unfinished update."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

import yaml

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE
from autoscaling.metrics.adapter_values import STACK, value_at
from live.cluster_client import ClusterClient, Object, connected
from live.helm_release import HelmRelease, latest, secret_selector

INSTALLATION_SECONDS = 300
"""How long Helm waits for the adapter's pod."""

_SECRETS = f"/api/v1/namespaces/{ADAPTER_NAMESPACE}/secrets"


def uninstall(kubeconfig: str, stack: str) -> bool:
    """Delete this stack's release, its objects first. Return whether the release existed.

    Raises:
        UnreachableError: the cluster does not respond.
        HelmReleaseError: Helm's record can't be read.
    """
    with connected(kubeconfig) as client:
        release = _settled_release(client, stack)
        if release is None:
            return False
        # In reverse order of creation.
        for manifest in reversed([document for document in yaml.safe_load_all(release.manifest) if document]):
            path = _path(client, manifest)
            if path:
                client.delete(path)
        for secret in _secrets(client):
            client.delete(f"{_SECRETS}/{secret['metadata']['name']}")
        return True


def drop_pending_update(kubeconfig: str, stack: str) -> bool:
    """Delete the record of an unfinished update. Return whether the record existed.

    Raises:
        UnreachableError: the cluster does not respond.
        HelmReleaseError: Helm's record can't be read.
    """
    with connected(kubeconfig) as client:
        release = _settled_release(client, stack)
        if release is None or release.status not in ("pending-upgrade", "pending-rollback"):
            return False
        client.delete(f"{_SECRETS}/sh.helm.release.v1.{release.name}.v{release.revision}")
        return True


def _settled_release(client: ClusterClient, stack: str) -> HelmRelease | None:
    """Wait until no other process changes this stack's release, and return it."""
    while (release := newest_release(client)) and stack_of_release(release) == stack:
        age = (datetime.now(UTC) - release.changed).total_seconds()
        if not release.status.startswith("pending-") or age >= INSTALLATION_SECONDS:
            return release
        # A provider can outlive a killed Pulumi by minutes, and would overwrite a new release.
        time.sleep(1)
    return None


def newest_release(client: ClusterClient) -> HelmRelease | None:
    """Return the newest revision of the adapter's release in any status, or None.

    Raises:
        HelmReleaseError: Helm's record can't be read.
    """
    return latest(_secrets(client))


def stack_of_release(release: HelmRelease) -> str | None:
    """Return the name of the stack that installed the release."""
    stack: str | None = value_at(release.values, STACK)
    return stack


def all_hpas(client: ClusterClient) -> Sequence[Object]:
    """List the HPAs of all namespaces, in the newest API version that the cluster serves."""
    # Kubernetes 1.23 and later serve v2, older ones v2beta1; autoscaling/v1 lacks the metrics.
    for version in ("v2", "v2beta1"):
        path = f"/apis/autoscaling/{version}/horizontalpodautoscalers"
        hpas = client.list_objects(path)
        if hpas or path in client.forbidden:
            return hpas
    return ()


def _secrets(client: ClusterClient) -> list[Object]:
    return client.list_objects(f"{_SECRETS}?labelSelector={secret_selector(ADAPTER_NAME)}")


def _path(client: ClusterClient, manifest: Object) -> str | None:
    version = manifest["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    kinds = (client.read(group) or {}).get("resources", ())
    kind = next((served for served in kinds if served["kind"] == manifest["kind"] and "/" not in served["name"]), None)
    if kind is None:
        return None
    namespace = manifest["metadata"].get("namespace") or ADAPTER_NAMESPACE
    scope = f"namespaces/{namespace}/" if kind["namespaced"] else ""
    return f"{group}/{scope}{kind['name']}/{manifest['metadata']['name']}"
