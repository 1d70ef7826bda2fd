"""Checks of a live stack, on ACK or on the rehearsal cloud, from the stack's own outputs."""

from live.verify.checks import broken_link, check_stack
from live.verify.load import LoadWalk
from live.verify.outputs import OutputsError, ServiceOutputs, StackOutputs
from live.verify.steps import Step, print_step

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
