"""`./ackgpu verify`: check a live stack step by step."""

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
"""The load from the guide."""


@click.command(epilog=examples("verify --stack dev", "verify --stack dev --load"))
@stack_option
@click.option("--load", is_flag=True, help="Also run the guide's load test on each service, with hey.")
def verify(stack: str, load: bool) -> int:
    """Check a live stack step by step.

    Follows the metrics from the GPU exporter to each HPA. Uses the cluster credential in KUBECONFIG. Exit code: 0 if
    all checks pass, 1 if a check fails, 2 if the checks could not run.
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
        raise CommandError(f"The cluster {error}. Check KUBECONFIG and the network.", exit_code=2) from None
    print("all steps passed" if not failed else f"{failed} step(s) failed")
    return 1 if failed else 0


def _hey() -> str:
    hey = shutil.which("hey")
    if hey is None:
        raise CommandError("--load needs hey, which is not on PATH. Install github.com/rakyll/hey.", exit_code=2)
    return hey


def _outputs(stack: str) -> StackOutputs:
    from commands.pulumi_cli import error_messages, run_pulumi
    from live.verify import StackOutputs

    result = run_pulumi("stack", "output", "--json", "--stack", stack)
    if result.returncode:
        reason = error_messages(result.stderr)[0].rstrip(".")
        raise CommandError(f"Could not read the outputs of stack {stack}: {reason}.", exit_code=2)
    return StackOutputs.of(stack, json.loads(result.stdout))


def _client(outputs: StackOutputs) -> ClusterClient:
    """Connect with the credential in KUBECONFIG to the API server endpoint that the stack uses."""
    from live.cluster_client import UnreachableError, connected
    from live.kubeconfig import read_kubeconfig

    try:
        return connected(read_kubeconfig(), outputs.api_server)
    except UnreachableError as error:
        message = f"The cluster {error}. Set KUBECONFIG to a kubeconfig of the stack's cluster."
        raise CommandError(message, exit_code=2) from None


def _steps(outputs: StackOutputs, client: ClusterClient, hey: str | None) -> Iterator[Step]:
    from live.verify import LoadTest, Step, check_stack

    passed = True
    for step in check_stack(outputs, client):
        passed = passed and step.ok
        yield step
    if hey is None:
        return
    if not passed:
        yield Step("load", "all checks pass first", "not started: a check failed", False)
        return
    for service in outputs.services:
        load = f"hey {' '.join(_LOAD)} {service.predict_url}"
        print(f"once {service.namespace}/{service.name} is idle: {load}")
        load_test = LoadTest(service, client, [hey, *_LOAD, service.predict_url])
        yield from load_test.under_load()
        yield load_test.after_load()
