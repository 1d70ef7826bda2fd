"""What people run beside pulumi: the command line `ackgpu`, one command a file or folder."""

from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
