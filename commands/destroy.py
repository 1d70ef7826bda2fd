"""`./ackgpu destroy`: delete a stack's resources, unless other stacks use them."""

from __future__ import annotations

import click

from commands.command_line import examples, explained, stack_option, yes_option


@click.command(epilog=examples("destroy --stack dev", "destroy --stack dev --yes"))
@stack_option
@yes_option
def destroy(stack: str, yes: bool) -> int:
    """Delete a stack's resources.

    Runs `pulumi destroy` with a new cluster credential, because the credential in the state may have expired. Refuses
    while other stacks use this platform or the cluster is protected.
    """
    from commands.destroy_guard import require_destroyable
    from commands.pulumi_cli import PulumiError, require_pulumi, with_new_credential

    with explained(PulumiError):
        require_pulumi()
        require_destroyable(stack)
        return with_new_credential("destroy", stack, yes=yes)
