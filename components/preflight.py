"""Looks at the cluster before anything is created: what belongs to others there stops the run, at preview already."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pulumi
import yaml
from requests.utils import get_environ_proxies

from autoscaling.other_owners import (
    SCALERS,
    Object,
    Scaled,
    Scaler,
    adapter_of_unknown_origin,
    other_adapters,
    other_autoscalers,
)
from autoscaling.settings.model import Service
from components.stack_config import stack_name

_TIMEOUT = httpx.Timeout(30, connect=5)

_UNSUPPORTED = {
    "cluster": ("certificate-authority", "tls-server-name", "proxy-url"),
    "user": (
        *("client-certificate", "client-key", "tokenFile", "exec", "auth-provider", "username", "password"),
        *("as", "as-uid", "as-groups", "as-user-extra"),
    ),
}
"""Keys of a kubeconfig; ACK's has its certificates as data."""

Preflight = Callable[[str], Awaitable[str]]
"""Gets a kubeconfig and gives it back, or raises `pulumi.RunError`."""


class UnreachableError(Exception):
    """The cluster can't be asked; the message is a phrase without a secret."""


class UnsupportedError(UnreachableError):
    """The way to the cluster needs something that the Kubernetes provider knows and this look does not."""


@dataclass(frozen=True)
class Sight:
    """What a cluster has of what could belong to others."""

    registrations: Sequence[Object] = ()
    """APIServices."""
    scalers: Mapping[Scaler, Sequence[Object]] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    """What the credential may not list."""


def no_other_owners(services: Sequence[Service], *, installs_adapter: bool = True) -> Preflight:
    """A look that refuses a cluster with an adapter or an autoscaler of others in the place of ours.

    Where the cluster can't be reached a preview warns and goes on, as the Kubernetes provider's does; `up` fails,
    unless the provider may reach what this look can't.

    Args:
        services: what the stack scales.
        installs_adapter: whether the adapter is this stack's, and not that of a platform it uses.
    """
    scaled = [Scaled(one.namespace, one.object_name, one.autoscaler_name) for one in services]

    async def check(kubeconfig: str) -> str:
        try:
            sight = await asyncio.to_thread(look, kubeconfig, sorted({one.namespace for one in scaled}))
        except UnreachableError as error:
            if not pulumi.runtime.is_dry_run() and not isinstance(error, UnsupportedError):
                raise pulumi.RunError(f"nothing was changed, since the cluster {error}.") from None
            pulumi.log.warn(f"whether others own what this stack needs is not known, since the cluster {error}.")
            return kubeconfig
        for what in sight.hidden:
            pulumi.log.warn(f"whether others own what this stack needs is not known in full: {what} can't be listed.")
        faults = [
            *other_adapters(sight.registrations),
            *other_autoscalers(scaled, sight.scalers, stack_name()),
        ]
        if faults:
            raise pulumi.RunError("\n".join(["nothing was changed:", *faults]))
        if installs_adapter:
            for warning in adapter_of_unknown_origin(sight.registrations, sight.scalers, stack_name()):
                pulumi.log.warn(warning)
        return kubeconfig

    return check


def look(kubeconfig: str, namespaces: Sequence[str]) -> Sight:
    """Ask a cluster, with a client that loads in a fraction of the time of Kubernetes' own.

    Args:
        kubeconfig: content, not path; a secret. Its key is in a folder of the user's own for a moment.
        namespaces: where to look for autoscalers.

    Raises:
        UnreachableError: it does not answer, or refuses the credential.
        UnsupportedError: the kubeconfig or the proxy is of a kind that is not used here.
    """
    hidden: list[str] = []
    with _client(kubeconfig) as client:

        def listed(path: str) -> list[Object]:
            try:
                answer = client.get(path)
                if answer.status_code == httpx.codes.NOT_FOUND:
                    return []
                if answer.status_code == httpx.codes.FORBIDDEN:
                    hidden.append(path)
                    return []
                if answer.status_code == httpx.codes.UNAUTHORIZED:
                    raise UnreachableError("refuses the credential (401): get a new kubeconfig")
                items = answer.raise_for_status().json()["items"] or []
                return [one for one in items if _is_whole(one)]
            except httpx.HTTPStatusError as error:
                raise UnreachableError(f"answers {error.response.status_code}") from None
            except httpx.HTTPError as error:
                raise UnreachableError(f"at {client.base_url.host} can't be reached ({_reason(error)})") from None
            except (ValueError, KeyError, TypeError, RecursionError):
                raise UnreachableError("gives an answer that is not a list of Kubernetes objects") from None

        registrations = listed("/apis/apiregistration.k8s.io/v1/apiservices")
        scalers = {
            scaler: [
                found
                for namespace in namespaces
                for found in listed(f"/apis/{scaler.api}/namespaces/{namespace}/{scaler.plural}")
            ]
            for scaler in SCALERS
        }
    return Sight(registrations, scalers, hidden)


def _is_whole(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("spec"), dict)
        and isinstance(found.get("metadata"), dict)
        and "name" in found["metadata"]
    )


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
