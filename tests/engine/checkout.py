"""Copies of the checkout for rehearsals that are killed, run in parallel or run as another user."""

from __future__ import annotations

import shutil

from bench.checkout_copy import copy_checkout
from rehearsal.cloud import stop_cloud
from rehearsal.layout import CHECKOUT, Layout


def fresh_checkout(name: str) -> Layout:
    """Create a copy in a folder of this name, after ending the cloud of an earlier copy."""
    copy = CHECKOUT / "build" / "engine" / name
    stop_cloud(Layout(copy))
    shutil.rmtree(copy, ignore_errors=True)
    copy_checkout(copy)
    return Layout(copy)
