"""Questions to the account: a program that only asks, previewed by the engine on a state that is thrown away."""

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
from commands.pulumi_cli import PulumiError, reasons, scratch
from components.cluster import AckCluster, AckClusterArgs
from program.args import cluster_args


@dataclass(frozen=True, kw_only=True)
class Account:
    """What belongs to the stack's cluster."""

    kubeconfig: str = field(repr=False)
    vswitch_ids: Sequence[str]
    """The cluster's own."""
    prometheus: str | None = field(repr=False)
    """Address of the cluster's instance, a secret; None: it has none."""
    pools: Sequence[GetKubernetesNodePoolsNodepoolResult]


Answers = Mapping[str, pulumi.Output[Any]]


def _ask(program: Callable[[], Answers]) -> dict[str, Any]:
    """Preview a program in this process, and return the values of the answers that it returns.

    Raises:
        PulumiError: the program failed, or the engine can't run it.
    """
    values: dict[str, Any] = {}

    def ask_all() -> None:
        # Not Output.all: it turns the SDK's classes into plain dictionaries.
        for name, answer in program().items():
            answer.apply(partial(values.__setitem__, name))

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

    return str(_ask(program)["kubeconfig"])


def look_at_account(settings: Settings) -> Account:
    """Ask the account for what belongs to the stack's cluster.

    Raises:
        PulumiError: there is no such cluster, no credential, or no way to the account.
    """
    args = cluster_args(settings.cluster, settings.region)

    def program() -> Answers:
        account = alicloud.Provider("account", region=settings.region)
        cluster = AckCluster("cluster", args, pulumi.ResourceOptions(providers=[account]))
        asked = pulumi.InvokeOutputOptions(provider=account)
        pools = alicloud.cs.get_kubernetes_node_pools_output(cluster_id=cluster.cluster_id, opts=asked)
        prometheus = alicloud.arms.get_prometheus_output(
            ids=cluster.cluster_id.apply(lambda cluster_id: [cluster_id]), enable_details=True, opts=asked
        )
        return {
            "kubeconfig": cluster.kubeconfig,
            "vswitch_ids": cluster.vswitch_ids,
            "pools": pools.nodepools,
            "instances": prometheus.prometheis,
        }

    answers = _ask(program)
    addresses = {instance.cluster_id: instance.http_api_intra_url for instance in answers.pop("instances")}
    return Account(prometheus=addresses.get(settings.cluster.id), **answers)
