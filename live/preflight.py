"""Refuse a cluster whose metrics API or Deployments already have another owner, at preview too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pulumi

from autoscaling.settings.services import Service
from live.cluster_client import UnreachableError, UnsupportedError
from live.other_owners import (
    adapter_of_unknown_origin,
    other_adapters,
    other_autoscalers,
    unknown_former_names,
)
from live.snapshot import ClusterLook

Preflight = Callable[[str], Awaitable[str]]
"""Takes a kubeconfig and returns it, or raises `pulumi.RunError`."""


def no_other_owners(
    look: ClusterLook, services: Sequence[Service], *, stack: str, installs_adapter: bool = True
) -> Preflight:
    """Return the preflight of a stack.

    Where the cluster can't be reached a preview warns and goes on, as the Kubernetes provider's does; `up` fails,
    unless the provider may reach a cluster that this client can't.

    Args:
        look: at the cluster.
        services: what the stack scales.
        stack: the name that the stack writes on its HPAs and its adapter, such as `ackgpu/dev`.
        installs_adapter: whether the stack installs the adapter, rather than adopt it or use another stack's.
    """

    async def check(kubeconfig: str) -> str:
        try:
            snapshot = await look.at(kubeconfig)
        except UnreachableError as error:
            if not pulumi.runtime.is_dry_run() and not isinstance(error, UnsupportedError):
                raise pulumi.RunError(f"Nothing was changed: the cluster {error}.") from None
            pulumi.log.warn(f"Could not check for conflicting adapters and HPAs: the cluster {error}.")
            return kubeconfig
        for path in snapshot.hidden:
            pulumi.log.warn(
                f"Could not check fully for conflicting adapters and HPAs: the credential may not list {path}."
            )
        faults = [
            *other_adapters(snapshot.registrations),
            *other_autoscalers(services, snapshot.scalers, stack),
        ]
        if faults:
            raise pulumi.RunError("\n".join(["Nothing was changed:", *faults]))
        for warning in unknown_former_names(services, snapshot.scalers, stack):
            pulumi.log.warn(warning)
        if installs_adapter and snapshot.adapter.installer != stack:
            for warning in adapter_of_unknown_origin(snapshot.registrations, snapshot.scalers, stack):
                pulumi.log.warn(warning)
        return kubeconfig

    return check
