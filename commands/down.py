"""`./ackgpu down`: stop the rehearsal cloud."""

from __future__ import annotations

import click

from commands.command_line import examples
from commands.rehearse import rehearsal_layout


@click.command(epilog=examples("down"))
def down() -> None:
    """Stop the rehearsal cloud that `./ackgpu up` started."""
    with rehearsal_layout() as layout:
        from rehearsal import cloud

        print("The rehearsal cloud is down." if cloud.stop_cloud(layout) else "No rehearsal cloud was up.")
