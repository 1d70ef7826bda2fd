"""`./ackgpu verify`: the checks of a live stack, one by one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from commands.command_line import CommandError, examples, explained, stack_option

if TYPE_CHECKING:
    from live.cluster_client import ClusterClient
    from live.verify import StackOutputs, Step

_LOAD = ("-n", "10000", "-c", "200")
"""The guide's load."""


@click.command(epilog=examples("verify --stack dev", "verify --stack dev --load"))
@stack_option
@click.option("--load", is_flag=True, help="Also put the guide's load on each service, with hey.")
def verify(stack: str, load: bool) -> int:
    """Check a live stack, link by link.

    From the GPU exporter to the reading of each HPA. Takes its credential for the cluster from KUBECONFIG. Exit code:
    0 where all checks hold, 1 where one fails, 2 where they could not be made.
    """
    from commands.pulumi_cli import PulumiError
    from live.cluster_client import UnreachableError
    from live.verify import OutputsError, print_step

    hey, failed = _hey() if load else None, 0
    with explained(PulumiError, OutputsError, exit_code=2):
        outputs = _outputs(stack)
    client = _client(outputs)
    try:
        for index, step in enumerate(_steps(outputs, client, hey), start=1):
            print_step(index, step)
            failed += not step.ok
    except UnreachableError as error:
        raise CommandError(f"The cluster {error}: check KUBECONFIG and the network.", exit_code=2) from None
    print("all steps passed" if not failed else f"{failed} step(s) failed")
    return 1 if failed else 0


def _hey() -> str:
    hey = shutil.which("hey")
    if hey is None:
        raise CommandError("hey is not on PATH, and --load needs it: install github.com/rakyll/hey.", exit_code=2)
    return hey


def _outputs(stack: str) -> StackOutputs:
    from commands.pulumi_cli import answer_of, reasons
    from live.verify import StackOutputs

    result = answer_of("stack", "output", "--json", "--stack", stack)
    if result.returncode:
        reason = reasons(result.stderr)[0].rstrip(".")
        raise CommandError(f"The outputs of stack {stack} can't be read: {reason}.", exit_code=2)
    return StackOutputs.of(stack, json.loads(result.stdout))


def _client(outputs: StackOutputs) -> ClusterClient:
    """The stack's cluster with the credential in KUBECONFIG, at the endpoint that the stack uses."""
    from live.cluster_client import UnreachableError, connected
    from live.kubeconfig import read_kubeconfig

    try:
        return connected(read_kubeconfig(), outputs.api_server)
    except UnreachableError as error:
        sentence = f"The cluster {error}: set KUBECONFIG to a kubeconfig of the stack's cluster."
        raise CommandError(sentence, exit_code=2) from None


def _steps(outputs: StackOutputs, client: ClusterClient, hey: str | None) -> Iterator[Step]:
    from live.verify import LoadWalk, Step, check_stack

    held = True
    for step in check_stack(outputs, client):
        held = held and step.ok
        yield step
    if hey is None:
        return
    if not held:
        yield Step("load", "all checks pass first", "not started: a check failed", False)
        return
    for service in outputs.services:
        load = f"hey {' '.join(_LOAD)} {service.predict_url}"
        print(f"as soon as {service.namespace}/{service.name} is idle: {load}")
        walk = LoadWalk(service, client, [hey, *_LOAD, service.predict_url])
        yield from walk.under_load()
        yield walk.after_load()
