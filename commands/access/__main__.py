"""Only the stack's providers, with new credentials: `./ackgpu refresh` and `./ackgpu destroy` run this program.

Without a program Pulumi would use the kubeconfig of the last `up`, which may have expired or been revoked. The whole
program fails on conditions that must not stop a refresh or a destroy, such as other owners or unreadable metrics.
Pulumi knows everything else from the state.
"""

import sys
from pathlib import Path

import pulumi

# The folder of the project, whose modules these are.
sys.path.insert(0, str(Path(__file__).parents[2]))

from program.platform import access
from program.stack_config import last_outputs, last_resources, stack_settings

access(stack_settings(), last_resources())
for name, value in last_outputs().items():
    pulumi.export(name, value)
