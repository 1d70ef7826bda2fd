"""Whether the credentials for Prometheus are those that its kind of authentication takes, and encrypted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pydantic import SecretStr

from autoscaling.settings.findings import Finding
from autoscaling.settings.model import PrometheusAuth, Settings
from autoscaling.settings.model_keys import within

_KEY = "prometheus.auth"
_TAKES: Mapping[str, Collection[str]] = {
    "none": (),
    "token": ("token",),
    "basic": ("accessKeyId", "accessKeySecret"),
}


def prometheus_findings(settings: Settings) -> Iterator[Finding]:
    """Every credential that is missing, or that nothing takes."""
    auth = settings.prometheus.auth
    takes, given = _TAKES[auth.type], _given(auth)
    for name in takes:
        if name not in given:
            yield Finding(
                f"{_KEY}.{name} is missing, which {_KEY}.type {auth.type} needs: `{_command(name)}`.",
                (f"{_KEY}.{name}", f"{_KEY}.type"),
                shows_no_value=True,
            )
    for name in given:
        if name not in takes:
            other = next(kind for kind, names in _TAKES.items() if name in names)
            yield Finding(
                f"{_KEY}.{name} is set, and {_KEY}.type is {auth.type}: set type to {other}, or remove it.",
                (f"{_KEY}.{name}", f"{_KEY}.type"),
                shows_no_value=True,
            )


def plain_secrets(settings: Settings, encrypted: Collection[str]) -> Iterator[Finding]:
    """Every secret that stands in the stack's file as it is.

    Args:
        settings: of the stack.
        encrypted: keys with an encrypted value in them.
    """
    for name, value in _given(settings.prometheus.auth).items():
        if isinstance(value, SecretStr) and not any(within(f"{_KEY}.{name}", one) for one in encrypted):
            yield Finding(
                f"{_KEY}.{name} is in plain text in the stack's file: remove it there, and `{_command(name)}`.",
                (f"{_KEY}.{name}",),
                shows_no_value=True,
            )


def _given(auth: PrometheusAuth) -> dict[str, object]:
    values = {str(field.alias): getattr(auth, name) for name, field in PrometheusAuth.model_fields.items()}
    return {name: value for name, value in values.items() if name != "type" and value is not None}


def _command(name: str) -> str:
    secret = "" if name == "accessKeyId" else "--secret "
    return f"pulumi config set {secret}--path {_KEY}.{name}"
