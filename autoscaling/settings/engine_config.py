"""Keys and values of a stack's configuration as Pulumi's engine passes them to a program."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

PROJECT = "ackgpu"
"""Namespace of the settings: the name of the project in Pulumi.yaml."""

OCTAL = re.compile(r"[-+]?0[0-7]+")
_TIME = r"\d\d:\d\d:\d\d(\.\d+)?"
_DATE = re.compile(rf"\d{{4}}-\d\d-\d\d(T{_TIME}(Z|[-+]\d\d:\d\d)| {_TIME})?", re.ASCII)


def engine_text(value: Any) -> str:
    """Return a value as the engine passes it: JSON for a map or a list, empty for null."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def setting_values(config: Mapping[str, str], project: str = PROJECT) -> dict[str, Any]:
    """Return the project's values under keys without the namespace; maps and lists are decoded."""
    prefix = f"{project}:"
    return {key.removeprefix(prefix): _decoded(text) for key, text in config.items() if key.startswith(prefix)}


def full_key(key: str) -> str | None:
    """Return a key of `config` with its namespace, which is optional; or None if the engine refuses the key."""
    parts = key.split(":")
    if len(parts) == 3 and parts[1] == "config":
        parts.pop(1)
    return f"{PROJECT}:{key}" if len(parts) == 1 else ":".join(parts) if len(parts) == 2 else None


def number(text: str) -> int | float | str:
    """Return a YAML number as the engine converts it."""
    digits = text.replace("_", "")
    try:
        return int(digits, 8 if OCTAL.fullmatch(digits) else 0)
    except ValueError:
        pass
    try:
        fraction = float(digits.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text
    # The engine drops a zero fraction.
    return int(fraction) if fraction.is_integer() and abs(fraction) < 1e21 else fraction


def plain_text(text: str) -> str:
    """Return unquoted text as the engine converts it: it rewrites dates."""
    try:
        moment = datetime.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return text
    if moment is None:
        return text
    fraction = f".{moment.microsecond:06d}".rstrip(".0")
    zone = f"{moment:%z}"
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} {zone or '+0000'} {'UTC' if zone in ('', '+0000') else zone}"


def _decoded(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
