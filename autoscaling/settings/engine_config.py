"""Keys and values of a stack's configuration as Pulumi's engine hands them to a program."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

PROJECT = "ackgpu"
"""Namespace of the settings: the name of the project in Pulumi.yaml."""

OCTAL = re.compile(r"[-+]?0[0-7]+")
_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:([Tt ])(\d{1,2}):(\d{1,2}):(\d{1,2})(\.\d+)?(Z|[-+]\d\d:\d\d)?)?", re.ASCII
)


def engine_text(value: Any) -> str:
    """Return the text for the value of a key: JSON for a map or a list, nothing for null."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def setting_values(config: Mapping[str, str], project: str = PROJECT) -> dict[str, Any]:
    """Return the values in the project's namespace, without it; maps and lists are decoded."""
    prefix = f"{project}:"
    return {key.removeprefix(prefix): _decoded(text) for key, text in config.items() if key.startswith(prefix)}


def full_key(key: str) -> str | None:
    """Return a key of `config` with its namespace, which may be left out; None if the engine refuses the key."""
    parts = key.split(":")
    if len(parts) == 3 and parts[1] == "config":
        parts.pop(1)
    return f"{PROJECT}:{key}" if len(parts) == 1 else ":".join(parts) if len(parts) == 2 else None


def number(text: str) -> int | float | str:
    """Return what the engine makes of a number in YAML: text if 64 bits can't hold it."""
    digits = text.replace("_", "")
    try:
        whole = int(digits, 8 if OCTAL.fullmatch(digits) else 0)
        if -(2**63) <= whole < 2**64:
            return whole
    except ValueError:
        pass
    if digits.lower().lstrip("+-") in (".inf", ".nan"):
        return float(digits.replace(".", ""))
    try:
        fraction = float(digits)
    except ValueError:
        return text
    if not math.isfinite(fraction):
        return text
    # The engine drops a zero fraction.
    return int(fraction) if fraction.is_integer() and abs(fraction) < 1e21 else fraction


def plain_text(text: str) -> str:
    """Return what the engine makes of a text without quotes: a date becomes another text."""
    match = _TIME.fullmatch(text)
    if match is None or (match[4] in ("T", "t")) is not bool(match[9]):
        return text
    year, month, day, hour, minute, second = (int(match[part] or 0) for part in (1, 2, 3, 5, 6, 7))
    try:
        moment = datetime(year, month, day, hour, minute, second)
    except ValueError:
        return text
    offset, zone = ("+0000", "UTC") if match[9] in (None, "Z") else (match[9].replace(":", ""),) * 2
    return f"{moment:%Y-%m-%d %H:%M:%S}{(match[8] or '')[:10].rstrip('0.')} {offset} {zone}"


def _decoded(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
