"""A copy of the program and its rehearsal, whose settings can be changed and whose cloud is its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from rehearsal.layout import CHECKOUT, STACK

_COPIED = (
    "__main__.py",
    "Pulumi.yaml",
    f"Pulumi.{STACK}.yaml",
    "autoscaling",
    "components",
    "rehearsal",
    "verify",
)


def copy_checkout(target: Path) -> None:
    """Copy what a rehearsal needs into a folder that is made for it."""
    target.mkdir(parents=True)
    for name in _COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target / name)
