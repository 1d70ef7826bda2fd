"""One look at a cluster before a run: who owns what the stack needs, and what its adapter's release is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.adapter_values import RULES, at
from live.adapter_release import hpas_of_all, newest_release, stack_of_release
from live.cluster_client import ClusterClient, Object
from live.helm_release import HelmRelease, HelmReleaseError
from live.kubeconfig import CONNECTIONS, access_of
from live.other_owners import SCALERS, Scaler

_REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"


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
        rules = at(self.release.values, RULES) if self.release else None
        return [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []

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
    access = access_of(kubeconfig)
    # Two clients, so that each knows what is hidden from it.
    with (
        ClusterClient(access) as owners,
        ClusterClient(access) as releases,
        _Threads() as threads,
    ):
        registrations = threads.submit(owners.listed, _REGISTRATIONS)
        scalers = {
            scaler: [threads.submit(owners.listed, _scalers_in(namespace, scaler)) for namespace in namespaces]
            for scaler in SCALERS
        }
        hpas = threads.submit(hpas_of_all, releases) if adapter else None
        release = threads.submit(newest_release, releases) if adapter else None
        return Snapshot(
            _whole(registrations.result()),
            {scaler: _whole(item for found in lists for item in found.result()) for scaler, lists in scalers.items()},
            owners.hidden,
            _live_adapter(release, hpas, releases) if release and hpas else LiveAdapter(),
        )


class _Threads(ThreadPoolExecutor):
    """Does not begin what is still waiting once one request has failed."""

    def __init__(self) -> None:
        super().__init__(CONNECTIONS)

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)


def _live_adapter(
    release: Future[HelmRelease | None], hpas: Future[Sequence[Object]], client: ClusterClient
) -> LiveAdapter:
    readers = hpas.result()
    try:
        newest = release.result()
    except HelmReleaseError as error:
        return LiveAdapter(error=str(error))
    # Without a release it does not matter who reads its metrics.
    return LiveAdapter(newest, readers if newest else (), client.hidden if newest else _secrets_of(client.hidden))


def _secrets_of(hidden: Sequence[str]) -> list[str]:
    return [path for path in hidden if "/secrets" in path]


def _scalers_in(namespace: str, scaler: Scaler) -> str:
    return f"/apis/{scaler.api}/namespaces/{namespace}/{scaler.plural}"


def _whole(found: Iterable[Object]) -> list[Object]:
    """Leave out what does not have the parts of an object."""
    return [
        item
        for item in found
        if isinstance(item.get("spec"), dict) and isinstance(item.get("metadata"), dict) and "name" in item["metadata"]
    ]
