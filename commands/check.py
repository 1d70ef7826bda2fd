"""`./ackgpu check`: the checks of a stack's settings, without engine and cloud."""

from __future__ import annotations

import click

from commands.command_line import examples, explained, stack_file, stack_option


@click.command(epilog=examples("check --stack dev"))
@stack_option
def check(stack: str) -> None:
    """Check the settings of a stack, without engine or cloud.

    Prints warnings and what the settings amount to, or each fault with its line.
    """
    from autoscaling.settings import SettingsError
    from autoscaling.settings.stack_file import check_file, summary

    path = stack_file(stack)
    with explained(SettingsError):
        checked = check_file(path)
    for warning in checked.warnings:
        print(warning)
    print(f"{path.name}: {summary(checked)}")
