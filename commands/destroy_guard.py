"""Checks before a stack is destroyed: no other stack uses it, and its cluster is not protected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi import automation

from autoscaling.settings.engine_config import PROJECT
from commands import CHECKOUT
from commands.account_query import current_kubeconfig
from commands.command_line import CommandError
from commands.pulumi_cli import PulumiError, error_messages
from live.adapter_release import all_hpas
from live.cluster_client import Object, UnreachableError, connected
from live.other_owners import platform_users

_CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"


def require_destroyable(name: str) -> None:
    """Refuse to destroy a stack that other stacks use or a protected cluster.

    Raises:
        CommandError: other stacks use the stack's platform, or its cluster is protected.
    """
    # `select_stack` would change the user's selected stack.
    workspace = automation.LocalWorkspace(work_dir=str(CHECKOUT))
    try:
        require_no_users(name, {key: output.value for key, output in workspace.stack_outputs(name).items()})
        require_unprotected(workspace.export_stack(name))
    except automation.StackNotFoundError:
        raise CommandError(f"Stack {name} does not exist. List the stacks with `pulumi stack ls`.") from None
    except automation.CommandError as error:
        raise CommandError(f"Nothing was destroyed: {error_messages(str(error))[0]}") from None


def require_unprotected(state: automation.Deployment) -> None:
    """Refuse a protected cluster and name the setting; Pulumi's own message suggests editing the state.

    Raises:
        CommandError: the stack created its cluster and protects it.
    """
    resources = (state.deployment or {}).get("resources") or ()
    if any(entry["type"] == _CLUSTER and entry.get("protect") for entry in resources):
        raise CommandError(
            "Nothing was destroyed: the cluster of this stack is protected. Set cluster.create.deletionProtection to "
            "false, run `pulumi up`, then run `./ackgpu destroy` again."
        )


def require_no_users(stack: str, outputs: Mapping[str, Any]) -> None:
    """Check the cluster with a new credential, because the credential in the state may have expired.

    Raises:
        CommandError: other stacks use this platform, or the check failed.
    """
    # The stack has no platform of its own, or `up` failed before it created one.
    if "platform" not in outputs or "clusterId" not in outputs:
        return
    try:
        own = f"{PROJECT}/{stack.rpartition('/')[2]}"
        users = list(platform_users(outputs["metrics"], _autoscalers(outputs), own))
    except (PulumiError, UnreachableError) as error:
        reason = f"the cluster {error}" if isinstance(error, UnreachableError) else str(error).rstrip(".")
        raise CommandError(
            f"Nothing was destroyed: could not check whether other stacks use this platform: {reason}. "
            "If no other stack uses it, run `pulumi destroy`, which does not check this."
        ) from None
    if users:
        raise CommandError(
            "\n".join(["Nothing was destroyed: this platform is in use. First destroy or move these:", *users])
        )


def _autoscalers(outputs: Mapping[str, Any]) -> Sequence[Object]:
    kubeconfig = current_kubeconfig(outputs["clusterId"], outputs["platform"])
    with connected(kubeconfig) as client:
        found = all_hpas(client)
    if client.forbidden:
        raise UnreachableError("does not let the credential list HPAs")
    return found
