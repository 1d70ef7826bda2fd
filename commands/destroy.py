"""`python -m commands.destroy --stack dev`: whether a stack may go: no other uses it, and it is not protected."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi import automation

from commands import CHECKOUT
from commands.kubeconfig import current_kubeconfig
from commands.throwaway import AskError
from live.adapter_release import hpas_of_all
from live.cluster_client import Object, UnreachableError, connected
from live.platform_users import users_of

_CLUSTER = "alicloud:cs/managedKubernetes:ManagedKubernetes"


class RefusedError(Exception):
    """Why the stack must not be destroyed."""


def require_unprotected(stack: automation.Stack) -> None:
    """Say by which setting a protected cluster can go; Pulumi's own words would have the state edited.

    Raises:
        RefusedError: the stack has made a cluster, and protects it.
    """
    deployment = stack.export_stack().deployment or {}
    if any(one["type"] == _CLUSTER and one.get("protect") for one in deployment.get("resources") or ()):
        raise RefusedError(
            "nothing was destroyed, since the cluster of this stack is protected: set "
            "cluster.create.deletionProtection to false, run `pulumi up`, and then `make destroy` again."
        )


def require_no_users(stack: automation.Stack) -> None:
    """Look at the stack's cluster with a new credential, for the one in the state may have expired.

    Raises:
        RefusedError: services of others use the platform of the stack, or that can't be told.
    """
    outputs = {name: output.value for name, output in stack.outputs().items()}
    # A stack without a platform of its own, or one that never came so far.
    if "platform" not in outputs or "clusterId" not in outputs:
        return
    project = stack.workspace.project_settings().name
    name = f"{project}/{stack.name.rpartition('/')[2]}"
    try:
        users = list(users_of(outputs["metrics"], _autoscalers(outputs), name))
    except (AskError, UnreachableError) as error:
        reason = f"the cluster {error}" if isinstance(error, UnreachableError) else str(error).rstrip(".")
        raise RefusedError(
            "nothing was destroyed, since it can't be told whether services of other stacks use this platform: "
            f"{reason}. Where none does, `pulumi destroy` goes ahead without asking."
        ) from None
    if users:
        raise RefusedError(
            "\n".join(["nothing was destroyed, since this platform is in use: destroy or move these first.", *users])
        )


def _autoscalers(outputs: Mapping[str, Any]) -> Sequence[Object]:
    kubeconfig = current_kubeconfig(outputs["clusterId"], outputs["platform"])
    with connected(kubeconfig) as client:
        found = hpas_of_all(client)
    if client.hidden:
        raise UnreachableError("lets the credential list no HPAs")
    return found


def main() -> int:
    """0 where the stack may be destroyed; else 1, with the reason."""
    parser = argparse.ArgumentParser(prog="python -m commands.destroy", description="Ask before a stack is destroyed.")
    parser.add_argument("--stack", required=True, help="name of the stack")
    arguments = parser.parse_args()
    if shutil.which("pulumi") is None:
        print(
            "pulumi is not on PATH: install it, or `source build/rehearsal/cloud/env.sh` on a rehearsal.",
            file=sys.stderr,
        )
        return 1
    try:
        stack = automation.select_stack(arguments.stack, work_dir=str(CHECKOUT))
        require_no_users(stack)
        require_unprotected(stack)
    except automation.StackNotFoundError:
        print(f"There is no stack {arguments.stack}: see `pulumi stack ls`.", file=sys.stderr)
    except automation.CommandError as error:
        print(str(error).strip().splitlines()[-1], file=sys.stderr)
    except RefusedError as error:
        print(error, file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
