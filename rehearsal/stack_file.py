"""Check the settings of the stack `rehearsal` before anything is built or started."""

from __future__ import annotations

from pathlib import Path

from autoscaling.settings import Settings, SettingsError
from autoscaling.settings.stack_file import check_file
from rehearsal.errors import RehearsalError
from rehearsal.layout import STACK


def rehearsed_settings(checkout: Path) -> Settings:
    """Read the settings as the program does.

    Raises:
        RehearsalError: the file is missing, unreadable or has invalid settings.
    """
    path = checkout / f"Pulumi.{STACK}.yaml"
    try:
        return check_file(path).settings
    except SettingsError as error:
        raise RehearsalError(f"{path.name} is not valid:\n{error}") from None
