"""Managed Prometheus: its settings, and the checks on them."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, SecretStr

from autoscaling.settings.errors import Finding, within
from autoscaling.settings.field_types import Form, Model, Text

if TYPE_CHECKING:
    from autoscaling.settings.stack import Settings

_KEY = "prometheus.auth"
_TAKES: Mapping[str, Collection[str]] = {"none": (), "token": ("token",), "basic": ("accessKeyId", "accessKeySecret")}
_HEADER_PART = Form(r"[!-~]+", "must be visible ASCII characters without white space or line breaks")


def _header_part(value: SecretStr) -> SecretStr:
    _HEADER_PART.check(value.get_secret_value())
    return value


Secret = Annotated[SecretStr, AfterValidator(_header_part)]
"""Encrypted in the settings file, and never shown in a message."""


class PrometheusAuth(Model):
    """How the adapter authenticates. A V1 instance accepts a token or nothing; a V2 instance needs an AccessKey."""

    type: Literal["none", "token", "basic"] = "none"
    """`token` for a V1 instance with a token, `basic` for a V2 instance."""
    token: Secret | None = None
    """The instance's token, encrypted with `pulumi config set --secret --path prometheus.auth.token`."""
    access_key_id: Text | None = None
    """AccessKey ID of a RAM user with the policy `AliyunPrometheusMetricReadAccess`."""
    access_key_secret: Secret | None = None
    """The AccessKey's secret, encrypted with `pulumi config set --secret --path prometheus.auth.accessKeySecret`."""

    @property
    def authorization(self) -> str | None:
        """Value of the HTTP header `Authorization`, a secret; None if the adapter sends no such header."""
        if self.type == "token" and self.token:
            return self.token.get_secret_value()
        if self.type == "basic" and self.access_key_id and self.access_key_secret:
            pair = f"{self.access_key_id}:{self.access_key_secret.get_secret_value()}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        return None


class Prometheus(Model):
    """Who owns the cluster's Managed Prometheus."""

    managed_by: Literal["instance", "addon", "existing"] = "instance"
    """How Managed Prometheus is created: by this stack as an instance (`instance`) or as an addon of the cluster
    (`addon`), or outside this stack (`existing`)."""
    auth: PrometheusAuth = PrometheusAuth()


def prometheus_findings(settings: Settings) -> Iterator[Finding]:
    """Return an error for each credential that is missing or unused."""
    auth = settings.prometheus.auth
    takes, given = _TAKES[auth.type], _given(auth)
    for name in takes:
        if name not in given:
            yield Finding(
                f"{_KEY}.{name} is missing, although {_KEY}.type is {auth.type}: run `{_command(name)}`.",
                ("prometheus",),
            )
    for name in given:
        if name not in takes:
            other = next(kind for kind, names in _TAKES.items() if name in names)
            yield Finding(
                f"{_KEY}.{name} is set, but {_KEY}.type is {auth.type}: set type to {other}, or remove {name}.",
                ("prometheus",),
            )


def plain_secrets(settings: Settings, encrypted: Collection[str]) -> Iterator[Finding]:
    """Return an error for each secret in plain text.

    Args:
        settings: the stack's settings.
        encrypted: keys with encrypted values.
    """
    for name, value in _given(settings.prometheus.auth).items():
        if isinstance(value, SecretStr) and not any(within(f"{_KEY}.{name}", key) for key in encrypted):
            yield Finding(
                f"{_KEY}.{name} is in plain text in the settings file: remove it from the file, then run "
                f"`{_command(name)}`.",
                ("prometheus",),
            )


def _given(auth: PrometheusAuth) -> dict[str, object]:
    values = {str(field.alias): getattr(auth, name) for name, field in PrometheusAuth.model_fields.items()}
    return {name: value for name, value in values.items() if name != "type" and value is not None}


def _command(name: str) -> str:
    secret = "" if name == "accessKeyId" else "--secret "
    return f"pulumi config set {secret}--path {_KEY}.{name}"
