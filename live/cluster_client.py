"""A client for a cluster's API server. It imports only urllib3, which loads fast."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import urllib3

from live.kubeconfig import Access, UnreachableError, UnsupportedError, access_of

__all__ = ["ClusterClient", "Object", "Response", "UnreachableError", "UnsupportedError", "connected", "object_in"]

Response = urllib3.BaseHTTPResponse

Object = Mapping[str, Any]
"""A Kubernetes object as the API server returns it."""

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip", "Content-Type": "application/json"}

_NOT_AN_OBJECT = "sends a response that is not a list of Kubernetes objects: check the server in the kubeconfig"


class ClusterClient:
    """A thread-safe client for a cluster.

    Each method raises `UnreachableError` if the cluster does not respond or refuses the credential.
    """

    def __init__(self, access: Access) -> None:
        self.server = access.server
        self._access = access
        self._headers = access.headers
        self._forbidden: set[str] = set()

    @property
    def forbidden(self) -> list[str]:
        """Paths that the credential may not list."""
        return sorted(self._forbidden)

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._access.pool.clear()

    def list_objects(self, path: str) -> list[Object]:
        """List the objects under a path. The list is empty if the kind is not served, or is forbidden."""
        found = self.read(path)
        items: list[Object] = (found or {}).get("items") or []
        return items

    def read(self, path: str) -> Object | None:
        """Read the object under a path; None if it does not exist or is forbidden."""
        return self._object("GET", path)

    def delete(self, path: str) -> None:
        """Delete an object if it exists. Kubernetes deletes its dependents in the background."""
        self._object("DELETE", path)

    def dry_run_create(self, path: str, wanted: Object) -> Object | None:
        """Return an object as the API server would store it, with its defaults. Nothing is stored."""
        return self._object("POST", f"{path}?dryRun=All", wanted)

    def request(self, method: str, path: str, content: Object | None = None) -> Response:
        """Send a request and return the response, whatever its status; a 401 raises `UnreachableError`."""
        response = self._send(method, path, content)
        if response.status == 401 and self._access.renew:
            self._headers = self._access.renew()
            response = self._send(method, path, content)
        if response.status == 401:
            raise UnreachableError("refuses the credential (401): get a new kubeconfig")
        return response

    def _object(self, method: str, path: str, content: Object | None = None) -> Object | None:
        response = self.request(method, path, content)
        if response.status == 403:
            self._forbidden.add(path)
        if response.status in (403, 404):
            return None
        if response.status >= 300:
            raise UnreachableError(f"responds with status {response.status}")
        try:
            return object_in(response)
        except ValueError:
            raise UnreachableError(_NOT_AN_OBJECT) from None

    def _send(self, method: str, path: str, content: Object | None) -> Response:
        body = None if content is None else json.dumps(content)
        headers = {**_HEADERS, **self._headers}
        try:
            return self._access.pool.request(method, self.server + path, body=body, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(f"at {self.server} can't be reached ({_reason(error)})") from None


def connected(kubeconfig: str, server: str | None = None) -> ClusterClient:
    """Return a client for the cluster of a kubeconfig, to be used in a `with` block.

    Args:
        kubeconfig: content, not path; a secret.
        server: overrides the server in the kubeconfig.

    Raises:
        UnreachableError: the kubeconfig can't be used.
        UnsupportedError: this client does not support the kubeconfig or the proxy.
    """
    return ClusterClient(access_of(kubeconfig, server))


def object_in(response: Response) -> Object:
    """Return the JSON object in the body of a response.

    Raises:
        ValueError: the body is not a JSON object.
    """
    content = response.json()
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def _reason(error: Exception) -> str:
    if isinstance(error, urllib3.exceptions.ProxyError):
        return f"proxy: {_reason(error.original_error)}"
    # Other errors may quote a header that has the credential.
    known = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.SSLError, OSError)
    return str(error).rpartition("): ")[2] if isinstance(error, known) else type(error).__name__
