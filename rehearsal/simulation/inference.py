"""The simulated BERT service: how long a request takes, and how much of the GPU it uses.

The service is calibrated to the guide: `hey -n 10000 -c 200` reads 23 % on one replica, which gives two replicas at a
target of 20 %. The client always has 200 requests in flight. A request spends most of its time outside the GPU
(tokenising, waiting in a Python web server), so two replicas share the 200 requests and read half as much each, and
the number of replicas settles. If a replica were saturated, each new replica would be saturated too, and the number
would grow to its maximum.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable

SERVICE_SECONDS = 0.8
"""Mean time of a request on a GPU that is not saturated."""
SERVICE_JITTER = 0.3
"""Requests take up to this fraction more or less, so that they do not end in step."""
SM_PERCENT_PER_REQUEST = 23.0 / 200
"""Share of the streaming multiprocessors that one request in flight uses."""
MEMORY_USED_MIB = 15343
"""`nvidia-smi` shows this in the guide for an idle service."""
WINDOW_SECONDS = 2.0
"""The use of the GPU is the mean over this window."""


class InferenceServer:
    """The server of a pod: it answers requests and records its GPU use."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.in_flight = 0
        self._request_seconds = 0.0
        self._since = clock()
        self._history: deque[tuple[float, float]] = deque([(self._since, 0.0)])

    async def answer(self, query: str) -> str:
        """Return the intent of the query after the time that it takes on this pod's GPU."""
        self.begin()
        try:
            full = max(1.0, self.in_flight * SM_PERCENT_PER_REQUEST / 100)
            await asyncio.sleep(SERVICE_SECONDS * full * random.uniform(1 - SERVICE_JITTER, 1 + SERVICE_JITTER))
        finally:
            self.end()
        return "PlayMusic" if "music" in query.lower() else "Unknown"

    def begin(self) -> None:
        """Record that a request starts to use the GPU."""
        self._account(+1)

    def end(self) -> None:
        """Record that a request has ended."""
        self._account(-1)

    def sm_percent(self) -> float:
        """Return the mean use of the streaming multiprocessors over the last window, 0..100."""
        self._account(0)
        now, busy = self._history[-1]
        start, busy_then = self._history[0]
        if now == start:
            return 0.0
        return min(100.0, (busy - busy_then) / (now - start) * SM_PERCENT_PER_REQUEST)

    def _account(self, change: int) -> None:
        now = self._clock()
        self._request_seconds += self.in_flight * (now - self._since)
        self._since = now
        self.in_flight += change
        self._history.append((now, self._request_seconds))
        while len(self._history) > 2 and self._history[1][0] <= now - WINDOW_SECONDS:
            self._history.popleft()


class InferenceServers:
    """The servers of all pods, by pod UID."""

    def __init__(self) -> None:
        self._servers: dict[str, InferenceServer] = {}
        self.answered = 0

    def of(self, pod_uid: str) -> InferenceServer:
        """Return the pod's server, and start it at its first use."""
        return self._servers.setdefault(pod_uid, InferenceServer())

    def forget_all_but(self, pod_uids: set[str]) -> None:
        """Delete the servers of deleted pods."""
        for gone in self._servers.keys() - pod_uids:
            del self._servers[gone]
