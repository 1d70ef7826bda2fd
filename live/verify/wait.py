"""Waits until every HPA of a stack reads its metric."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from live.cluster_client import ClusterClient, UnreachableError, connected
from live.verify.checks import broken_link
from live.verify.outputs import StackOutputs

_INTERVAL_SECONDS = 1.0


class NotProvenError(Exception):
    """The time is over and a link is still broken; the message is a sentence on that link."""


async def wait_until_proven(
    outputs: StackOutputs, kubeconfig: str, seconds: float, report: Callable[[str], None]
) -> None:
    """Look each second until each HPA is `ScalingActive` with a reading.

    Args:
        outputs: of the stack.
        kubeconfig: content, not path; a secret.
        seconds: how long to wait.
        report: gets a sentence on the broken link, each time another link is broken.

    Raises:
        NotProvenError: the time is over, or the kubeconfig can't be used.
    """
    try:
        with connected(kubeconfig) as client:
            deadline = time.monotonic() + seconds
            reported = None
            while sentence := await asyncio.to_thread(_broken, outputs, client):
                if time.monotonic() > deadline:
                    raise NotProvenError(sentence)
                if sentence != reported:
                    report(sentence)
                    reported = sentence
                await asyncio.sleep(_INTERVAL_SECONDS)
    except UnreachableError as error:
        raise NotProvenError(f"The cluster {error}.") from None


def _broken(outputs: StackOutputs, client: ClusterClient) -> str | None:
    try:
        link = broken_link(outputs, client)
    except UnreachableError as error:
        return f"The cluster {error}."
    return f"{link.name}: {link.observed}." if link else None
