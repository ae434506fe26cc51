"""Lets jobs of lost clusters run elsewhere at a bounded rate, the most important first."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

RATE = 50.0
"""Jobs in a second."""
BURST = 50
_ROUNDING = 1e-9


class Bucket:
    """A token bucket. Times are seconds on a clock that never goes back."""

    def __init__(self, rate: float = RATE, burst: int = BURST) -> None:
        self._rate, self._burst = rate, float(burst)
        self._tokens, self._at = float(burst), 0.0

    def take(self, now: float) -> float:
        """Take a token: 0.0 if there was one, else in how many seconds there will be."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1 - _ROUNDING:
            self._tokens = max(0.0, self._tokens - 1)
            return 0.0
        return (1 - self._tokens) / self._rate


class Reruns:
    """Calls `go(uid, cluster)` for each job that was put in, in order of priority, then of age."""

    def __init__(self, go: Callable[[str, str], None], bucket: Bucket | None = None) -> None:
        self._go, self._bucket = go, bucket or Bucket()
        self._heap: list[tuple[int, float, str, str]] = []
        self._waiting: set[tuple[str, str]] = set()
        self._timer: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, uid: str, cluster: str, priority: int, created: float) -> None:
        """A job of a lost cluster; once, however often it is put in."""
        if (uid, cluster) in self._waiting:
            return
        self._waiting.add((uid, cluster))
        heapq.heappush(self._heap, (-priority, created, uid, cluster))
        if self._timer is None:  # all that are put in now are compared
            self._timer = asyncio.get_running_loop().call_soon(self._drain)

    def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._heap:
            if (wait := self._bucket.take(loop.time())) > 0:
                self._timer = loop.call_later(wait, self._drain)
                return
            _, _, uid, cluster = heapq.heappop(self._heap)
            self._waiting.discard((uid, cluster))
            self._go(uid, cluster)

    def close(self) -> None:
        """Call nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap.clear()
        self._waiting.clear()
