"""Questions to the account: a program that only asks, previewed by the engine on a state that is thrown away."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
from pulumi import automation

from commands.pulumi_cli import PulumiError, reasons, scratch
from components.cluster import AckCluster, AckClusterArgs

Answers = Mapping[str, pulumi.Output[Any]]


def ask(program: Callable[[], Answers]) -> dict[str, Any]:
    """Preview a program in this process, and return the values of the answers that it returns.

    Raises:
        PulumiError: the program failed, or the engine can't run it.
    """
    values: dict[str, Any] = {}

    def ask_all() -> None:
        pulumi.Output.all(**program()).apply(values.update)

    with scratch() as folder:
        backend = folder / "backend"
        backend.mkdir()
        variables = {
            "PULUMI_BACKEND_URL": f"file://{backend}",
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(16),
            "TMPDIR": str(folder),
        }
        options = automation.LocalWorkspaceOptions(work_dir=str(folder), env_vars=variables)
        try:
            stack = automation.create_stack("question", "question", ask_all, opts=options)
            stack.preview(color="never")
        except automation.CommandError as error:
            raise PulumiError("\n".join(reasons(str(error)))) from None
    return values


def current_kubeconfig(cluster_id: str, platform: Mapping[str, Any]) -> str:
    """Ask the account for a kubeconfig, a secret, by the output `platform` of the cluster's stack.

    Raises:
        PulumiError: the account has no such cluster or kubeconfig, or the engine can't run.
    """
    args = AckClusterArgs(
        cluster_id=cluster_id,
        region=platform["region"],
        api_endpoint=platform.get("cluster", {}).get("apiEndpoint", "internet"),
    )

    def program() -> Answers:
        account = pulumi.ResourceOptions(providers=[alicloud.Provider("account", region=platform["region"])])
        return {"kubeconfig": AckCluster("cluster", args, account).kubeconfig}

    return str(ask(program)["kubeconfig"])
