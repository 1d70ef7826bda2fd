"""Reads the current series of Prometheus, with the HTTP client that the checks of services use too."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import urllib3

_TIMEOUT_SECONDS = 10


class PrometheusError(Exception):
    """Prometheus gives no answer. The message continues "Prometheus" and holds neither address nor header."""


@functools.cache
def web() -> urllib3.PoolManager:
    """One client for all, since each reads the machine's certificates; it ignores the environment's proxies."""
    return urllib3.PoolManager(retries=False)


@dataclass(frozen=True)
class Prometheus:
    """The HTTP API of Prometheus, as the adapter uses it."""

    url: str = field(repr=False)
    """Before `/api/v1`; a secret."""
    headers: Mapping[str, str] = field(repr=False)
    """Of each query; secrets."""

    def current_series(self, selector: str) -> list[dict[str, str]]:
        """Return the labels of each series that an instant-vector selector finds, with `__name__`.

        Raises:
            PrometheusError: it can't be reached, refuses the credentials, or does not answer the query.
        """
        try:
            answer = web().request(
                "GET",
                f"{self.url.rstrip('/')}/api/v1/query",
                fields={"query": selector},
                headers=dict(self.headers),
                timeout=_TIMEOUT_SECONDS,
            )
        # A header that can't be sent is a ValueError whose text quotes it.
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise PrometheusError(
                f"can't be reached from here ({type(error).__name__}): ask it for {selector}, inside the cluster's VPC"
            ) from None
        if answer.status == 401:
            refused = "the adapter's credentials" if self.headers else "queries without credentials"
            raise PrometheusError(
                f"refuses {refused} (401): prometheus.auth needs the AccessKey of a RAM user that may read the "
                "instance (type basic, for V2), or the instance's token (type token, for V1)"
            )
        try:
            content = json.loads(answer.data)
            return [sample["metric"] for sample in content["data"]["result"]]
        except (ValueError, KeyError, TypeError):
            raise PrometheusError(
                f"answers {answer.status} to the query {selector}: run it from inside the cluster's VPC"
            ) from None
