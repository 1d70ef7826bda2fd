"""The command line `ackgpu`: each command has a module or a package."""

from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
