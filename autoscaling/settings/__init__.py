"""Reads a stack's configuration: all its faults together, or the settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from autoscaling.settings.config_values import PROJECT, setting_values, strangers
from autoscaling.settings.faults import Fault, faults_of, without_faults
from autoscaling.settings.findings import Finding
from autoscaling.settings.model_keys import aliases, field_of, within
from autoscaling.settings.platform_stack import (
    PLATFORM_KEYS,
    foreign_keys,
    is_unset,
    uses_a_platform,
    with_stand_ins,
)
from autoscaling.settings.prometheus import plain_secrets
from autoscaling.settings.services import secrets_in_the_environment
from autoscaling.settings.stack import Settings, findings

__all__ = ["Settings", "SettingsError", "parse", "parse_config", "warnings"]


class SettingsError(Exception):
    """Every fault of a stack's configuration, one sentence a line."""

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
    """Check a stack's configuration as the engine hands it to a program.

    Args:
        config: key with its namespace to text; maps and lists as JSON.
        project: the namespace of the settings.
        encrypted: as for `parse`.
        unknown: as for `parse`.

    Raises:
        SettingsError: with one sentence for each fault.
    """
    # Pulumi.yaml gives the engine an empty value for what a stack may leave out.
    values = {key: value for key, value in setting_values(config, project).items() if not _left_out(key, value)}
    strange = strangers(config, list(aliases(Settings)), project)
    unknown = {*unknown, *(meant for meant in strange.values() if meant not in values)}
    try:
        settings = parse(values, encrypted=encrypted, unknown=unknown)
    except SettingsError as error:
        raise SettingsError([*strange, *error.faults]) from None
    if strange:
        raise SettingsError(list(strange))
    return settings


def parse(
    values: Mapping[str, Any], *, encrypted: Collection[str] | None = None, unknown: Collection[str] = ()
) -> Settings:
    """Check a stack's values.

    Args:
        values: key to value, keys without the project's namespace, structured values already decoded.
        encrypted: keys with an encrypted value in them, such as `services`: nothing in them is shown; None: not known.
        unknown: keys whose values only the engine can read: they are taken for right.

    Raises:
        SettingsError: with one sentence for each fault.
    """
    faults: list[Fault] = []
    foreign: list[str] = []
    if uses_a_platform(values):
        foreign = list(foreign_keys(values))
        values, unknown = with_stand_ins(values), {*unknown, *PLATFORM_KEYS}
    try:
        settings = Settings.model_validate(dict(values))
    except ValidationError as error:
        faults = faults_of(error, encrypted or ())
        meant = {fault.meant for fault in faults}
        known = [
            fault.sentence
            for fault in faults
            if not _touches([fault.key], unknown) and not (fault.missing and fault.key in meant)
        ]
        try:
            settings = Settings.model_validate(without_faults(values, faults))
        except ValidationError:
            raise SettingsError([*foreign, *known]) from None
    else:
        known = []
    doubtful = [*(fault.key for fault in faults), *unknown]
    found = [one for one in findings(settings) if one.severity == "error"]
    if encrypted is not None:
        found += [*plain_secrets(settings, encrypted), *secrets_in_the_environment(settings, encrypted)]
    sentences = [*foreign, *known, *(_shown(one, encrypted or ()) for one in found if not _touches(one.keys, doubtful))]
    if sentences:
        raise SettingsError(sentences)
    return settings


def warnings(settings: Settings, *, encrypted: Collection[str] = (), unknown: Collection[str] = ()) -> list[str]:
    """What the user should know of settings that can be used, one sentence each.

    Args:
        settings: they passed `parse`.
        encrypted: as for `parse`.
        unknown: as for `parse`.
    """
    if settings.platform:
        unknown = {*unknown, *PLATFORM_KEYS}
    found = (one for one in findings(settings) if one.severity == "warning")
    return [_shown(one, encrypted) for one in found if not _touches(one.keys, unknown)]


def _left_out(key: str, value: Any) -> bool:
    field = field_of(Settings, key)
    return field is not None and is_unset(value) and (field.is_required() or field.default is None)


def _touches(keys: Collection[str], others: Collection[str]) -> bool:
    """Whether something read a value that is among the others, inside one of them, or around it."""
    return any(within(key, other) or within(other, key) for key in keys for other in others)


def _shown(finding: Finding, encrypted: Collection[str]) -> str:
    """Its sentence, or another one where it rests on a value that is encrypted in the stack's file."""
    if finding.shows_no_value or not _touches(finding.keys, encrypted):
        return finding.sentence
    keys = list(dict.fromkeys(finding.keys))
    doubt = "may" if finding.severity == "warning" else "do"
    if len(keys) == 1:
        wrong = "may be wrong" if finding.severity == "warning" else "can't be used"
        return f"{keys[0]} {wrong}; why is not shown, since it is encrypted."
    return (
        f"{', '.join(keys[:-1])} and {keys[-1]} {doubt} not go together; why is not shown, since one of them is "
        "encrypted."
    )
