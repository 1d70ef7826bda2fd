"""Objects that others made and this program takes over."""

from __future__ import annotations


def takeover_annotations(adopted: bool) -> dict[str, str]:
    """What lets the provider set fields that kubectl or a console has set: between two owners they are a conflict."""
    return {"pulumi.com/patchForce": "true"} if adopted else {}
