"""Check that ACK's GPU exporter runs on each GPU node."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from typing import NamedTuple

from autoscaling.ack.taints import Taint, blocking_taints, format_taint, tolerations
from autoscaling.ack.versions import EXPORTER_NAME, EXPORTER_NAMESPACE
from live.cluster_client import Object
from live.verify.cluster_reader import BrokenLinkError, ClusterReader

EXPORTER = f"{EXPORTER_NAMESPACE}/{EXPORTER_NAME}"

_LISTED = 3
"""Maximum number of nodes in a sentence."""


class _Rule(NamedTuple):
    """A taint or a toleration."""

    key: str
    value: str | None
    effect: str
    operator: str | None


def missing_exporter(cluster: ClusterReader, node_pool: str, nodes: Collection[str] = ()) -> str | None:
    """Return which nodes lack an exporter, why, and what to do; None if no node lacks it.

    Args:
        cluster: the reader of the cluster.
        node_pool: ID of the pool whose GPU nodes need the exporter.
        nodes: names of the nodes to check; empty: all nodes of the pool.

    Raises:
        BrokenLinkError: the exporter's DaemonSet does not exist.
    """
    wanted = [node for node in cluster.gpu_nodes(node_pool) if not nodes or node["metadata"]["name"] in nodes]
    try:
        daemon_set = cluster.daemon_set(EXPORTER_NAME, EXPORTER_NAMESPACE)
    except BrokenLinkError as error:
        raise BrokenLinkError(
            f"no exporter: DaemonSet {EXPORTER} was not found ({error}). Turn on GPU monitoring for the cluster, or "
            "set metricsAdapter.labels if you run another exporter"
        ) from None
    pods = {pod.node: pod for pod in cluster.pods_of(daemon_set)}
    ready = {node for node, pod in pods.items() if pod.ready}
    uncovered = {node["metadata"]["name"]: node for node in wanted if node["metadata"]["name"] not in ready}
    if not uncovered:
        return None
    names = list(uncovered)
    rest = len(names) - _LISTED
    where = f"no exporter runs on {', '.join(names[:_LISTED])}" + (f" and {rest} more" if rest > 0 else "")
    tolerated = daemon_set["spec"]["template"]["spec"].get("tolerations") or []
    taints = {
        format_taint(taint): taint
        for node in uncovered.values()
        for taint in blocking_taints(_rules(node["spec"].get("taints") or ()), _rules(tolerated))
    }
    if taints:
        return (
            f"{where}: DaemonSet {EXPORTER} does not tolerate the taint{'' if len(taints) == 1 else 's'} "
            f"{', '.join(taints)}; to add the toleration, run `{_command(list(taints.values()), tolerated)}`"
        )
    pod = pods.get(names[0])
    if pod is None:
        return (
            f"{where}: DaemonSet {EXPORTER} has no pod on {names[0]}; `kubectl describe daemonset {EXPORTER_NAME} "
            f"-n {EXPORTER_NAMESPACE}` shows why"
        )
    return (
        f"{where}: the exporter's pod {EXPORTER_NAMESPACE}/{pod.name} is not Ready ({pod.reason}); `kubectl describe "
        f"pod {pod.name} -n {EXPORTER_NAMESPACE}` shows why"
    )


def _rules(entries: Sequence[Object]) -> list[_Rule]:
    return [_Rule._make(entry.get(part) for part in _Rule._fields) for entry in entries]


def _command(taints: Sequence[Taint], tolerated: Sequence[Object]) -> str:
    # A patch replaces the whole list.
    patch = {"spec": {"template": {"spec": {"tolerations": [*tolerated, *tolerations(taints)]}}}}
    return f"kubectl patch daemonset -n {EXPORTER_NAMESPACE} {EXPORTER_NAME} -p {shlex.quote(json.dumps(patch))}"
