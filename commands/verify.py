"""`python -m commands.verify --stack dev [--load]`: the checks, one by one, for people."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

from live.checks.checks import check_stack
from live.checks.load import LoadWalk
from live.checks.outputs import OutputsError, StackOutputs
from live.checks.steps import Step, print_step
from live.cluster_client import ClusterClient, UnreachableError, connected
from live.kubeconfig import read_kubeconfig

_LOAD = ("-n", "10000", "-c", "200")
"""The guide's load."""


class _UsageError(Exception):
    """One sentence; exit code 2."""


def _outputs(stack: str) -> StackOutputs:
    if shutil.which("pulumi") is None:
        raise _UsageError("pulumi is not on PATH: install it, or `source build/rehearsal/cloud/env.sh` on a rehearsal.")
    result = subprocess.run(
        ["pulumi", "stack", "output", "--json", "--stack", stack],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no reason given"]
        reason = next((line for line in lines if line.startswith("error:")), lines[-1]).removeprefix("error:").strip()
        raise _UsageError(f"The outputs of stack {stack} can't be read: {reason}.")
    return StackOutputs.of(stack, json.loads(result.stdout))


def _client(outputs: StackOutputs) -> ClusterClient:
    """Reach the cluster by the endpoint that the stack uses, whatever the kubeconfig's server is."""
    try:
        return connected(read_kubeconfig(), outputs.api_server)
    except UnreachableError as error:
        raise _UsageError(f"The cluster {error}: set KUBECONFIG to a kubeconfig of the stack's cluster.") from None


def _hey() -> str:
    hey = shutil.which("hey")
    if hey is None:
        raise _UsageError("hey is not on PATH, and --load needs it: github.com/rakyll/hey.")
    return hey


def _steps(outputs: StackOutputs, client: ClusterClient, hey: str | None) -> Iterator[Step]:
    held = True
    for step in check_stack(outputs, client):
        held = held and step.ok
        yield step
    if hey is None:
        return
    if not held:
        yield Step("the load", "a stack on which each check holds", "a check failed: no load was put on it", False)
        return
    for service in outputs.services:
        load = f"hey {' '.join(_LOAD)} {service.predict_url}"
        print(f"as soon as {service.namespace}/{service.name} is idle: {load}", flush=True)
        walk = LoadWalk(service, client, [hey, *_LOAD, service.predict_url])
        yield from walk.under_load()
        yield walk.after_load()


def main() -> int:
    """Print each step; 0 where all hold, 1 where one fails, 2 where they could not be made."""
    parser = argparse.ArgumentParser(prog="python -m commands.verify", description="Check a live stack.")
    parser.add_argument("--stack", required=True, help="name of the stack")
    parser.add_argument("--load", action="store_true", help="also put the guide's load on each service")
    arguments = parser.parse_args()
    # As Ctrl-C: a running load is ended on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        hey = _hey() if arguments.load else None
        outputs, failed = _outputs(arguments.stack), 0
        for index, step in enumerate(_steps(outputs, _client(outputs), hey), start=1):
            print_step(index, step)
            failed += not step.ok
    except (_UsageError, OutputsError) as error:
        print(error, file=sys.stderr)
        return 2
    except UnreachableError as error:
        print(f"The cluster {error}: check KUBECONFIG and the network.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print("all steps held" if not failed else f"{failed} step(s) failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
