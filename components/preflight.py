"""Looks at the cluster before anything is created: what belongs to others there stops the run, at preview already."""

from __future__ import annotations

import asyncio
import base64
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

Preflight = Callable[[str], Awaitable[str]]
"""Gets a kubeconfig and gives it back, or raises `pulumi.RunError`."""


class UnreachableError(Exception):
    """The cluster can't be asked; the message is a phrase without a secret."""


@dataclass(frozen=True)
class Sight:
    """What a cluster has of what could belong to others."""

    registrations: Sequence[Object] = ()
    """APIServices."""
    scalers: Mapping[Scaler, Sequence[Object]] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    """What the credential may not list."""


def no_other_owners(services: Sequence[Service]) -> Preflight:
    """A look that refuses a cluster with an adapter or an autoscaler of others in the place of ours.

    Where the cluster can't be reached a preview warns and goes on, as the Kubernetes provider's does; `up` fails.

    Args:
        services: what the stack scales.
    """
    scaled = [Scaled(one.namespace, one.name, one.autoscaler_name) for one in services]

    async def check(kubeconfig: str) -> str:
        try:
            sight = await asyncio.to_thread(look, kubeconfig, sorted({one.namespace for one in scaled}))
        except UnreachableError as error:
            if not pulumi.runtime.is_dry_run():
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
                items: list[Object] = answer.raise_for_status().json()["items"]
            except httpx.HTTPStatusError as error:
                raise UnreachableError(f"answers {error.response.status_code}") from None
            except httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
                raise UnreachableError(f"at {client.base_url.host} can't be reached ({reason})") from None
            except (ValueError, KeyError, TypeError):
                raise UnreachableError("gives an answer that is not a list of Kubernetes objects") from None
            return items

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


def _client(kubeconfig: str) -> httpx.Client:
    try:
        cluster, user = _current(yaml.safe_load(kubeconfig))
        server = cluster["server"]
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        tls = _tls(cluster, user)
    # Not the error's own text, which may have a part of the kubeconfig.
    except (yaml.YAMLError, KeyError, TypeError, ValueError, StopIteration, ssl.SSLError):
        raise UnreachableError("has a kubeconfig without a server, or with a certificate that can't be read") from None
    # As the provider and Kubernetes' own client do, which know networks in NO_PROXY.
    proxy = get_environ_proxies(server).get(httpx.URL(server).scheme)
    return httpx.Client(base_url=server, headers=headers, verify=tls, timeout=_TIMEOUT, proxy=proxy, trust_env=False)


def _current(content: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    def named(kind: str, name: str) -> Any:
        return next(one[kind] for one in content[f"{kind}s"] if one["name"] == name)

    context = named("context", content["current-context"])
    return named("cluster", context["cluster"]), named("user", context["user"])


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    # Not Python's default one, which from 3.13 on refuses authorities that older clusters made.
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority = cluster.get("certificate-authority-data")
    if authority:
        tls.load_verify_locations(cadata=base64.b64decode(authority).decode())
    else:
        tls.load_default_certs()
    if "client-certificate-data" in user:
        with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
            pair = Path(folder) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_bytes(
                base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"])
            )
            tls.load_cert_chain(pair)
    return tls
