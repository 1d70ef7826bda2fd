"""What people run beside pulumi, one command a file or folder."""

from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
