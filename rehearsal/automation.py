"""The Pulumi engine's Automation API on the rehearsal cloud."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pulumi import automation

from rehearsal.environment import engine_variables
from rehearsal.errors import RehearsalError
from rehearsal.layout import STACK, Layout
from rehearsal.processes import child_environment


def select_stack(layout: Layout) -> automation.Stack:
    """Select the stack `rehearsal` in the cloud's backend; create it if it does not exist.

    Raises:
        RehearsalError: the engine failed.
    """
    with operation("stack select"):
        return automation.create_or_select_stack(STACK, work_dir=str(layout.checkout), opts=engine_options(layout))


def engine_options(layout: Layout) -> automation.LocalWorkspaceOptions:
    """Return the options that run the rehearsal's engine in the cloud's environment, for any project."""
    return automation.LocalWorkspaceOptions(
        env_vars=child_environment(layout, engine_variables(layout)),
        pulumi_command=automation.PulumiCommand(root=str(layout.cloud)),
    )


@contextlib.contextmanager
def operation(name: str) -> Iterator[None]:
    """Turn a failed engine operation into a `RehearsalError` with the engine's message.

    Raises:
        RehearsalError: `pulumi <name>` failed.
    """
    try:
        yield
    except automation.CommandError as error:
        # The reason may be on the next line.
        _, found, reason = str(error).rpartition("error:")
        reason = " ".join(reason.split()[:60]) if found else "see the output above"
        raise RehearsalError(f"pulumi {name} failed: {reason}") from None
