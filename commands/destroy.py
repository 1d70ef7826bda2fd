"""`./ackgpu destroy`: delete what a stack has made, unless other stacks use it."""

from __future__ import annotations

import click

from commands.command_line import examples, explained, stack_option, yes_option


@click.command(epilog=examples("destroy --stack dev", "destroy --stack dev --yes"))
@stack_option
@yes_option
def destroy(stack: str, yes: bool) -> int:
    """Delete what a stack has made, unless others use it.

    As `pulumi destroy`, but refused while services of other stacks use this platform or the cluster is protected, and
    with a new credential for the cluster: the one that the last `up` left in the state may have expired.
    """
    from commands.destroy_guard import require_destroyable
    from commands.pulumi_cli import PulumiError, require_pulumi, with_new_credential

    with explained(PulumiError):
        require_pulumi()
        require_destroyable(stack)
        return with_new_credential("destroy", stack, yes=yes)
