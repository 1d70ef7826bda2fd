"""From a stack's configuration, key by key as the engine hands it to a program, to values of settings."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

PROJECT = "ackgpu"
"""Namespace of the settings: the name of the project in Pulumi.yaml."""

_ENGINE_AND_PROVIDERS = {"alicloud", "kubernetes", "pulumi"}


def engine_text(value: Any) -> str:
    """What the engine makes of the value of a key: a map or a list becomes JSON, null nothing."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def setting_values(config: Mapping[str, str], project: str = PROJECT) -> dict[str, Any]:
    """The values under the project's namespace, without it; maps and lists are decoded."""
    prefix = f"{project}:"
    return {key.removeprefix(prefix): _decoded(text) for key, text in config.items() if key.startswith(prefix)}


def strangers(config: Mapping[str, str], names: Sequence[str], project: str = PROJECT) -> dict[str, str]:
    """Keys of other namespaces that look like settings, which the engine would pass over: sentence to meant setting."""
    found = {}
    for key in config:
        namespace, _, name = key.partition(":")
        if namespace == project or namespace in _ENGINE_AND_PROVIDERS:
            continue
        if name in names or difflib.get_close_matches(namespace.lower(), [project]):
            meant = (difflib.get_close_matches(name, names, n=1) or [name])[0]
            found[f"{key} is of another project and has no effect here: did you mean {project}:{meant}?"] = meant
    return found


def _decoded(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    # Python's own limits: nested too deep, a number with too many digits.
    except (ValueError, RecursionError):
        return text
