"""Read a stack's settings: return them, or raise the errors in them together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from autoscaling.settings.engine_config import PROJECT, setting_values
from autoscaling.settings.errors import encryption_errors, field_of, model_errors
from autoscaling.settings.platform_stack import (
    PLATFORM_KEYS,
    foreign_keys,
    is_unset,
    uses_a_platform,
    with_stand_ins,
)
from autoscaling.settings.prometheus import plain_secrets
from autoscaling.settings.stack import REMOVED_SETTINGS, Settings, findings

__all__ = ["Settings", "SettingsError", "parse", "parse_config", "warnings"]


class SettingsError(Exception):
    """The errors in a stack's settings, one message a line."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = list(faults)


def parse_config(
    config: Mapping[str, str],
    *,
    project: str = PROJECT,
    encrypted: Collection[str] | None = None,
    unknown: Collection[str] = (),
) -> Settings:
    """Check a stack's configuration as the engine gives it to a program.

    Args:
        config: keys with their namespaces, and their values as text; maps and lists are JSON.
        project: the namespace of the settings.
        encrypted: the same as in `parse`.
        unknown: the same as in `parse`.

    Raises:
        SettingsError: with one sentence for each error.
    """
    # Pulumi.yaml gives the engine an empty value for each key that a stack may leave out.
    values = {key: value for key, value in setting_values(config, project).items() if not _left_out(key, value)}
    return parse(values, encrypted=encrypted, unknown=unknown)


def parse(
    values: Mapping[str, Any], *, encrypted: Collection[str] | None = None, unknown: Collection[str] = ()
) -> Settings:
    """Check a stack's values, first each alone and then together.

    Args:
        values: keys without the project's namespace; maps and lists are decoded.
        encrypted: encrypted settings, or top-level settings that contain encrypted values; None if unknown.
        unknown: top-level settings that are set elsewhere; nothing that depends on them is checked.

    Raises:
        SettingsError: with one sentence for each error.
    """
    if refused := list(encryption_errors(encrypted or (), Settings)):
        raise SettingsError(refused)
    sentences: list[str] = []
    if uses_a_platform(values):
        sentences += foreign_keys(values)
        unknown = {*unknown, *PLATFORM_KEYS}
    try:
        settings = Settings.model_validate(with_stand_ins(values, unknown))
    except ValidationError as error:
        raise SettingsError([*sentences, *model_errors(error, Settings, REMOVED_SETTINGS, encrypted or ())]) from None
    errors = [finding for finding in findings(settings) if finding.severity == "error"]
    if encrypted is not None:
        errors += plain_secrets(settings, encrypted)
    sentences += [finding.sentence for finding in errors if set(unknown).isdisjoint(finding.depends_on)]
    if sentences:
        raise SettingsError(sentences)
    return settings


def warnings(settings: Settings, *, unknown: Collection[str] = ()) -> list[str]:
    """Return the warnings about valid settings, one sentence each.

    Args:
        settings: valid settings, from `parse`.
        unknown: the same as in `parse`.
    """
    if settings.platform:
        unknown = {*unknown, *PLATFORM_KEYS}
    warned = (finding for finding in findings(settings) if finding.severity == "warning")
    return [finding.sentence for finding in warned if set(unknown).isdisjoint(finding.depends_on)]


def _left_out(key: str, value: Any) -> bool:
    field = field_of(Settings, key)
    return field is not None and is_unset(value) and (field.is_required() or field.default is None)
