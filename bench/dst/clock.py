"""Virtual time: an event loop whose clock jumps to the next timer; machines whose clocks differ.

Each program of the simulation runs on a `Host`: all tasks that its first one starts, and all
timers that they set, belong to it (a context variable), and read the clocks of that machine.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")

EPOCH = 1_790_000_000.0
"""Wall time at the start, seconds since 1970."""
STEP_S = 1e-6
"""What one round of the loop takes: code that spins does not stop time."""
SOON_S = 1e-9
"""Timers that are so close to each other are due together."""
MOST_ROUNDS = 300_000
FEW_TIMERS = 100
"""The heap is not swept for less."""


class Spinning(Exception):
    """The loop went round more often than any run of this length has to."""


@dataclass
class Host:
    """A machine. Its monotonic clock began at `start` and runs `rate` times as fast as true time;
    its wall clock is `wall` seconds off, and somebody may change that.
    """

    name: str
    rate: float = 1.0
    start: float = 0.0
    wall: float = 0.0

    def read(self, true: float) -> float:
        """Its monotonic clock at a true time."""
        return self.start + true * self.rate

    def true(self, reading: float) -> float:
        """When its clock shows a reading."""
        return (reading - self.start) / self.rate


HOST: ContextVar[Host | None] = ContextVar("HOST", default=None)


class _Task(asyncio.Task[Any]):
    """Sets of tasks have the same order in every run: that of their start, not of their address."""

    def __init__(self, number: int, *args: Any, **more: Any) -> None:
        self._number = number
        super().__init__(*args, **more)

    def __hash__(self) -> int:
        return self._number


class _Handle(asyncio.Handle):
    """As asyncio's, without what it does for a debugger: half of its cost."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._loop, self._callback, self._args = loop, callback, args
        self._context = copy_context() if context is None else context
        self._cancelled, self._repr, self._source_traceback = False, None, None

    def cancel(self) -> None:
        self._cancelled, self._callback, self._args = True, _nothing, ()


def _nothing(*args: Any) -> None:
    """In place of what was cancelled, which need not live on."""


class _Timer(_Handle, asyncio.TimerHandle):
    """The loop orders them by time and then by age; they are never compared."""

    __slots__ = ()
    _loop: VirtualLoop
    _when: float
    _scheduled: bool

    def cancel(self) -> None:
        self._loop.forgotten += self._scheduled and not self._cancelled
        _Handle.cancel(self)


class VirtualLoop(asyncio.BaseEventLoop):
    """`now` is true time, in seconds since the start; `time()` is the running host's clock.

    Its rounds are those of asyncio, except that nothing comes from outside: waiting is a jump to
    the next timer.
    """

    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.rounds = 0
        self.most_rounds = MOST_ROUNDS
        self.forgotten = 0
        """How many timers were cancelled and are still in the heap."""
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._ages = itertools.count()
        numbers = itertools.count()
        self.set_task_factory(
            lambda loop, coro, **more: _Task(next(numbers), coro, loop=loop, **more)
        )
        self.outside: Context = copy_context()
        """The context of what belongs to no program."""

    def time(self) -> float:
        host = HOST.get()
        return self.now if host is None else host.start + self.now * host.rate

    def wall(self) -> float:
        """Seconds since 1970, as the running host's wall clock shows."""
        host = HOST.get()
        return EPOCH + self.now + (host.wall if host is not None else 0.0)

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        host = HOST.get()
        true = delay if host is None else delay / host.rate
        return self._set(self.now + true, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        host = HOST.get()
        true = when if host is None else host.true(when)
        return self._set(true, callback, args, context)

    def later(self, delay: float, callback: Callable[..., object], *args: Any) -> None:
        """Have something done after a true delay, whoever asks for it."""
        self._set(self.now + delay, callback, args, self.outside.copy())

    def _set(
        self,
        true: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
    ) -> _Timer:
        timer = _Timer(callback, args, self, context)
        timer._when, timer._scheduled = true, True
        heapq.heappush(self._timers, (true, next(self._ages), timer))
        return timer

    def spawn(self, coro: Any, host: Host | None = None, name: str = "") -> asyncio.Task[Any]:
        """Start a task on a host (None: outside of all programs)."""
        context = self.outside.copy()
        context.run(HOST.set, host)
        return self.create_task(coro, name=name or None, context=context)

    def _run_once(self) -> None:
        """One round: what was ready at its beginning runs, and the timers that are due."""
        timers, ready = self._timers, self._ready
        if 2 * self.forgotten > len(timers) > FEW_TIMERS:
            timers[:] = [entry for entry in timers if not entry[2]._cancelled]
            heapq.heapify(timers)
            self.forgotten = 0
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self.forgotten -= 1
        self.rounds += 1
        if self.rounds > self.most_rounds:
            raise Spinning(f"{self.most_rounds} rounds of the loop within {self.now:.0f} s")
        self.now += STEP_S
        if not ready and not self._stopping:
            if not timers:
                raise RuntimeError("everything waits, and nothing will ever happen")
            self.now = max(self.now, timers[0][0])
        due = self.now + SOON_S
        while timers and timers[0][0] < due:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            if timer._cancelled:
                self.forgotten -= 1
            else:
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def close(self) -> None:
        super().close()
        self._timers.clear()
