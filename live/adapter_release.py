"""The adapter's release as it is in the cluster, before a run changes it: what the change means is told at preview."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pulumi
import yaml

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE, REPLACE_ADAPTER
from autoscaling.metrics.adapter_rules import Rule
from autoscaling.metrics.adapter_values import RULES, STACK, at
from live.cluster_client import ClusterClient, UnreachableError, connected
from live.helm_release import HelmRelease, HelmReleaseError, latest, secret_selector
from live.kept_rules import KeptRule, rules_to_keep, with_kept
from live.other_owners import Object

INSTALLATION_SECONDS = 300
"""How long Helm waits for the adapter's pod."""

_SECRETS = f"/api/v1/namespaces/{ADAPTER_NAMESPACE}/secrets"

BeforeChange = Callable[[pulumi.ResourceHookArgs], Awaitable[None] | None]


@dataclass(frozen=True)
class LiveAdapter:
    """The newest revision of the release, and who reads metrics of the cluster."""

    release: HelmRelease | None
    hpas: Sequence[Object] = ()
    """Of all namespaces."""
    hidden: Sequence[str] = ()
    """What the credential may not list."""

    @property
    def rules(self) -> Sequence[Rule]:
        """Those that the release was given."""
        rules = at(self.release.values, RULES) if self.release else None
        return [one for one in rules if isinstance(one, dict)] if isinstance(rules, list) else []


def rules_for_this_run(
    kubeconfig: pulumi.Output[str], rules: Sequence[Rule], chart_version: str | None, *, stack: str
) -> pulumi.Output[list[Rule]]:
    """The stack's rules, and those of the live release that an HPA still reads.

    Where the release is changed in another way than an update, its users are told.

    Args:
        kubeconfig: of a cluster that has passed the preflight; a secret.
        rules: of the settings.
        chart_version: of the chart to come; None: not known.
        stack: the name that the stack writes on its release, such as `ackgpu/dev`.
    """

    async def find(content: str) -> list[Rule]:
        try:
            live = await asyncio.to_thread(look, content)
        except HelmReleaseError as error:
            pulumi.log.warn(f"what is live of the adapter is not known: {error}.")
            return list(rules)
        # Of which the preflight has told.
        except UnreachableError:
            return list(rules)
        for what in live.hidden:
            pulumi.log.warn(f"whether a rule of the adapter is still needed is not known: {what} can't be listed.")
        for warning in changes(live.release, chart_version, stack):
            pulumi.log.warn(warning)
        kept = rules_to_keep(live.rules, live.hpas, rules)
        for one in kept:
            pulumi.log.info(_kept(one))
        return with_kept(rules, live.rules, kept)

    return pulumi.Output.unsecret(kubeconfig.apply(find))


def changes(release: HelmRelease | None, chart_version: str | None, stack: str) -> Iterator[str]:
    """A sentence where the release is to be replaced, or was left half done by a run that was killed."""
    # That of others is changed by nobody here.
    if release is None or _stack_of(release) != stack:
        return
    if release.status.startswith(("pending-", "uninstalling")):
        yield (
            f"the adapter's release is {release.status} since {release.changed:%Y-%m-%d %H:%M} UTC, from a run that "
            "was killed or still runs elsewhere. An `up` that changes it takes away what that left, once it is over or "
            f"{INSTALLATION_SECONDS} s old; where nothing else changes, `{REPLACE_ADAPTER}` does."
        )
    if chart_version and release.version != chart_version:
        yield (
            f"the adapter's chart {release.version} is live, and {chart_version} comes: as its vendor asks, the "
            "release is uninstalled and then installed. GPU metrics are away for that time: no HPA scales on them "
            "meanwhile, and replicas stay as they are."
        )


def look(kubeconfig: str) -> LiveAdapter:
    """Ask a cluster.

    Raises:
        UnreachableError: it does not answer.
        HelmReleaseError: what Helm has stored can't be read.
    """
    with connected(kubeconfig) as client:
        release = newest_release(client)
        return LiveAdapter(release, hpas_of_all(client) if release else (), client.hidden)


def clear_leftover(kubeconfig: pulumi.Output[str], *, stack: str) -> BeforeChange:
    """Takes away what a killed run left of this stack's release, before it is installed or updated.

    Helm would refuse the name of an installation that Pulumi's state does not have, and anything after an update that
    has not ended. What somebody else installed stays, and Helm refuses.
    """

    async def clear(change: pulumi.ResourceHookArgs) -> None:
        content = await kubeconfig.future()
        assert content is not None, "known before anything is made in the cluster"
        remove = drop_pending_update if change.old_inputs else uninstall
        try:
            if await asyncio.to_thread(remove, content, stack):
                pulumi.log.info("what an interrupted run had left of the adapter's release is taken away.")
        except (UnreachableError, HelmReleaseError) as error:
            # Helm itself says what stands in its way.
            pulumi.log.warn(f"whether an interrupted run left something of the adapter is not known: {error}.")

    return clear


def uninstall(kubeconfig: str, stack: str) -> bool:
    """Delete the release, its objects first; returns whether there was one of this stack.

    Raises:
        UnreachableError: the cluster does not answer.
        HelmReleaseError: what Helm has stored can't be read.
    """
    with connected(kubeconfig) as client:
        release = _at_rest(client, stack)
        if release is None:
            return False
        # The last that was made is the first to go.
        for made in reversed([one for one in yaml.safe_load_all(release.manifest) if one]):
            path = _path(client, made)
            if path:
                client.delete(path)
        for secret in _secrets(client):
            client.delete(f"{_SECRETS}/{secret['metadata']['name']}")
        return True


def drop_pending_update(kubeconfig: str, stack: str) -> bool:
    """Forget a revision that Helm has not ended, so that the one before it counts; returns whether there was one.

    Raises:
        UnreachableError: the cluster does not answer.
        HelmReleaseError: what Helm has stored can't be read.
    """
    with connected(kubeconfig) as client:
        release = _at_rest(client, stack)
        if release is None or release.status not in ("pending-upgrade", "pending-rollback"):
            return False
        client.delete(f"{_SECRETS}/sh.helm.release.v1.{release.name}.v{release.revision}")
        return True


def _at_rest(client: ClusterClient, stack: str) -> HelmRelease | None:
    """This stack's release, once nobody works on it any more."""
    release = newest_release(client)
    # A provider outlives a Pulumi that was killed by minutes, and would write its release over the new one.
    while release and release.status.startswith("pending-") and _age(release) < INSTALLATION_SECONDS:
        if _stack_of(release) != stack:
            break
        time.sleep(1)
        release = newest_release(client)
    return release if release and _stack_of(release) == stack else None


def newest_release(client: ClusterClient) -> HelmRelease | None:
    """The newest revision of the adapter's release, whatever became of it; None: there is none.

    Raises:
        HelmReleaseError: what Helm has stored can't be read.
    """
    return latest(_secrets(client))


def installer(client: ClusterClient) -> str | None:
    """The stack whose name the live release carries; None: there is none, or it carries no name."""
    try:
        release = newest_release(client)
    except HelmReleaseError:
        return None
    return _stack_of(release) if release else None


def _secrets(client: ClusterClient) -> list[Object]:
    return client.listed(f"{_SECRETS}?labelSelector={secret_selector(ADAPTER_NAME)}")


def hpas_of_all(client: ClusterClient) -> Sequence[Object]:
    """The HPAs of all namespaces, in the newest version of their API that the cluster has, with their metrics."""
    # The first is served from Kubernetes 1.23; autoscaling/v1 does not have the metrics.
    served = (f"/apis/autoscaling/{version}" for version in ("v2", "v2beta2", "v2beta1"))
    newest = next((path for path in served if client.read(path)), None)
    return client.listed(f"{newest}/horizontalpodautoscalers") if newest else ()


def _path(client: ClusterClient, made: Object) -> str | None:
    version = made["apiVersion"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    kinds = (client.read(group) or {}).get("resources", ())
    kind = next((one for one in kinds if one["kind"] == made["kind"] and "/" not in one["name"]), None)
    if kind is None:
        return None
    namespace = made["metadata"].get("namespace") or ADAPTER_NAMESPACE
    place = f"namespaces/{namespace}/" if kind["namespaced"] else ""
    return f"{group}/{place}{kind['name']}/{made['metadata']['name']}"


def _stack_of(release: HelmRelease) -> str | None:
    found = at(release.values, STACK)
    return found if isinstance(found, str) else None


def _age(release: HelmRelease) -> float:
    return (datetime.now(UTC) - release.changed).total_seconds()


def _kept(kept: KeptRule) -> str:
    return (
        f"the adapter keeps its rule of {kept.metric}, which the settings no longer have, as long as an HPA reads it "
        f"({', '.join(kept.readers)}): the next `pulumi up` after that takes it away."
    )
