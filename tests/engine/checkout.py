"""Copies of the checkout, for rehearsals that are killed, run side by side, or run as somebody else."""

from __future__ import annotations

import shutil

from bench.checkout_copy import copy_checkout
from rehearsal.cloud import stop_cloud
from rehearsal.layout import CHECKOUT, Layout


def fresh_checkout(name: str) -> Layout:
    """A copy in a folder of that name, where a cloud of an earlier one is ended."""
    copy = CHECKOUT / "build" / "engine" / name
    stop_cloud(Layout(copy))
    shutil.rmtree(copy, ignore_errors=True)
    copy_checkout(copy)
    return Layout(copy)
