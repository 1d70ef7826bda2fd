"""Checks of a live stack, on ACK or on the rehearsal cloud, from the stack's own outputs."""

from live.checks.checks import broken_link, check_stack
from live.checks.load import LoadWalk
from live.checks.outputs import OutputsError, ServiceOutputs, StackOutputs
from live.checks.steps import Step, print_step

__all__ = [
    "LoadWalk",
    "OutputsError",
    "ServiceOutputs",
    "StackOutputs",
    "Step",
    "broken_link",
    "check_stack",
    "print_step",
]
