"""What a run changes of the adapter's release: warnings at preview, rules to keep, leftovers to delete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pulumi

from autoscaling.ack.versions import REPLACE_ADAPTER
from autoscaling.metrics.adapter_rules import Rule
from live.adapter_release import INSTALLATION_SECONDS, drop_pending_update, stack_of_release, uninstall
from live.cluster_client import UnreachableError
from live.helm_release import HelmRelease, HelmReleaseError
from live.kept_rules import rules_to_keep, with_kept
from live.preflight import ClusterLook

BeforeChange = Callable[[pulumi.ResourceHookArgs], Awaitable[None] | None]


def rules_for_this_run(
    look: ClusterLook, kubeconfig: pulumi.Output[str], rules: Sequence[Rule], chart_version: str | None, *, stack: str
) -> pulumi.Output[list[Rule]]:
    """Return the stack's rules and those rules of the live release that an HPA still reads.

    Warns where the run replaces the release.

    Args:
        look: at the cluster.
        kubeconfig: of a cluster that has passed the preflight; a secret.
        rules: of the settings.
        chart_version: of the chart to install; None: unknown.
        stack: the name that the stack writes on its release, such as `ackgpu/dev`.
    """

    async def find(content: str) -> list[Rule]:
        try:
            live = (await look.at(content)).adapter
        # The preflight has warned.
        except UnreachableError:
            return list(rules)
        if live.error:
            pulumi.log.warn(f"Could not read the adapter's live release: {live.error}.")
            return list(rules)
        for path in live.hidden:
            pulumi.log.warn(
                f"Could not check which rules of the adapter are still in use: the credential may not list {path}."
            )
        for warning in changes(live.release, chart_version, stack):
            pulumi.log.warn(warning)
        kept = rules_to_keep(live.rules, live.hpas, rules)
        for rule in kept:
            pulumi.log.info(
                f"The adapter keeps its rule of {rule.metric} although the settings no longer have it: an HPA reads it "
                f"({', '.join(rule.readers)}). `pulumi up` removes the rule once no HPA reads it."
            )
        return with_kept(rules, live.rules, kept)

    return pulumi.Output.unsecret(kubeconfig.apply(find))


def changes(release: HelmRelease | None, chart_version: str | None, stack: str) -> Iterator[str]:
    """Yield a warning where the run replaces this stack's release, or a killed run left it unfinished."""
    if release is None or stack_of_release(release) != stack:
        return
    if release.status.startswith(("pending-", "uninstalling")):
        yield (
            f"The adapter's release is {release.status} since {release.changed:%Y-%m-%d %H:%M} UTC: a run was killed, "
            "or still runs elsewhere. The next `up` that changes the release cleans up after it, at the latest "
            f"{INSTALLATION_SECONDS} s after it began. If nothing else changes, run `{REPLACE_ADAPTER}`."
        )
    if chart_version and release.version != chart_version:
        yield (
            f"The adapter's chart changes from {release.version} to {chart_version}. As its vendor asks, the release "
            "is uninstalled and then installed. Meanwhile there are no GPU metrics: HPAs that use them pause and "
            "replicas stay as they are."
        )


def clear_leftover(kubeconfig: pulumi.Output[str], *, stack: str) -> BeforeChange:
    """Return a hook that deletes what a killed run left of this stack's release, before it is installed or updated.

    Helm would refuse the name of an installation that Pulumi's state does not have, and any change after an update
    that has not ended. The hook keeps a release that somebody else installed, and Helm refuses.
    """

    async def clear(change: pulumi.ResourceHookArgs) -> None:
        content = await kubeconfig.future()
        assert content is not None, "known before anything is made in the cluster"
        remove = drop_pending_update if change.old_inputs else uninstall
        try:
            if await asyncio.to_thread(remove, content, stack):
                pulumi.log.info("Removed the leftovers of an interrupted install of the adapter.")
        # Helm itself reports what is in its way.
        except (UnreachableError, HelmReleaseError) as error:
            subject = "the cluster " if isinstance(error, UnreachableError) else ""
            pulumi.log.warn(f"Could not check for leftovers of an interrupted install: {subject}{error}.")

    return clear
