"""The stack's name, and its configuration as settings."""

from __future__ import annotations

import json
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config_env, is_config_secret

from autoscaling.settings import Settings, SettingsError, parse, warnings


def stack_name() -> str:
    """The project and the stack, as on the command line: `ackgpu/dev`."""
    return f"{pulumi.get_project()}/{pulumi.get_stack()}"


def stack_settings() -> Settings:
    """The configuration in the project's namespace, checked; what the user should know of it is told.

    Raises:
        RunError: with every fault of it.
    """
    config = pulumi.Config()
    prefix = f"{config.name}:"
    names = [key.removeprefix(prefix) for key in {**get_config_env(), **CONFIG.get()} if key.startswith(prefix)]
    values = {name: _decoded(config.require(name)) for name in names}
    try:
        settings = parse(values, encrypted=[name for name in names if is_config_secret(prefix + name)])
    except SettingsError as error:
        raise pulumi.RunError(f"Pulumi.{pulumi.get_stack()}.yaml can't be used:\n{error}") from None
    for sentence in warnings(settings):
        pulumi.log.warn(sentence)
    return settings


def _decoded(text: str) -> Any:
    # The engine hands a map or list over as JSON, and everything else as it is.
    if text[:1] not in ("{", "["):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
