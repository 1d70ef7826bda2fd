"""The HTTP client of the checks beside the cluster's: services and Prometheus."""

from __future__ import annotations

import functools

import urllib3


@functools.cache
def web() -> urllib3.PoolManager:
    """One client for all, since each reads the machine's certificates; it ignores the environment's proxies."""
    return urllib3.PoolManager(retries=False)
