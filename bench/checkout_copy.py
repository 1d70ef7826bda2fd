"""A copy of the program and its rehearsal, whose settings can be changed and whose cloud is its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from rehearsal.layout import CHECKOUT, STACK

_COPIED = (
    "Makefile",
    "ackgpu",
    "__main__.py",
    "Pulumi.yaml",
    f"Pulumi.{STACK}.yaml",
    "requirements.txt",
    "requirements-dev.txt",
    "autoscaling",
    "commands",
    "components",
    "live",
    "program",
    "rehearsal",
    "tools",
)


def copy_checkout(target: Path) -> None:
    """Copy what a rehearsal needs into a folder that is made for it, and lend it this checkout's venv."""
    (target / "build").mkdir(parents=True)
    (target / "build" / "venv").symlink_to(CHECKOUT / "build" / "venv")
    for name in _COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
            # Older than any venv, which make had else made anew, through the link.
            os.utime(target / name, (0, 0))
