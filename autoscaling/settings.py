"""Reads a stack's configuration: all its faults together, or the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from autoscaling.cross_checks import findings
from autoscaling.faults import key_of, sentence_of, without_faults
from autoscaling.findings import Finding
from autoscaling.settings_model import Settings

__all__ = ["Settings", "SettingsError", "parse", "warnings"]


class SettingsError(Exception):
    """Every fault of a stack's configuration, one sentence a line."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def parse(values: Mapping[str, Any]) -> Settings:
    """Check a stack's values.

    Args:
        values: key to value, keys without the project's namespace, structured values already decoded.

    Raises:
        SettingsError: with one sentence for each fault.
    """
    told: dict[str, str] = {}
    try:
        settings = Settings.model_validate(dict(values))
    except ValidationError as error:
        faults = error.errors()
        told = {key_of(fault["loc"]): sentence_of(fault) for fault in faults}
        try:
            settings = Settings.model_validate(without_faults(values, faults))
        except ValidationError:
            raise SettingsError(list(told.values())) from None
    found = [one for one in findings(settings) if one.severity == "error" and not _rests_on(one, told)]
    sentences = [*told.values(), *(one.sentence for one in found)]
    if sentences:
        raise SettingsError(sentences)
    return settings


def warnings(settings: Settings) -> list[str]:
    """What the user should know of settings that can be used, one sentence each."""
    return [one.sentence for one in findings(settings) if one.severity == "warning"]


def _rests_on(finding: Finding, faulty: Mapping[str, str]) -> bool:
    """Whether the finding read a value that is already told to be wrong."""
    return any(_within(key, other) or _within(other, key) for key in finding.keys for other in faulty)


def _within(key: str, outer: str) -> bool:
    return key.startswith(outer) and key[len(outer) : len(outer) + 1] in ("", ".", "[")
