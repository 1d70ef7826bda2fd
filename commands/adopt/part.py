"""What adopting one thing means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Key = tuple[str | int, ...]
"""Where a setting stands: `("services", 0, "port")`."""


class AdoptionError(Exception):
    """Why nothing can be adopted; one sentence a line."""


class Removed:
    """In the place of a value: the setting goes, for another that stands instead of it."""


REMOVED = Removed()


@dataclass
class Part:
    """One thing that was found, or all of them."""

    settings: dict[Key, Any] = field(default_factory=dict)
    """What the stack file must say so that the thing stays as it is."""
    notes: list[str] = field(default_factory=list)
    """What `pulumi up` would change in it."""
    problems: list[str] = field(default_factory=list)
    """Why it can't be adopted as it is, and what to do."""

    def add(self, other: Part) -> None:
        """Take in what another thing means."""
        self.settings |= other.settings
        self.notes += other.notes
        self.problems += other.problems
