"""A local copy of the cluster's objects, kept up to date by watches."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import urllib3
from kubernetes import client, watch

from live.cluster_client import Object
from live.verify.cluster_reader import condition


class Informer:
    """A local copy of all objects of a kind, updated by a watch in a daemon thread.

    After the watch breaks, the thread lists all objects again and so misses no deletion.
    """

    def __init__(self, list_all: Callable[..., Any]) -> None:
        """Start with a list method of the Kubernetes client, such as `list_pod_for_all_namespaces`."""
        self._list_all = list_all
        self._lock = threading.Lock()
        self._objects: dict[str, Object] = {}
        self._list()
        threading.Thread(target=self._run, name=list_all.__name__, daemon=True).start()

    def objects(self) -> list[Object]:
        """Return a snapshot, sorted by namespace and name."""
        with self._lock:
            return [self._objects[key] for key in sorted(self._objects)]

    def _run(self) -> None:
        while True:
            # The API server ends watches from time to time, and stops at the end of the rehearsal.
            with contextlib.suppress(client.ApiException, urllib3.exceptions.HTTPError):
                self._watch(self._list())
            time.sleep(0.2)

    def _list(self) -> str:
        listed: Object = json.loads(self._list_all(_preload_content=False).data)
        with self._lock:
            self._objects = {_key(item): item for item in listed["items"]}
        version: str = listed["metadata"]["resourceVersion"]
        return version

    def _watch(self, version: str) -> None:
        for event in watch.Watch(return_type="object").stream(
            self._list_all, resource_version=version, timeout_seconds=300
        ):
            item = event["raw_object"]
            if event["type"] == "ERROR":
                return
            with self._lock:
                if event["type"] == "DELETED":
                    self._objects.pop(_key(item), None)
                else:
                    self._objects[_key(item)] = item


def _key(item: Object) -> str:
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


class ClusterCopy:
    """A local copy of the cluster, and API clients for changes."""

    def __init__(self, api_client: client.ApiClient) -> None:
        self.core = client.CoreV1Api(api_client)
        self.apps = client.AppsV1Api(api_client)
        self._pods = Informer(self.core.list_pod_for_all_namespaces)
        self._services = Informer(self.core.list_service_for_all_namespaces)
        self._nodes = Informer(self.core.list_node)
        self._config_maps = Informer(self.core.list_config_map_for_all_namespaces)

    @property
    def pods(self) -> list[Object]:
        return self._pods.objects()

    @property
    def services(self) -> list[Object]:
        return self._services.objects()

    @property
    def nodes(self) -> list[Object]:
        return self._nodes.objects()

    @property
    def config_maps(self) -> list[Object]:
        return self._config_maps.objects()


def is_serving(pod: Object) -> bool:
    """Return whether the pod can receive requests from a Service: it is Ready and not terminating."""
    return condition(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"]


def selects(service: Object, pod: Object) -> bool:
    """Return whether the Service selects the pod."""
    selector: dict[str, str] = service["spec"].get("selector") or {}
    labels: dict[str, str] = pod["metadata"].get("labels", {})
    same_namespace: bool = service["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same_namespace and bool(selector) and selector.items() <= labels.items()
