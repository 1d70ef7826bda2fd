"""A stack file with other settings; what is not touched, comments too, stays as the user wrote it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.util import load_yaml_guess_indent

from autoscaling.settings.config_values import PROJECT
from commands.adopt.part import Key, Removed


def with_settings(text: str, settings: Mapping[Key, Any]) -> str:
    """The file with some settings changed.

    Args:
        text: a stack file that has passed the checks.
        settings: each by where it stands, without the namespace of the project.
    """
    _, sequence, offset = load_yaml_guess_indent(text)
    yaml = YAML()
    yaml.preserve_quotes = True
    # The engine breaks no lines either.
    yaml.width = 1 << 16
    yaml.indent(mapping=2, sequence=sequence, offset=offset)
    document = yaml.load(text)
    for key, value in settings.items():
        _set(document["config"], (_full(document["config"], str(key[0])), *key[1:]), value)
    changed = io.StringIO()
    yaml.dump(document, changed)
    return changed.getvalue()


def _full(config: Mapping[str, Any], name: str) -> str:
    """The key as the file has it, which the engine takes in three ways."""
    ways = (f"{PROJECT}:{name}", name, f"{PROJECT}:config:{name}")
    return next((way for way in ways if way in config), ways[0])


def _set(around: Any, key: Key, value: Any) -> None:
    first, *rest = key
    if rest:
        if isinstance(around, CommentedMap) and around.get(first) is None:
            if isinstance(value, Removed):
                return
            around[first] = CommentedMap()
        _set(around[first], tuple(rest), value)
    elif isinstance(value, Removed):
        around.pop(first, None)
    else:
        around[first] = _commented(value)


def _commented(value: Any) -> Any:
    if isinstance(value, Mapping):
        return CommentedMap({key: _commented(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return CommentedSeq([_commented(inner) for inner in value])
    return value
