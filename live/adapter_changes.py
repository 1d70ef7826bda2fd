"""Changes of a run to the adapter's release: warnings at preview, rules to keep, leftovers to delete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

import pulumi

from autoscaling.ack.versions import ADAPTER_NAME, ADAPTER_NAMESPACE, REPLACE_ADAPTER
from autoscaling.metrics.adapter_rules import Rule
from live.adapter_release import INSTALLATION_SECONDS, drop_pending_update, stack_of_release, uninstall
from live.cluster_client import UnreachableError
from live.helm_release import HelmRelease, HelmReleaseError
from live.kept_rules import insert_kept, rules_to_keep
from live.preflight import SharedSnapshot

BeforeChange = Callable[[pulumi.ResourceHookArgs], Awaitable[None] | None]


def rules_for_this_run(
    snapshot: SharedSnapshot,
    kubeconfig: pulumi.Output[str],
    rules: Sequence[Rule],
    chart_version: str | None,
    *,
    stack: str,
) -> pulumi.Output[list[Rule]]:
    """Return the stack's rules, and the live release's rules that an HPA still reads.

    Warn if the run replaces the release.

    Args:
        snapshot: the shared snapshot of the cluster.
        kubeconfig: kubeconfig of a cluster that has passed preflight; a secret.
        rules: rules from the settings.
        chart_version: version of the chart to install, or None if unknown.
        stack: name of the stack on its release, such as `ackgpu/dev`.
    """

    async def find(content: str) -> list[Rule]:
        try:
            live = (await snapshot.get(content)).adapter
        # The preflight has already warned.
        except UnreachableError:
            return list(rules)
        if live.error:
            pulumi.log.warn(
                f"Could not read the adapter's live release: {live.error}. HPAs that read a removed rule may pause. "
                f"Check the release with `helm history {ADAPTER_NAME} -n {ADAPTER_NAMESPACE}`."
            )
            return list(rules)
        for path in live.forbidden:
            pulumi.log.warn(
                f"Could not check which rules of the adapter are still in use: the credential may not list {path}. "
                "Grant the credential this permission."
            )
        for warning in changes(live.release, chart_version, stack):
            pulumi.log.warn(warning)
        kept = rules_to_keep(live.rules, live.hpas, rules)
        for rule in kept:
            pulumi.log.info(
                f"The adapter keeps its rule for {rule.metric}, although the rule is no longer in the settings, "
                f"because these HPAs still read the metric: {', '.join(rule.readers)}. `pulumi up` removes the rule "
                "once no HPA reads the metric."
            )
        return insert_kept(rules, live.rules, kept)

    return pulumi.Output.unsecret(kubeconfig.apply(find))


def changes(release: HelmRelease | None, chart_version: str | None, stack: str) -> Iterator[str]:
    """Yield a warning if the run replaces this stack's release, or if a killed run left it unfinished."""
    if release is None or stack_of_release(release) != stack:
        return
    if release.status.startswith(("pending-", "uninstalling")):
        yield (
            f"The adapter's release has been {release.status} since {release.changed:%Y-%m-%d %H:%M} UTC: a run was "
            "killed, or is still running elsewhere. The next `pulumi up` that changes the release waits until "
            f"that run is {INSTALLATION_SECONDS} s old, and then cleans up after it. To clean up without another "
            f"change, run `{REPLACE_ADAPTER}`."
        )
    if chart_version and release.version != chart_version:
        yield (
            f"The adapter's chart changes from {release.version} to {chart_version}. `pulumi up` uninstalls "
            "the release and installs it again, as the vendor requires. Meanwhile, GPU metrics are unavailable: HPAs "
            "that use these metrics pause, and replicas stay as they are."
        )


def clear_leftover(kubeconfig: pulumi.Output[str], *, stack: str) -> BeforeChange:
    """Return a hook that cleans up after a killed run, before this stack's release is installed or updated.

    Helm refuses to install under a name in use, and to change a release whose update has not ended. The hook keeps a
    release that another owner installed; Helm then fails.
    """

    async def clear(change: pulumi.ResourceHookArgs) -> None:
        content = await kubeconfig.future()
        assert content is not None, "the kubeconfig must be known before the cluster is changed"
        remove = drop_pending_update if change.old_inputs else uninstall
        try:
            if await asyncio.to_thread(remove, content, stack):
                pulumi.log.info("Removed the leftovers of an interrupted install of the adapter.")
        # Helm fails next, and reports the reason.
        except (UnreachableError, HelmReleaseError) as error:
            subject = "the cluster " if isinstance(error, UnreachableError) else ""
            pulumi.log.warn(f"Could not check for leftovers of an interrupted install: {subject}{error}.")

    return clear
