"""The program of `./ackgpu refresh` and `./ackgpu destroy`: only the stack's providers, with new credentials.

Without a program, Pulumi uses the kubeconfig of the last `up`, which may have expired or been revoked. The full program
refuses conditions that must not stop a refresh or a destroy, such as other owners or unreadable metrics. Pulumi reads
everything else from the state.
"""

import sys
from pathlib import Path

import pulumi

# The project's folder, to import its modules.
sys.path.insert(0, str(Path(__file__).parents[2]))

from program.platform import access
from program.stack_config import last_outputs, last_resources, stack_settings

access(stack_settings(), last_resources())
for name, value in last_outputs().items():
    pulumi.export(name, value)
