"""Copies of the checkout, for rehearsals that are killed, run side by side, or run as somebody else."""

from __future__ import annotations

import os
import shutil

from rehearsal.cloud import take_down
from rehearsal.layout import CHECKOUT, STACK, Layout

_COPIED = (
    "Makefile",
    "__main__.py",
    "Pulumi.yaml",
    f"Pulumi.{STACK}.yaml",
    "requirements.txt",
    "requirements-dev.txt",
    "autoscaling",
    "components",
    "rehearsal",
    "tools",
    "verify",
)


def copy_checkout(name: str) -> Layout:
    """A fresh copy in a folder of that name, with this checkout's venv: `make` finds everything ready."""
    copy = CHECKOUT / "build" / "engine" / name
    take_down(Layout(copy))
    shutil.rmtree(copy, ignore_errors=True)
    (copy / "build").mkdir(parents=True)
    (copy / "build" / "venv").symlink_to(CHECKOUT / "build" / "venv")
    for part in _COPIED:
        source = CHECKOUT / part
        if source.is_dir():
            shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, copy / part)
            # Older than any venv, which make had else made anew, through the link.
            os.utime(copy / part, (0, 0))
    return Layout(copy)
