"""`./ackgpu adopt`: takes live resources over into a stack.

Finds them, says what that means for the settings, and writes files for `pulumi import`. Nothing is changed in the
account, in the cluster or in the stack's state.
"""

from __future__ import annotations

import click

from commands.command_line import examples, explained, stack_option


@click.command(epilog=examples("adopt --stack dev", "adopt --stack dev --write"))
@stack_option
@click.option("--write", is_flag=True, help="Also change the stack's settings file.")
def adopt(stack: str, write: bool) -> None:
    """Take over live resources into a stack, as they are.

    Looks for the resources that the settings name, prints which settings keep them as they are and what `pulumi up`
    would change, and writes the files for `pulumi import`. Changes nothing in the account or in the cluster.
    """
    from autoscaling.settings import SettingsError
    from commands.adopt.adoption import adopt_live
    from commands.adopt.proposal import AdoptionError
    from commands.pulumi_cli import PulumiError
    from live.helm_release import HelmReleaseError

    with explained(AdoptionError, HelmReleaseError, PulumiError, SettingsError):
        adopt_live(stack, write=write)
