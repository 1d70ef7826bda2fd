"""Waits until every HPA of a stack reads its metric."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable

import yaml
from kubernetes import client, config

from live.checks.checks import broken_link
from live.checks.cluster import ClusterError
from live.checks.outputs import StackOutputs

_INTERVAL_SECONDS = 1.0


class NotProvenError(Exception):
    """The time was over and a link still broken; the message is a sentence on that link."""


async def wait_until_proven(
    outputs: StackOutputs, kubeconfig: str, seconds: float, tell: Callable[[str], None]
) -> None:
    """Look each second until each HPA is `ScalingActive` with a reading.

    Args:
        outputs: of the stack.
        kubeconfig: content, not path; a secret. Its key is in a folder of the user's own meanwhile.
        seconds: how long to wait.
        tell: gets a sentence on the broken link, each time it is another one.

    Raises:
        NotProvenError: the time is over, or the kubeconfig can't be used.
    """
    # The client reads certificate and key from files only.
    with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
        try:
            api = config.new_client_from_config_dict(
                yaml.safe_load(kubeconfig), persist_config=False, temp_file_path=folder
            )
        # The loader trips in many ways over a file of another shape, and its words may have a part of the file.
        except Exception:
            raise NotProvenError("The kubeconfig of the cluster can't be used.") from None
        deadline = time.monotonic() + seconds
        told = None
        while sentence := await asyncio.to_thread(_broken, outputs, api):
            if time.monotonic() > deadline:
                raise NotProvenError(sentence)
            if sentence != told:
                tell(sentence)
                told = sentence
            await asyncio.sleep(_INTERVAL_SECONDS)


def _broken(outputs: StackOutputs, api: client.ApiClient) -> str | None:
    try:
        link = broken_link(outputs, api)
    except ClusterError as error:
        return str(error)
    return f"{link.name}: {link.observed}." if link else None
