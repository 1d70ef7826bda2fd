"""A way into the cluster that loads in a fraction of the time of Kubernetes' own client."""

from __future__ import annotations

import base64
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from requests.utils import get_environ_proxies

from live.other_owners import Object

_TIMEOUT = httpx.Timeout(30, connect=5)

_UNSUPPORTED = {
    "cluster": ("certificate-authority", "tls-server-name", "proxy-url"),
    "user": (
        *("client-certificate", "client-key", "tokenFile", "exec", "auth-provider", "username", "password"),
        *("as", "as-uid", "as-groups", "as-user-extra"),
    ),
}
"""Keys of a kubeconfig; ACK's has its certificates as data."""

_NO_LIST = "gives an answer that is not a list of Kubernetes objects"


class UnreachableError(Exception):
    """The cluster can't be asked; the message is a phrase without a secret."""


class UnsupportedError(UnreachableError):
    """The way to the cluster needs something that the Kubernetes provider knows and this look does not."""


class ClusterClient:
    """Asks a cluster. Each method raises `UnreachableError` where it does not answer, or refuses the credential."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.hidden: list[str] = []
        """Paths of what the credential may not list."""

    def listed(self, path: str) -> list[Object]:
        """The objects under a path: none where the cluster has no such kind, or hides it."""
        answer = self._asked("GET", path)
        if answer is None:
            return []
        items = answer.get("items", _NO_LIST) or []
        if not isinstance(items, list):
            raise UnreachableError(_NO_LIST)
        return [one for one in items if isinstance(one, dict)]

    def read(self, path: str) -> Object | None:
        """What is under a path, if there is anything."""
        return self._asked("GET", path)

    def delete(self, path: str) -> None:
        """Delete an object, if it is there; what it owns goes in the background."""
        self._asked("DELETE", path)

    def would_create(self, path: str, wanted: Object) -> Object | None:
        """An object as it would be stored, with the API server's defaults; nothing is stored."""
        return self._asked("POST", f"{path}?dryRun=All", wanted)

    def _asked(self, method: str, path: str, content: Object | None = None) -> Object | None:
        try:
            answer = self._client.request(method, path, json=content)
            if answer.status_code == httpx.codes.NOT_FOUND:
                return None
            if answer.status_code == httpx.codes.FORBIDDEN:
                self.hidden.append(path)
                return None
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                raise UnreachableError("refuses the credential (401): get a new kubeconfig")
            found: Object = answer.raise_for_status().json()
        except httpx.HTTPStatusError as error:
            raise UnreachableError(f"answers {error.response.status_code}") from None
        except httpx.HTTPError as error:
            raise UnreachableError(f"at {self._client.base_url.host} can't be reached ({_reason(error)})") from None
        except (ValueError, RecursionError):
            raise UnreachableError(_NO_LIST) from None
        if not isinstance(found, dict):
            raise UnreachableError(_NO_LIST)
        return found


@contextmanager
def connected(kubeconfig: str) -> Iterator[ClusterClient]:
    """A client for a cluster.

    Args:
        kubeconfig: content, not path; a secret. Its key is in a folder of the user's own for a moment.

    Raises:
        UnreachableError: the kubeconfig can't be used.
        UnsupportedError: the kubeconfig or the proxy is of a kind that is not used here.
    """
    with _client(kubeconfig) as client:
        yield ClusterClient(client)


def _reason(error: httpx.HTTPError) -> str:
    # What others say may have a header with the credential.
    told = str(error) if isinstance(error, httpx.NetworkError | httpx.ProxyError) else ""
    return told or type(error).__name__


def _client(kubeconfig: str) -> httpx.Client:
    try:
        cluster, user = _current(yaml.safe_load(kubeconfig))
        server = httpx.URL(cluster["server"])
        if server.scheme not in ("http", "https") or not server.host:
            raise UnreachableError("has a kubeconfig whose server is not a URL")
        headers = _headers(user)
        tls = _tls(cluster, user)
    except UnreachableError:
        raise
    # Of whatever kind, for a kubeconfig may have any shape; not its own text, which may have a part of it.
    except Exception:
        raise UnreachableError("has a kubeconfig without a server, or with a certificate that can't be read") from None
    return httpx.Client(
        base_url=server, headers=headers, verify=tls, timeout=_TIMEOUT, proxy=_proxy(server), trust_env=False
    )


def _proxy(server: httpx.URL) -> httpx.Proxy | None:
    # As the provider and Kubernetes' own client do, which know networks in NO_PROXY.
    address = get_environ_proxies(str(server)).get(server.scheme)
    if not address:
        return None
    if address.startswith("socks"):
        raise UnsupportedError("is behind a SOCKS proxy, which this look does not use")
    try:
        return httpx.Proxy(address if "://" in address else f"http://{address}")
    except (httpx.InvalidURL, ValueError):
        variable = f"{server.scheme}_proxy".upper()
        raise UnreachableError(f"is behind a proxy whose address in {variable} can't be read") from None


def _headers(user: Mapping[str, Any]) -> dict[str, str]:
    token = user.get("token")
    if not token:
        return {}
    # Kubernetes' client takes it as it is, and neither sends one with a line break.
    if not isinstance(token, str) or not re.fullmatch("[!-~]+", token):
        raise UnreachableError("has a kubeconfig whose token has a line break or another character that can't be sent")
    return {"Authorization": f"Bearer {token}"}


def _current(content: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    def named(kind: str, name: str) -> Any:
        return next(one[kind] for one in content[f"{kind}s"] if one["name"] == name)

    context = named("context", content["current-context"])
    parts = {kind: named(kind, context[kind]) for kind in _UNSUPPORTED}
    for kind, keys in _UNSUPPORTED.items():
        for key in keys:
            if parts[kind].get(key):
                raise UnsupportedError(f"has a kubeconfig with {key}, which this look does not use")
    return parts["cluster"], parts["user"]


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    # Not Python's default one, which from 3.13 on refuses authorities that older clusters made.
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority = cluster.get("certificate-authority-data")
    if authority:
        tls.load_verify_locations(cadata=base64.b64decode(authority).decode())
    else:
        tls.load_default_certs()
    if cluster.get("insecure-skip-tls-verify") is True:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if user.get("client-certificate-data"):
        with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
            pair = Path(folder) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_bytes(
                base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"])
            )
            tls.load_cert_chain(pair)
    return tls
