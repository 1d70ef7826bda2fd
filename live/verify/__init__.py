"""Checks of a live stack on ACK or in the rehearsal cloud, based on the stack's outputs."""

from live.verify.checks import broken_link, check_stack
from live.verify.load import LoadTest
from live.verify.outputs import OutputsError, ServiceOutputs, StackOutputs
from live.verify.steps import Step, print_step

__all__ = [
    "LoadTest",
    "OutputsError",
    "ServiceOutputs",
    "StackOutputs",
    "Step",
    "broken_link",
    "check_stack",
    "print_step",
]
