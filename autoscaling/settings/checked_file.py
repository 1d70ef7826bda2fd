"""Check a stack's settings file without Pulumi's engine and without the cloud."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autoscaling.settings import Settings, SettingsError, parse_config, warnings
from autoscaling.settings.engine_config import setting_values
from autoscaling.settings.errors import aliases
from autoscaling.settings.stack_file import read_stack_file


@dataclass(frozen=True)
class Checked:
    """The settings of a file."""

    settings: Settings
    warnings: tuple[str, ...]
    """Each begins with the file and the line."""
    unknown: frozenset[str] = frozenset()
    """Settings that an environment may set; the required settings among them have placeholders."""


def check_file(path: Path) -> Checked:
    """Check a settings file as the program does, and what the engine ignores in it.

    Raises:
        SettingsError: each error begins with the file and, if known, the line.
    """
    stack = read_stack_file(path)
    if stack.errors:
        raise SettingsError(stack.errors)
    unknown = set(aliases(Settings)) - set(setting_values(stack.config)) if stack.environment else set()
    try:
        settings = parse_config(stack.config, encrypted=stack.encrypted, unknown=unknown)
    except SettingsError as error:
        raise SettingsError([stack.at(sentence) for sentence in error.faults]) from None
    warned = [stack.at(sentence, "warning: ") for sentence in warnings(settings, unknown=unknown)]
    return Checked(settings, tuple(warned), frozenset(unknown))


def summary(checked: Checked) -> str:
    """Sum up the settings in a line."""
    if checked.unknown:
        return f"ok, except for settings that only `pulumi preview` can check: {', '.join(sorted(checked.unknown))}"
    settings = checked.settings
    count = len(settings.services)
    pods = sum(service.autoscaler.max_replicas for service in settings.services)
    where = f"on the platform of {settings.platform}" if settings.platform else f"in {settings.region}"
    return f"ok, {count} service{'' if count == 1 else 's'} of at most {pods} pods {where}"
