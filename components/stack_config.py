"""The stack's name, and its configuration as plain values for `autoscaling.settings`."""

from __future__ import annotations

import json
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env


def stack_values() -> dict[str, Any]:
    """Each key of the project's namespace, without it; what is written as a map or a list is decoded."""
    config = pulumi.Config()
    prefix = f"{config.name}:"
    names = [key.removeprefix(prefix) for key in {**get_config_env(), **CONFIG.get()} if key.startswith(prefix)]
    return {name: _decoded(config.require(name)) for name in names}


def stack_name() -> str:
    """The project and the stack, as on the command line: `ackgpu/dev`."""
    return f"{pulumi.get_project()}/{pulumi.get_stack()}"


def _decoded(text: str) -> Any:
    # The engine hands a map or list over as JSON, and everything else as it is.
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
