"""The simulated BERT service: how long a request takes, and how much of the GPU it uses meanwhile.

Calibrated to the guide: `hey -n 10000 -c 200` reads 23 % on one replica, which at a target of 20 % gives two.
The client is a closed loop, so it always has 200 requests in flight; what decides is that a request spends its
time mostly outside the GPU (tokenising, waiting in a Python web server). Two replicas then share the same 200
requests and read half as much each, and the count settles. Were a replica saturated, each new one would be
saturated too, and the count would climb to its maximum.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable

SERVICE_SECONDS = 0.8
"""Mean time of a request on a GPU that is not full."""
SERVICE_JITTER = 0.3
"""Requests take up to this fraction more or less, so that they do not end in step."""
SM_PERCENT_PER_REQUEST = 23.0 / 200
"""Share of the streaming multiprocessors that one request in flight uses."""
MEMORY_USED_MIB = 15343
"""What `nvidia-smi` shows in the guide, idle."""
WINDOW_SECONDS = 2.0
"""Utilisation is the mean over this window."""


class InferenceServer:
    """One pod's server: answers requests and keeps account of its GPU use."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.in_flight = 0
        self._request_seconds = 0.0
        self._since = clock()
        self._history: deque[tuple[float, float]] = deque([(self._since, 0.0)])

    async def answer(self, query: str) -> str:
        """The intent of the query, after the time it takes on this pod's GPU."""
        self.begin()
        try:
            full = max(1.0, self.in_flight * SM_PERCENT_PER_REQUEST / 100)
            await asyncio.sleep(SERVICE_SECONDS * full * random.uniform(1 - SERVICE_JITTER, 1 + SERVICE_JITTER))
        finally:
            self.end()
        return "PlayMusic" if "music" in query.lower() else "Unknown"

    def begin(self) -> None:
        """A request starts to use the GPU."""
        self._account(+1)

    def end(self) -> None:
        """A request has ended."""
        self._account(-1)

    def sm_percent(self) -> float:
        """Mean use of the streaming multiprocessors over the last window, 0..100."""
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
        """The pod's server, started at its first use."""
        return self._servers.setdefault(pod_uid, InferenceServer())

    def forget_all_but(self, pod_uids: set[str]) -> None:
        """Drop the servers of pods that are gone."""
        for gone in self._servers.keys() - pod_uids:
            del self._servers[gone]
