"""Proposed settings, and how to write them into a stack's settings file."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.util import load_yaml_guess_indent

from autoscaling.quantity import parse_quantity
from autoscaling.settings import Settings
from autoscaling.settings.engine_config import PROJECT

Key = tuple[str | int, ...]
"""Path of a setting, such as `("services", 0, "port")`."""

_SECRET = {"secret", "password", "passwd", "pwd", "token", "credential", "credentials", "authorization"}
_SECRET_KEYS = {"access", "api", "private"}


class AdoptionError(Exception):
    """The reasons why nothing can be adopted, one per line."""


@dataclass
class Proposal:
    """The settings for live resources, with notes and problems."""

    settings: dict[Key, Any] = field(default_factory=dict)
    """Settings that keep the resources as they are. The value None removes a setting."""
    notes: list[str] = field(default_factory=list)
    """Changes that `pulumi up` would make."""
    problems: list[str] = field(default_factory=list)
    """Reasons why a resource can't be adopted as it is, and what to do."""


def may_be_secret(name: str) -> bool:
    """Return True if a name suggests a secret value: `accessKeySecret`, but not the reference `secretName`."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    if words[-1:] in (["name"], ["ref"]):
        return False
    return bool(_SECRET & set(words)) or any(
        first in _SECRET_KEYS and second == "key" for first, second in itertools.pairwise(words)
    )


def number(text: str) -> int | float:
    """Return a quantity as a YAML number."""
    amount = parse_quantity(text)
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def changed_settings(proposed: Mapping[Key, Any], settings: Settings) -> dict[Key, Any]:
    """Return the proposed settings that differ from the current settings."""
    current = settings.model_dump(by_alias=True)
    return {key: value for key, value in proposed.items() if _without_empty(_at(current, key)) != _without_empty(value)}


def with_settings(text: str, settings: Mapping[Key, Any]) -> str:
    """Change settings in the text of a valid settings file; keep the rest as the user wrote it."""
    _, sequence, offset = load_yaml_guess_indent(text)
    yaml = YAML()
    yaml.preserve_quotes = True
    # The engine does not break lines either.
    yaml.width = 1 << 16
    yaml.indent(mapping=2, sequence=sequence, offset=offset)
    yaml.representer.sort_base_mapping_type_on_output = False
    document = yaml.load(text)
    for key, value in settings.items():
        _set(document["config"], (_file_key(document["config"], str(key[0])), *key[1:]), value)
    changed = io.StringIO()
    yaml.dump(document, changed)
    return changed.getvalue()


def _at(values: Any, key: Key) -> Any:
    for part in key:
        if values is None:
            return None
        values = values[part] if isinstance(part, int) else values.get(part)
    return values


def _without_empty(value: Any) -> Any:
    """Return a value without empty inner keys."""
    if isinstance(value, Mapping):
        inner = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in (None, "", {}, [])}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _file_key(config: Mapping[str, Any], name: str) -> str:
    """Return the form of a key that the file uses; the engine accepts three forms."""
    forms = (f"{PROJECT}:{name}", name, f"{PROJECT}:config:{name}")
    return next((form for form in forms if form in config), forms[0])


def _set(parent: Any, key: Key, value: Any) -> None:
    first, *rest = key
    if rest:
        if isinstance(parent, CommentedMap) and parent.get(first) is None:
            if value is None:
                return
            parent[first] = CommentedMap()
        _set(parent[first], tuple(rest), value)
    elif value is None:
        parent.pop(first, None)
    else:
        parent[first] = value
