"""Account queries: the engine previews a read-only program on a temporary state."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
from pulumi import automation
from pulumi_alicloud.cs.outputs import GetKubernetesNodePoolsNodepoolResult

from autoscaling.settings import Settings
from commands.pulumi_cli import PulumiError, error_messages, temporary_folder
from components.cluster import AckCluster, AckClusterArgs
from program.args import cluster_args


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account's resources for the stack's cluster."""

    kubeconfig: str = field(repr=False)
    vswitch_ids: Sequence[str]
    """The vSwitches of the cluster."""
    prometheus: str | None = field(repr=False)
    """Address of the cluster's Prometheus instance, a secret. None without an instance."""
    pools: Sequence[GetKubernetesNodePoolsNodepoolResult]


Answers = Mapping[str, pulumi.Output[Any]]


def _query(program: Callable[[], Answers]) -> dict[str, Any]:
    """Preview a program in this process and return the values of its answers.

    Raises:
        PulumiError: the program failed or the engine could not run it.
    """
    values: dict[str, Any] = {}

    def query_all() -> None:
        # Output.all would turn the SDK's classes into plain dictionaries.
        for name, answer in program().items():
            answer.apply(partial(values.__setitem__, name))

    with temporary_folder() as folder:
        backend = folder / "backend"
        backend.mkdir()
        variables = {
            "PULUMI_BACKEND_URL": f"file://{backend}",
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(16),
            "TMPDIR": str(folder),
        }
        options = automation.LocalWorkspaceOptions(work_dir=str(folder), env_vars=variables)
        try:
            stack = automation.create_stack("query", "query", query_all, opts=options)
            stack.preview(color="never")
        except automation.CommandError as error:
            raise PulumiError("\n".join(error_messages(str(error)))) from None
    return values


def current_kubeconfig(cluster_id: str, platform: Mapping[str, Any]) -> str:
    """Request the cluster's kubeconfig from the account. The result is a secret.

    `platform` is an output of the cluster's stack.

    Raises:
        PulumiError: the cluster or its kubeconfig does not exist, or the engine could not run.
    """
    args = AckClusterArgs(
        cluster_id=cluster_id,
        region=platform["region"],
        api_endpoint=platform.get("cluster", {}).get("apiEndpoint", "internet"),
    )

    def program() -> Answers:
        account = pulumi.ResourceOptions(providers=[alicloud.Provider("account", region=platform["region"])])
        return {"kubeconfig": AckCluster("cluster", args, account).kubeconfig}

    return str(_query(program)["kubeconfig"])


def read_account(settings: Settings) -> Account:
    """Read the account's resources for the stack's cluster.

    Raises:
        PulumiError: the cluster or the credential is missing, or the account can't be reached.
    """
    args = cluster_args(settings.cluster, settings.region)

    def program() -> Answers:
        account = alicloud.Provider("account", region=settings.region)
        cluster = AckCluster("cluster", args, pulumi.ResourceOptions(providers=[account]))
        options = pulumi.InvokeOutputOptions(provider=account)
        pools = alicloud.cs.get_kubernetes_node_pools_output(cluster_id=cluster.cluster_id, opts=options)
        prometheus = alicloud.arms.get_prometheus_output(
            ids=cluster.cluster_id.apply(lambda cluster_id: [cluster_id]), enable_details=True, opts=options
        )
        return {
            "kubeconfig": cluster.kubeconfig,
            "vswitch_ids": cluster.vswitch_ids,
            "pools": pools.nodepools,
            "instances": prometheus.prometheis,
        }

    answers = _query(program)
    addresses = {instance.cluster_id: instance.http_api_intra_url for instance in answers.pop("instances")}
    return Account(prometheus=addresses.get(settings.cluster.id), **answers)
