"""`./ackgpu up`: start a rehearsal cloud."""

from __future__ import annotations

import click

from commands.command_line import examples
from commands.rehearse import rehearsal_layout


@click.command(epilog=examples("up"))
def up() -> None:
    """Start a rehearsal cloud and keep it up.

    Prints the environment variables for pulumi and kubectl and writes them to a file. `./ackgpu down` stops the cloud.
    """
    with rehearsal_layout() as layout:
        from rehearsal import cloud
        from rehearsal.automation import select_stack
        from rehearsal.environment import engine_variables, temporary_files_in
        from rehearsal.errors import RehearsalError
        from rehearsal.stack_file import rehearsed_settings
        from rehearsal.toolchain.build import ensure_tools

        rehearsed_settings(layout.checkout)
        tools = ensure_tools()
        cloud.start_cloud(layout, tools)
        try:
            with temporary_files_in(layout.temporary):
                select_stack(layout)
        except RehearsalError:
            cloud.stop_cloud(layout)
            raise
        print("The rehearsal cloud is up; `./ackgpu down` stops it. Set these environment variables:\n")
        for name, value in engine_variables(layout).items():
            print(f"  {name}={value}")
        relative = layout.environment_file.relative_to(layout.checkout)
        print(f"\nOr from a file:  source {relative}\nThen run:        pulumi preview; pulumi up; pulumi destroy")
