"""Wait until every HPA of a stack reads its metric."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from live.cluster_client import ClusterClient, UnreachableError, connected
from live.verify.checks import broken_link
from live.verify.outputs import StackOutputs

_INTERVAL_SECONDS = 1.0


class NoMetricsError(Exception):
    """The wait timed out. The message is a sentence about the broken link."""


async def wait_until_metrics_are_read(
    outputs: StackOutputs, kubeconfig: str, seconds: float, report: Callable[[str], None]
) -> None:
    """Poll every second until each HPA is `ScalingActive` with a reading.

    Args:
        outputs: outputs of the stack.
        kubeconfig: content, not path; a secret.
        seconds: timeout.
        report: called with a sentence whenever the first broken link changes.

    Raises:
        NoMetricsError: the wait timed out, or the kubeconfig can't be used.
    """
    try:
        with connected(kubeconfig) as client:
            deadline = time.monotonic() + seconds
            reported = None
            while sentence := await asyncio.to_thread(_broken_link, outputs, client):
                if time.monotonic() > deadline:
                    raise NoMetricsError(sentence)
                if sentence != reported:
                    report(sentence)
                    reported = sentence
                await asyncio.sleep(_INTERVAL_SECONDS)
    except UnreachableError as error:
        raise NoMetricsError(f"The cluster {error}.") from None


def _broken_link(outputs: StackOutputs, client: ClusterClient) -> str | None:
    try:
        link = broken_link(outputs, client)
    except UnreachableError as error:
        return f"The cluster {error}."
    return f"{link.name}: {link.observed}." if link else None
