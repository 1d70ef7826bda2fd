"""What a run asks the cluster before it changes anything, and the refusal of a cluster that has another owner.

The cluster is asked once, at preview too, for everything that needs an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pulumi

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.adapter_values import RULES, value_at
from autoscaling.settings.services import Service
from live.adapter_release import hpas_of_all, newest_release, stack_of_release
from live.cluster_client import ClusterClient, Object, UnreachableError, UnsupportedError, connected
from live.helm_release import HelmRelease, HelmReleaseError
from live.kubeconfig import CONNECTIONS
from live.other_owners import (
    SCALERS,
    Scaler,
    adapter_of_unknown_origin,
    other_adapters,
    other_autoscalers,
    unknown_former_names,
)

Preflight = Callable[[str], Awaitable[str]]
"""Takes a kubeconfig and returns it, or raises `pulumi.RunError`."""

_REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"


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


@dataclass(frozen=True)
class LiveAdapter:
    """The newest revision of the adapter's release, and the HPAs that may read its metrics."""

    release: HelmRelease | None = None
    hpas: Sequence[Object] = ()
    """Of all namespaces."""
    hidden: Sequence[str] = ()
    """Paths that the credential may not list."""
    error: str | None = None
    """Why the release can't be read."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules in the release's values."""
        return (value_at(self.release.values, RULES) if self.release else None) or []

    @property
    def installer(self) -> str | None:
        """The stack that installed the release; None: there is no release, or it does not say."""
        return stack_of_release(self.release) if self.release else None


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment, as far as a run needs it."""

    registrations: Sequence[Object] = ()
    """APIServices."""
    scalers: Mapping[Scaler, Sequence[Object]] = field(default_factory=dict)
    """In the stack's namespaces."""
    hidden: Sequence[str] = ()
    """Paths that the credential may not list."""
    adapter: LiveAdapter = field(default_factory=LiveAdapter)


class ClusterLook:
    """Looks at a cluster once, for all that need the answer.

    Args:
        namespaces: where the stack has services.
        adapter: whether the stack installs the adapter, so that its release is looked at.
    """

    def __init__(self, namespaces: Iterable[str], *, adapter: bool) -> None:
        self._namespaces = sorted(set(namespaces))
        self._adapter = adapter
        self._snapshot: asyncio.Task[Snapshot] | None = None

    async def at(self, kubeconfig: str) -> Snapshot:
        """Return the snapshot of a kubeconfig's cluster.

        Raises:
            UnreachableError, UnsupportedError: as `take_snapshot`.
        """
        if self._snapshot is None:
            looking = asyncio.to_thread(take_snapshot, kubeconfig, self._namespaces, adapter=self._adapter)
            self._snapshot = asyncio.create_task(looking)
        return await self._snapshot


def take_snapshot(kubeconfig: str, namespaces: Sequence[str], *, adapter: bool = True) -> Snapshot:
    """Ask a cluster, all requests side by side.

    Args:
        kubeconfig: content, not path; a secret.
        namespaces: where to look for autoscalers.
        adapter: whether to look at the adapter's release.

    Raises:
        UnreachableError: the cluster does not answer, or refuses the credential.
        UnsupportedError: the client does not support the kubeconfig or the proxy.
    """
    places = [(scaler, namespace) for scaler in SCALERS for namespace in namespaces]
    paths = [f"/apis/{scaler.api}/namespaces/{namespace}/{scaler.plural}" for scaler, namespace in places]
    with connected(kubeconfig) as client, ThreadPoolExecutor(CONNECTIONS) as threads:
        release = threads.submit(_live_adapter, client) if adapter else None
        # Once a request has failed, `map` does not begin what is still waiting.
        registrations, *found = threads.map(client.listed, [_REGISTRATIONS, *paths])
        scalers: dict[Scaler, list[Object]] = {scaler: [] for scaler in SCALERS}
        for (scaler, _), objects in zip(places, found, strict=True):
            scalers[scaler] += objects
        live = release.result() if release else LiveAdapter()
    owners = {path for path in client.hidden if path in (_REGISTRATIONS, *paths)}
    live = replace(live, hidden=[path for path in client.hidden if path not in owners])
    return Snapshot(registrations, scalers, sorted(owners), live)


def _live_adapter(client: ClusterClient) -> LiveAdapter:
    try:
        release = newest_release(client)
    except HelmReleaseError as error:
        return LiveAdapter(error=str(error))
    # Without a release it does not matter who reads its metrics.
    hpas = hpas_of_all(client) if release else ()
    return LiveAdapter(release, hpas)
