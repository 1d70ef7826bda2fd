"""One HTTP client for all checks: each client of its own would read the machine's certificates anew."""

from __future__ import annotations

import functools

import httpx


@functools.cache
def web() -> httpx.Client:
    """Without the environment's proxies: what is checked is inside a cluster or on this machine."""
    return httpx.Client(trust_env=False)
