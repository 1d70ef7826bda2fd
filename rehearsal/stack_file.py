"""The configuration of the stack that is rehearsed, checked before anything is built or started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from autoscaling.settings import Settings, SettingsError, parse
from rehearsal.errors import RehearsalError
from rehearsal.layout import STACK

_NAMESPACE = "ackgpu:"


def rehearsed_settings(checkout: Path) -> Settings:
    """Read the settings as the program will.

    Raises:
        RehearsalError: the file is missing, is no YAML, or the program would refuse it.
    """
    path = checkout / f"Pulumi.{STACK}.yaml"
    try:
        content = yaml.safe_load(path.read_text())
        values = {
            key.removeprefix(_NAMESPACE): _readable(value)
            for key, value in content["config"].items()
            if key.startswith(_NAMESPACE)
        }
        return parse(values)
    except SettingsError as error:
        raise RehearsalError(f"{path.name} can't be used:\n{error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RehearsalError(f"{path.name} can't be read ({error}): restore it from the repository.") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise RehearsalError(f"{path.name} is no YAML at line {line}: {error.problem}.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise RehearsalError(f"{path.name} is no YAML that can be read ({reason}): mend it.") from None
    except (KeyError, TypeError, AttributeError):
        raise RehearsalError(f"{path.name} has no map `config`: restore it from the repository.") from None


def _readable(value: Any) -> Any:
    """What is encrypted stands for what is in it, which only the engine can read."""
    if isinstance(value, dict):
        if value.keys() == {"secure"}:
            return value["secure"]
        return {key: _readable(item) for key, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list) else value
