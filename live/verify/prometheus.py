"""Read the current series of Prometheus, and the HTTP client for it and for services."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import urllib3

_TIMEOUT_SECONDS = 10


class PrometheusError(Exception):
    """A query failed. The message continues "Prometheus ..." and contains neither address nor header."""


@functools.cache
def web() -> urllib3.PoolManager:
    """Return a shared client, since each new client loads the machine's certificates. It ignores proxy variables."""
    return urllib3.PoolManager(retries=False)


@dataclass(frozen=True)
class Prometheus:
    """The HTTP API of Prometheus, as the adapter uses it."""

    url: str = field(repr=False)
    """Address, without `/api/v1/...`; a secret."""
    headers: Mapping[str, str] = field(repr=False)
    """Headers of each query; secrets."""

    def current_series(self, selector: str) -> list[dict[str, str]]:
        """Return the labels of each series that an instant-vector selector matches, including `__name__`.

        Raises:
            PrometheusError: Prometheus can't be reached, refuses the credentials, or fails.
        """
        try:
            response = web().request(
                "GET",
                f"{self.url.rstrip('/')}/api/v1/query",
                fields={"query": selector},
                headers=dict(self.headers),
                timeout=_TIMEOUT_SECONDS,
            )
        # An invalid header raises a ValueError whose text quotes it.
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise PrometheusError(
                f"can't be reached from this machine ({type(error).__name__}): query {selector} from inside the "
                "cluster's VPC"
            ) from None
        if response.status == 401:
            refused = "the adapter's credentials" if self.headers else "queries without credentials"
            raise PrometheusError(
                f"refuses {refused} (401): set prometheus.auth. An instance of V2 needs type basic with the "
                "accessKeyId and accessKeySecret of a RAM user that may read the instance; V1 needs type token with "
                "the instance's token. Set the secret with `pulumi config set --secret --path prometheus.auth.token` "
                "(or .accessKeySecret)"
            )
        try:
            content = json.loads(response.data)
            return [sample["metric"] for sample in content["data"]["result"]]
        except (ValueError, KeyError, TypeError):
            raise PrometheusError(
                f"responds with status {response.status} to the query {selector}: run it from inside the cluster's VPC"
            ) from None
