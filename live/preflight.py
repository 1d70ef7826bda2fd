"""Looks at the cluster before anything is created: what belongs to others there stops the run, at preview already."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from autoscaling.settings.services import Service
from live.adapter_release import installer
from live.cluster_client import UnreachableError, UnsupportedError, connected
from live.other_owners import (
    SCALERS,
    Object,
    Scaled,
    Scaler,
    adapter_of_unknown_origin,
    other_adapters,
    other_autoscalers,
    unknown_former_names,
)

Preflight = Callable[[str], Awaitable[str]]
"""Gets a kubeconfig and gives it back, or raises `pulumi.RunError`."""


@dataclass(frozen=True)
class Sight:
    """What a cluster has of what could belong to others."""

    registrations: Sequence[Object] = ()
    """APIServices."""
    scalers: Mapping[Scaler, Sequence[Object]] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    """What the credential may not list."""
    installer: str | None = None
    """The stack that installed the adapter, where its release says so."""


def no_other_owners(services: Sequence[Service], *, stack: str, installs_adapter: bool = True) -> Preflight:
    """A look that refuses a cluster with an adapter or an autoscaler of others in the place of ours.

    Where the cluster can't be reached a preview warns and goes on, as the Kubernetes provider's does; `up` fails,
    unless the provider may reach what this look can't.

    Args:
        services: what the stack scales.
        stack: the name that the stack writes on its HPAs and its adapter, such as `ackgpu/dev`.
        installs_adapter: whether the adapter is this stack's, and neither that of a platform it uses nor adopted.
    """
    scaled = [
        Scaled(
            one.namespace,
            one.object_name,
            one.autoscaler_name,
            renamed=one.formerly is not None,
            retained=one.retain_on_delete,
        )
        for one in services
    ]

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
            *other_autoscalers(scaled, sight.scalers, stack),
        ]
        if faults:
            raise pulumi.RunError("\n".join(["nothing was changed:", *faults]))
        for warning in unknown_former_names(scaled, sight.scalers, stack):
            pulumi.log.warn(warning)
        if installs_adapter and sight.installer != stack:
            for warning in adapter_of_unknown_origin(sight.registrations, sight.scalers, stack):
                pulumi.log.warn(warning)
        return kubeconfig

    return check


def look(kubeconfig: str, namespaces: Sequence[str]) -> Sight:
    """Ask a cluster.

    Args:
        kubeconfig: content, not path; a secret.
        namespaces: where to look for autoscalers.

    Raises:
        UnreachableError: it does not answer, or refuses the credential.
        UnsupportedError: the kubeconfig or the proxy is of a kind that is not used here.
    """
    with connected(kubeconfig) as client:
        registrations = [one for one in client.listed("/apis/apiregistration.k8s.io/v1/apiservices") if _is_whole(one)]
        scalers = {
            scaler: [
                found
                for namespace in namespaces
                for found in client.listed(f"/apis/{scaler.api}/namespaces/{namespace}/{scaler.plural}")
                if _is_whole(found)
            ]
            for scaler in SCALERS
        }
        hidden = list(client.hidden)
        adapter = installer(client) if registrations else None
    return Sight(registrations, scalers, hidden, adapter)


def _is_whole(found: Object) -> bool:
    return (
        isinstance(found.get("spec"), dict) and isinstance(found.get("metadata"), dict) and "name" in found["metadata"]
    )
