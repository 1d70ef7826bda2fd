"""`./ackgpu refresh`: update a stack's state from its live resources."""

from __future__ import annotations

import click

from commands.command_line import examples, explained, stack_option, yes_option


@click.command(epilog=examples("refresh --stack dev", "refresh --stack dev --yes"))
@stack_option
@yes_option
def refresh(stack: str, yes: bool) -> int:
    """Update a stack's state from its live resources.

    Runs `pulumi refresh` with a new cluster credential, because the credential in the state may have expired.
    """
    from commands.pulumi_cli import PulumiError, with_new_credential

    with explained(PulumiError):
        return with_new_credential("refresh", stack, yes=yes)
