"""A kubeconfig from the account, as the program gets its own: for commands that can't rest on one that may be old."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_alicloud as alicloud

from commands.throwaway import AskError, ask
from components.cluster import AckCluster, AckClusterArgs


def current_kubeconfig(cluster_id: str, platform: Mapping[str, Any]) -> str:
    """Ask the account for a kubeconfig of a cluster.

    Args:
        cluster_id: of the cluster.
        platform: what its stack exports under that name.

    Returns:
        The content; a secret.

    Raises:
        AskError: the account has no such cluster or kubeconfig, or the engine can't run.
    """
    got: list[str] = []
    args = AckClusterArgs(
        cluster_id=cluster_id,
        region=platform["region"],
        api_endpoint=platform.get("cluster", {}).get("apiEndpoint", "internet"),
    )

    def program() -> None:
        account = pulumi.ResourceOptions(providers=[alicloud.Provider("account", region=platform["region"])])
        AckCluster("cluster", args, account).kubeconfig.apply(got.append)

    ask(program)
    if not got:
        raise AskError(["the account was asked for a kubeconfig and gave none."])
    return got[0]
