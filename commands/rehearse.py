"""`./ackgpu rehearse`: the main job on a rehearsal cloud; and what all commands of the rehearsal share."""

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
    """The layout of this checkout's rehearsal cloud, in a process whose environment points at that cloud only."""
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

    Checks step by step what the guide promises, and leaves nothing. Needs no account and no GPU. The first run builds
    the engine's tools for about half an hour.
    """
    with rehearsal_layout() as layout:
        from live.cluster_client import UnreachableError
        from rehearsal import main_job
        from rehearsal.processes import end_with_parent

        # A `make` that is killed takes its rehearsal with it.
        if "MAKELEVEL" in os.environ:
            end_with_parent(signal.SIGKILL)
        try:
            return main_job.rehearse(layout)
        except UnreachableError as error:
            raise CommandError(f"The cluster {error}.") from None
