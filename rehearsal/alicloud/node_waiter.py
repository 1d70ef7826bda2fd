"""Wait for the nodes of a node pool, as the vendor's provider does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from autoscaling.ack.node_labels import POOL_LABEL
from live.cluster_client import ClusterClient, UnreachableError, connected
from live.verify.cluster_reader import condition
from rehearsal.alicloud.node_pools import node_pools
from rehearsal.alicloud.store import NOT_RUNNING, CloudStore
from rehearsal.errors import RehearsalError

WaitForNodes = Callable[[str, int | None], None]
"""Waits until a pool, given by id, has this number of nodes; None: until a deleted pool has no nodes."""

_ROUND_SECONDS = 0.2


def node_waiter(kubeconfig: Path, store: CloudStore, cancelled: threading.Event, seconds: float = 120) -> WaitForNodes:
    """Return a function that waits for Ready nodes, and for the end of surplus nodes unless the pool autoscales.

    The function raises `RehearsalError` after `seconds` or when `cancelled` is set.
    """

    def wait(pool_id: str, count: int | None) -> None:
        minimum = count or 0
        autoscaling = any(pool.id == pool_id and pool.autoscaling for pool in node_pools(store.read()))
        try:
            client = connected(kubeconfig.read_text(encoding="utf-8"))
        except (OSError, UnreachableError):
            raise RehearsalError(NOT_RUNNING) from None
        deadline = time.monotonic() + seconds
        with client:
            while True:
                try:
                    nodes, ready = _count(client, pool_id)
                    if ready >= minimum and (autoscaling or nodes <= minimum):
                        return
                    state = f"it had {nodes} nodes, {ready} of them Ready"
                except UnreachableError:
                    state = "the cluster did not respond"
                if cancelled.wait(_ROUND_SECONDS) or time.monotonic() > deadline:
                    break
        when = "when the operation was cancelled" if cancelled.is_set() else f"after {seconds:g} s"
        raise RehearsalError(
            f"Node pool {pool_id} needs {'at least ' if autoscaling else ''}{minimum} Ready nodes, but {when} {state}. "
            f"Check `kubectl get nodes -l {POOL_LABEL}={pool_id}`, then run the `pulumi` command again."
        )

    return wait


def _count(client: ClusterClient, pool_id: str) -> tuple[int, int]:
    """Return the number of nodes in the pool, and how many of them are Ready."""
    nodes = client.list_objects(f"/api/v1/nodes?labelSelector={POOL_LABEL}={pool_id}")
    return len(nodes), sum(condition(node, "Ready").get("status") == "True" for node in nodes)
