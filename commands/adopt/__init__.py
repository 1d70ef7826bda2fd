"""`./ackgpu adopt`: adopt live resources into a stack.

Finds the resources, proposes settings and writes files for `pulumi import`. It changes nothing in the account, the
cluster or the stack's state.
"""

from __future__ import annotations

import click

from commands.command_line import examples, explained, stack_option


@click.command(epilog=examples("adopt --stack dev", "adopt --stack dev --write"))
@stack_option
@click.option("--write", is_flag=True, help="Also change the stack's settings file.")
def adopt(stack: str, write: bool) -> None:
    """Adopt live resources into a stack, as they are.

    Finds the resources that the settings name, prints the settings that keep them as they are and the changes that
    `pulumi up` would make, and writes files for `pulumi import`. Changes nothing in the account or the cluster.
    """
    from autoscaling.settings import SettingsError
    from commands.adopt.adoption import adopt_live
    from commands.adopt.proposal import AdoptionError
    from commands.pulumi_cli import PulumiError
    from live.helm_release import HelmReleaseError

    with explained(AdoptionError, HelmReleaseError, PulumiError, SettingsError):
        adopt_live(stack, write=write)
