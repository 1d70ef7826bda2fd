"""`./ackgpu refresh`: compare what a stack has made with its live resources."""

from __future__ import annotations

import click

from commands.command_line import examples, explained, stack_option, yes_option


@click.command(epilog=examples("refresh --stack dev", "refresh --stack dev --yes"))
@stack_option
@yes_option
def refresh(stack: str, yes: bool) -> int:
    """Compare what a stack has made with its live resources.

    As `pulumi refresh`, but with a new credential for the cluster: the one that the last `up` left in the state may
    have expired.
    """
    from commands.pulumi_cli import PulumiError, with_new_credential

    with explained(PulumiError):
        return with_new_credential("refresh", stack, yes=yes)
