"""Read the cluster once before a run changes it, also at preview, and refuse a cluster with another owner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pulumi

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.adapter_values import RULES, value_at
from autoscaling.settings.services import Service
from live.adapter_release import all_hpas, newest_release, stack_of_release
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

_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def no_other_owners(
    snapshot: SharedSnapshot, services: Sequence[Service], *, stack: str, installs_adapter: bool = True
) -> Preflight:
    """Return the preflight of a stack.

    If the cluster can't be reached, a preview warns and continues, as the Kubernetes provider does. `up` fails, unless
    the provider may support a kubeconfig that this client does not.

    Args:
        snapshot: the shared snapshot of the cluster.
        services: services of the stack.
        stack: name of the stack on its HPAs and its adapter, such as `ackgpu/dev`.
        installs_adapter: whether the stack installs the adapter. If not, it adopts it or uses another stack's.
    """

    async def check(kubeconfig: str) -> str:
        try:
            cluster = await snapshot.get(kubeconfig)
        except UnreachableError as error:
            if not pulumi.runtime.is_dry_run() and not isinstance(error, UnsupportedError):
                raise pulumi.RunError(f"Nothing was changed: the cluster {error}.") from None
            pulumi.log.warn(f"Could not check for conflicting adapters and HPAs: the cluster {error}.")
            return kubeconfig
        for path in cluster.forbidden:
            pulumi.log.warn(
                f"Could not check fully for conflicting adapters and HPAs: the credential may not list {path}. Grant "
                "the credential this permission."
            )
        faults = [
            *other_adapters(cluster.api_services),
            *other_autoscalers(services, cluster.scalers, stack),
        ]
        if faults:
            raise pulumi.RunError("\n".join(["Nothing was changed:", *faults]))
        for warning in unknown_former_names(services, cluster.scalers, stack):
            pulumi.log.warn(warning)
        if installs_adapter and cluster.adapter.installer != stack:
            for warning in adapter_of_unknown_origin(cluster.api_services, cluster.scalers, stack):
                pulumi.log.warn(warning)
        return kubeconfig

    return check


@dataclass(frozen=True)
class LiveAdapter:
    """The newest revision of the adapter's release, and the HPAs that may read its metrics."""

    release: HelmRelease | None = None
    hpas: Sequence[Object] = ()
    """HPAs of all namespaces."""
    forbidden: Sequence[str] = ()
    """Paths that the credential may not list."""
    error: str | None = None
    """Reason why the release can't be read."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules in the release's values."""
        return (value_at(self.release.values, RULES) if self.release else None) or []

    @property
    def installer(self) -> str | None:
        """The stack that installed the release; None without a release, or if it is unknown."""
        return stack_of_release(self.release) if self.release else None


@dataclass(frozen=True)
class Snapshot:
    """The objects of a cluster that a run needs, at one time."""

    api_services: Sequence[Object] = ()
    """APIServices."""
    scalers: Mapping[Scaler, Sequence[Object]] = field(default_factory=dict)
    """Autoscalers in the stack's namespaces."""
    forbidden: Sequence[str] = ()
    """Paths that the credential may not list."""
    adapter: LiveAdapter = field(default_factory=LiveAdapter)


class SharedSnapshot:
    """A snapshot that is taken once, at the first use.

    Args:
        namespaces: namespaces of the stack's services.
        adapter: whether to read the adapter's release.
    """

    def __init__(self, namespaces: Iterable[str], *, adapter: bool) -> None:
        self._namespaces = sorted(set(namespaces))
        self._adapter = adapter
        self._snapshot: asyncio.Task[Snapshot] | None = None

    async def get(self, kubeconfig: str) -> Snapshot:
        """Return the snapshot of a kubeconfig's cluster.

        Raises:
            UnreachableError, UnsupportedError: see `take_snapshot`.
        """
        if self._snapshot is None:
            reading = asyncio.to_thread(take_snapshot, kubeconfig, self._namespaces, adapter=self._adapter)
            self._snapshot = asyncio.create_task(reading)
        return await self._snapshot


def take_snapshot(kubeconfig: str, namespaces: Sequence[str], *, adapter: bool = True) -> Snapshot:
    """Read a cluster, with all requests in parallel.

    Args:
        kubeconfig: content, not path; a secret.
        namespaces: namespaces whose autoscalers to read.
        adapter: whether to read the adapter's release.

    Raises:
        UnreachableError: the cluster does not respond, or refuses the credential.
        UnsupportedError: the client does not support the kubeconfig or the proxy.
    """
    sources = [(scaler, namespace) for scaler in SCALERS for namespace in namespaces]
    paths = [f"/apis/{scaler.api}/namespaces/{namespace}/{scaler.plural}" for scaler, namespace in sources]
    with connected(kubeconfig) as client, ThreadPoolExecutor(CONNECTIONS) as threads:
        release = threads.submit(_live_adapter, client) if adapter else None
        # After a failed request, `map` starts no further requests.
        api_services, *found = threads.map(client.list_objects, [_API_SERVICES, *paths])
        scalers: dict[Scaler, list[Object]] = {scaler: [] for scaler in SCALERS}
        for (scaler, _), objects in zip(sources, found, strict=True):
            scalers[scaler] += objects
        live = release.result() if release else LiveAdapter()
    owners = {path for path in client.forbidden if path in (_API_SERVICES, *paths)}
    live = replace(live, forbidden=[path for path in client.forbidden if path not in owners])
    return Snapshot(api_services, scalers, sorted(owners), live)


def _live_adapter(client: ClusterClient) -> LiveAdapter:
    try:
        release = newest_release(client)
    except HelmReleaseError as error:
        return LiveAdapter(error=str(error))
    # HPAs matter only if the release exists.
    hpas = all_hpas(client) if release else ()
    return LiveAdapter(release, hpas)
