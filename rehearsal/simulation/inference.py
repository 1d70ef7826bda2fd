"""The simulated BERT service: the duration and the GPU use of a request.

The service is calibrated to the guide: under `hey -n 10000 -c 200` a single replica reads 23 %, and a target of 20 %
gives two replicas. The client always has 200 requests in flight. A request spends most of its time outside the GPU, in
tokenising and in a Python web server. Two replicas therefore share the 200 requests, each reads half as much, and the
replica count settles. A saturated replica would behave differently: each new replica would be saturated too, and the
count would grow to its maximum.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable

SERVICE_SECONDS = 0.8
"""Mean duration of a request on a GPU that is not saturated."""
SERVICE_JITTER = 0.3
"""Random part of the duration, as a fraction; it keeps requests from ending at the same time."""
SM_PERCENT_PER_REQUEST = 23.0 / 200
"""Use of the streaming multiprocessors (SM) per request in flight."""
MEMORY_USED_MIB = 15343
"""GPU memory of an idle service, as `nvidia-smi` shows it in the guide."""
WINDOW_SECONDS = 2.0
"""Time over which GPU use is averaged."""


class InferenceServer:
    """The server of a pod, which answers requests and records its GPU use."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.in_flight = 0
        self._request_seconds = 0.0
        self._since = clock()
        self._history: deque[tuple[float, float]] = deque([(self._since, 0.0)])

    async def answer(self, query: str) -> str:
        """Wait as long as the request takes on this pod's GPU, then return the intent of the query."""
        self.begin()
        try:
            slowdown = max(1.0, self.in_flight * SM_PERCENT_PER_REQUEST / 100)
            await asyncio.sleep(SERVICE_SECONDS * slowdown * random.uniform(1 - SERVICE_JITTER, 1 + SERVICE_JITTER))
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
        """Return the mean SM use over the last window, 0..100."""
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

    def server_of(self, pod_uid: str) -> InferenceServer:
        """Return the pod's server; create it at its first use."""
        return self._servers.setdefault(pod_uid, InferenceServer())

    def keep_only(self, pod_uids: set[str]) -> None:
        """Remove the servers of all other pods."""
        for pod_uid in self._servers.keys() - pod_uids:
            del self._servers[pod_uid]
