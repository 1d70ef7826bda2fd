"""The stack's settings, as the engine hands them over."""

from __future__ import annotations

from pathlib import Path

import pulumi
from pulumi.runtime.config import CONFIG, get_config, get_config_env, get_config_secret_keys_env, is_config_secret

from autoscaling.engine_yaml import Fault
from autoscaling.settings import Settings, SettingsError, parse_config, warnings
from autoscaling.stack_file import StackFile, read_stack_file


def stack_settings() -> Settings:
    """The settings of the stack that runs; warnings are logged.

    Raises:
        SettingsError: with one sentence for each fault.
    """
    config = {key: get_config(key) for key in {**get_config_env(), **CONFIG.get()}}
    project = pulumi.get_project()
    secret = set(get_config_secret_keys_env())
    secrets = [key.removeprefix(f"{project}:") for key in config if key in secret or is_config_secret(key)]
    # The values may come from elsewhere.
    path = Path(f"Pulumi.{pulumi.get_stack()}.yaml")
    file = read_stack_file(path) if path.exists() else StackFile(path.name)
    passed_over = [_sentence(fault) for fault in file.faults]
    try:
        settings = parse_config(config, project=project, secrets=secrets, unknown=file.doubtful)
    except SettingsError as error:
        raise SettingsError([*passed_over, *error.faults]) from None
    if passed_over:
        raise SettingsError(passed_over)
    for sentence in warnings(settings, secrets=secrets):
        pulumi.log.warn(sentence)
    return settings


def _sentence(fault: Fault) -> str:
    return f"line {fault.line}: {fault.sentence}" if fault.line else fault.sentence
