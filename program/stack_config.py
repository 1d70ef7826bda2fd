"""The stack's name, and its configuration as settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config, get_config_env, get_config_secret_keys_env, is_config_secret

from autoscaling.settings import Settings, SettingsError, parse_config, warnings


def stack_name() -> str:
    """Return the project and the stack, such as `ackgpu/dev`."""
    return f"{pulumi.get_project()}/{pulumi.get_stack()}"


def last_outputs() -> Mapping[str, Any]:
    """Return the outputs of the stack's last `up`, so that the program can export them again.

    A program that does not export them would remove them. A StackReference would add a resource to the stack.
    """
    name = f"{pulumi.get_organization()}/{stack_name()}"
    found = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name})
    outputs: Mapping[str, Any] = found.value["outputs"]
    return outputs


def last_resources() -> Collection[str]:
    """Return the URNs in the stack's state."""
    name = f"{pulumi.get_organization()}/{stack_name()}"
    found = pulumi.runtime.invoke("pulumi:pulumi:readStackResourceOutputs", {"stackName": name})
    # The values may contain secrets.
    return list(found.value["outputs"])


def stack_settings() -> Settings:
    """Check the stack's configuration, as the engine passes it, and log the warnings. Return the settings.

    Raises:
        RunError: the configuration has errors; the message lists them all.
    """
    project = pulumi.get_project()
    config = {key: get_config(key) for key in {**get_config_env(), **CONFIG.get()}}
    host_secret_keys = set(get_config_secret_keys_env())
    encrypted = [key.removeprefix(f"{project}:") for key in config if key in host_secret_keys or is_config_secret(key)]
    try:
        settings = parse_config(config, project=project, encrypted=encrypted)
    except SettingsError as error:
        heading = f"the configuration of stack {pulumi.get_stack()} cannot be used:"
        raise pulumi.RunError("\n".join([heading, *error.faults])) from None
    for sentence in warnings(settings):
        pulumi.log.warn(sentence)
    return settings
