"""`./ackgpu check`: check a stack's settings without Pulumi or the cloud."""

from __future__ import annotations

import click

from commands.command_line import examples, explained, stack_file, stack_option


@click.command(epilog=examples("check --stack dev"))
@stack_option
def check(stack: str) -> None:
    """Check a stack's settings without Pulumi or the cloud.

    Prints warnings and a summary of the settings, or each fault with its line.
    """
    from autoscaling.settings import SettingsError
    from autoscaling.settings.stack_file import check_file, summary

    path = stack_file(stack)
    with explained(SettingsError):
        checked = check_file(path)
    for warning in checked.warnings:
        print(warning)
    print(f"{path.name}: {summary(checked)}")
