"""Asks Prometheus which series it has at this moment."""

from __future__ import annotations

import httpx

from verify.web import web

_TIMEOUT_SECONDS = 10


class PrometheusError(Exception):
    """Prometheus gave no answer; the message is a phrase without its address, which is a secret."""


def current_series(url: str, selector: str) -> list[dict[str, str]]:
    """Labels of each series that the selector finds, `__name__` among them.

    Args:
        url: HTTP API address of Prometheus, before `/api/v1`; it never becomes part of an error.
        selector: an instant-vector selector.

    Raises:
        PrometheusError: it can't be reached, or does not answer the query.
    """
    try:
        answer = web().get(f"{url.rstrip('/')}/api/v1/query", params={"query": selector}, timeout=_TIMEOUT_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise PrometheusError(f"can't be reached from here ({type(error).__name__})") from None
    try:
        content = answer.json()
        return [sample["metric"] for sample in content["data"]["result"]]
    except (ValueError, KeyError, TypeError):
        raise PrometheusError(f"answers {answer.status_code} to the query {selector}") from None
