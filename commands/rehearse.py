"""`./ackgpu rehearse`: run the main job on a rehearsal cloud."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from commands.command_line import CommandError, examples, explained

if TYPE_CHECKING:
    from rehearsal.layout import Layout


@contextmanager
def rehearsal_layout() -> Iterator[Layout]:
    """Set the environment for this checkout's rehearsal cloud and return its layout."""
    from rehearsal.environment import own_variables
    from rehearsal.errors import RehearsalError
    from rehearsal.layout import Layout

    layout = Layout()
    os.environ.update(own_variables(layout))
    with explained(RehearsalError):
        yield layout


@click.command(epilog=examples("rehearse"))
def rehearse() -> int:
    """Run the whole stack on a rehearsal cloud and check it.

    Checks every step of the guide, then removes everything. Needs no account and no GPU. The first run gets or
    builds tools, which can take half an hour.
    """
    with rehearsal_layout() as layout:
        from live.cluster_client import UnreachableError
        from rehearsal import main_job
        from rehearsal.processes import end_with_parent

        # End the rehearsal when `make` is killed.
        if "MAKELEVEL" in os.environ:
            end_with_parent(signal.SIGKILL)
        try:
            return main_job.rehearse(layout)
        except UnreachableError as error:
            raise CommandError(f"The cluster {error}.") from None
