"""The stack's providers alone, each with a credential of now: `make refresh` and `make destroy` run this.

Without a program Pulumi takes the kubeconfig that the last `up` has left in the state, and it may have expired or been
revoked. The whole program stops at what must not stop these: other owners, metrics that can't be read; and it can't
know what it runs for. All else that the stack has Pulumi knows from its state.
"""

import sys
from pathlib import Path

import pulumi

# The folder of the project, whose modules these are.
sys.path.insert(0, str(Path(__file__).parents[2]))

from program.platform import access
from program.stack_config import last_outputs, stack_settings

access(stack_settings(Path(__file__).parents[2]))
for name, value in last_outputs().items():
    pulumi.export(name, value)
