"""`./ackgpu up`: start a rehearsal cloud."""

from __future__ import annotations

import click

from commands.command_line import examples
from commands.rehearse import rehearsal_layout


@click.command(epilog=examples("up"))
def up() -> None:
    """Start a rehearsal cloud and keep it up.

    Writes the environment variables for pulumi and kubectl to a file. `./ackgpu down` stops the cloud.
    """
    with rehearsal_layout() as layout:
        from rehearsal import cloud
        from rehearsal.automation import select_stack
        from rehearsal.environment import temporary_files_in
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
        relative = layout.environment_file.relative_to(layout.checkout)
        print("The rehearsal cloud is up; `./ackgpu down` stops it. To use it in this terminal:\n")
        print(f"  source {relative}\n  pulumi preview; pulumi up; pulumi destroy")
