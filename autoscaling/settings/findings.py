"""What a check between settings says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """A fault between settings, or what the user should know of them."""

    sentence: str
    keys: tuple[str, ...]
    """Whose values it rests on."""
    severity: Literal["error", "warning"] = "error"
    shows_no_value: bool = False
    """Whether the sentence holds even where those values are encrypted: it says what is there, and what is missing."""
