"""Checks of a live stack, on ACK or on the rehearsal cloud, from the stack's own outputs."""

from verify.checks import broken_link, check_stack
from verify.cluster import ClusterError
from verify.load import LoadWalk
from verify.outputs import OutputsError, ServiceOutputs, StackOutputs
from verify.steps import Step, print_step

__all__ = [
    "ClusterError",
    "LoadWalk",
    "OutputsError",
    "ServiceOutputs",
    "StackOutputs",
    "Step",
    "broken_link",
    "check_stack",
    "print_step",
]
