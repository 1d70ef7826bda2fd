"""A kubeconfig from the account, as the program gets its own: for commands that can't rest on one that may be old."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

import pulumi
from pulumi import automation

from components.cluster import AckCluster, AckClusterArgs

_PROJECT = "kubeconfig"


class KubeconfigError(Exception):
    """There is none to be had; the message is a phrase without a secret."""


def current_kubeconfig(cluster_id: str, region: str) -> str:
    """Ask the account for a kubeconfig of a cluster, by a preview of a program that does only that.

    Nothing is made or kept: the preview's backend is a folder that goes with it.

    Returns:
        The content; a secret.

    Raises:
        KubeconfigError: the account has no such cluster or kubeconfig, or the engine can't run.
    """
    got: list[str] = []

    def program() -> None:
        account = pulumi.ResourceOptions(providers=[alicloud.Provider("alicloud", region=region)])
        cluster = AckCluster("cluster", AckClusterArgs(cluster_id=cluster_id, region=region), account)
        cluster.kubeconfig.apply(got.append)

    import pulumi_alicloud as alicloud

    with tempfile.TemporaryDirectory(prefix="ackgpu-") as folder:
        backend = Path(folder) / "backend"
        backend.mkdir()
        variables = {
            "PULUMI_BACKEND_URL": f"file://{backend}",
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(16),
        }
        try:
            stack = automation.create_stack(
                stack_name="current",
                project_name=_PROJECT,
                program=program,
                opts=automation.LocalWorkspaceOptions(work_dir=folder, env_vars=variables),
            )
            stack.preview(color="never")
        except automation.CommandError as error:
            lines = [line.strip() for line in str(error).splitlines()]
            reason = next((line for line in lines if line.startswith("error:")), "error: see `pulumi preview`")
            raise KubeconfigError(reason.removeprefix("error:").strip().rstrip(".")) from None
    if not got:
        raise KubeconfigError("the preview that asks for it gave none")
    return got[0]
