"""The checks of a stack's file, as the program makes them, without engine and cloud."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autoscaling.settings import Settings, SettingsError, parse_config, warnings
from autoscaling.settings.config_values import setting_values
from autoscaling.settings.model_keys import aliases
from autoscaling.settings.stack_file import StackFile, read_stack_file


@dataclass(frozen=True)
class Checked:
    """What a stack's file sets."""

    settings: Settings
    unknown: frozenset[str]
    """Keys whose values only the engine can read; the settings have stand-ins for them."""
    warnings: tuple[str, ...]
    """Each begins as a fault does."""


def check_file(path: Path) -> Checked:
    """Check a stack's file as the program does.

    Raises:
        SettingsError: each fault begins with the file and, where it is known, the line.
    """
    stack = read_stack_file(path)
    told = [_at(stack, fault.line, fault.sentence) for fault in stack.faults]
    if not stack.readable:
        raise SettingsError(told)
    unknown = set(stack.encrypted)
    if stack.environment:
        unknown |= set(aliases(Settings)) - set(setting_values(stack.config))
    try:
        settings = parse_config(stack.config, encrypted=stack.encrypted, unknown=unknown | stack.doubtful)
    except SettingsError as error:
        raise SettingsError([*told, *(_at(stack, stack.line_of(one), one) for one in error.faults)]) from None
    if told:
        raise SettingsError(told)
    told = [_at(stack, stack.line_of(one), f"warning: {one}") for one in warnings(settings, unknown=unknown)]
    return Checked(settings, frozenset(unknown), tuple(told))


def summary(checked: Checked) -> str:
    """What the settings come to."""
    if checked.unknown:
        return f"ok, but for what only `pulumi preview` can read: {', '.join(sorted(checked.unknown))}"
    settings = checked.settings
    count = len(settings.services)
    pods = sum(service.autoscaler.max_replicas for service in settings.services)
    where = f"on the platform of {settings.platform}" if settings.platform else f"in {settings.region}"
    return f"ok, {count} service{'' if count == 1 else 's'} of at most {pods} pods {where}"


def _at(stack: StackFile, line: int | None, sentence: str) -> str:
    return f"{stack.name}:{line}: {sentence}" if line else f"{stack.name}: {sentence}"
