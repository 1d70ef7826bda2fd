"""A stack that is up: its outputs, and the way into its cluster."""

from __future__ import annotations

import json

from commands.pulumi_cli import answer_of, reasons
from live.checks.outputs import StackOutputs
from live.cluster_client import ClusterClient, UnreachableError, connected
from live.kubeconfig import read_kubeconfig


class NoAccessError(Exception):
    """The stack's outputs can't be read, or there is no credential for its cluster; the message is one sentence."""


def stack_outputs(stack: str) -> StackOutputs:
    """Read the outputs of a stack.

    Raises:
        NoAccessError: there is no such stack, or its state can't be read.
        OutputsError: it has none.
        PulumiError: pulumi is not on PATH.
    """
    result = answer_of("stack", "output", "--json", "--stack", stack)
    if result.returncode:
        reason = reasons(result.stderr)[0].rstrip(".")
        raise NoAccessError(f"The outputs of stack {stack} can't be read: {reason}.")
    return StackOutputs.of(stack, json.loads(result.stdout))


def stack_client(outputs: StackOutputs) -> ClusterClient:
    """Connect to the stack's cluster with the credential in KUBECONFIG, at the endpoint that the stack uses.

    Raises:
        NoAccessError: KUBECONFIG has no credential that can be used.
    """
    try:
        return connected(read_kubeconfig(), outputs.api_server)
    except UnreachableError as error:
        raise NoAccessError(f"The cluster {error}: set KUBECONFIG to a kubeconfig of the stack's cluster.") from None
