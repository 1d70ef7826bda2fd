"""A copy of the checkout, with its own settings and its own rehearsal cloud."""

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
    """Copy the files that a rehearsal needs into a new folder, which shares this checkout's venv."""
    (target / "build").mkdir(parents=True)
    (target / "build" / "venv").symlink_to(CHECKOUT / "build" / "venv")
    for name in _COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
            # A file that is newer than the venv would make `make` recreate the shared venv.
            os.utime(target / name, (0, 0))
