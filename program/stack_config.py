"""The stack's name, and its configuration as settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
from pulumi.runtime.config import CONFIG, get_config, get_config_env, get_config_secret_keys_env, is_config_secret

from autoscaling.settings import Settings, SettingsError, parse_config, warnings
from autoscaling.settings.engine_yaml import Fault
from autoscaling.settings.stack_file import StackFile, read_stack_file


def stack_name() -> str:
    """The project and the stack, as on the command line: `ackgpu/dev`."""
    return f"{pulumi.get_project()}/{pulumi.get_stack()}"


def last_outputs() -> Mapping[str, Any]:
    """The outputs that the stack has since its last `up`: a program that exports none takes them away.

    By the function of the engine behind a StackReference, which itself would become a resource of the stack.
    """
    name = f"{pulumi.get_organization()}/{stack_name()}"
    found = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name})
    outputs: Mapping[str, Any] = found.value["outputs"]
    return outputs


def stack_settings(folder: Path = Path()) -> Settings:
    """The configuration of the stack, checked; what the user should know of it is told.

    Args:
        folder: where the stack's file is.

    Raises:
        RunError: with every fault of it.
    """
    project = pulumi.get_project()
    config = {key: get_config(key) for key in {**get_config_env(), **CONFIG.get()}}
    of_the_host = set(get_config_secret_keys_env())
    secret = [key.removeprefix(f"{project}:") for key in config if key in of_the_host or is_config_secret(key)]
    path = folder / f"Pulumi.{pulumi.get_stack()}.yaml"
    # Where there is none, the values come from elsewhere.
    file = read_stack_file(path) if path.exists() else StackFile(path.name)
    encrypted = secret if file.environment else [one for key in secret for one in file.encrypted_in(key) or [key]]
    faults = [_sentence(fault) for fault in file.faults]
    try:
        settings = parse_config(config, project=project, encrypted=encrypted, unknown=file.doubtful)
    except SettingsError as error:
        faults += error.faults
    if faults:
        raise pulumi.RunError("\n".join([f"{path.name} can't be used:", *faults]))
    for sentence in warnings(settings, encrypted=encrypted):
        pulumi.log.warn(sentence)
    return settings


def _sentence(fault: Fault) -> str:
    """Of what the engine passes over, or hands over as something else than it looks like."""
    return f"line {fault.line}: {fault.sentence}" if fault.line else fault.sentence
