"""Virtual time: an event loop whose clock jumps to the next timer; machines whose clocks differ.

Each program of the simulation runs on a `Host`: all tasks that its first one starts, and all
timers that they set, belong to it (a context variable), and read the clocks of that machine.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVarTuple

Ts = TypeVarTuple("Ts")

EPOCH = 1_790_000_000.0
"""Wall time at the start, seconds since 1970."""
STEP_S = 1e-6
"""What one round of the loop takes: code that spins does not stop time."""
MOST_ROUNDS = 300_000


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


class _Jump:
    """In place of a selector: nothing comes from outside, so waiting is a jump."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everything waits, and nothing will ever happen")
        self._loop.now += max(timeout, STEP_S)
        self._loop.rounds += 1
        if self._loop.rounds > self._loop.most_rounds:
            most = self._loop.most_rounds
            raise Spinning(f"{most} rounds of the loop within {self._loop.now:.0f} s")
        return []

    def close(self) -> None:
        """Nothing is open."""


class _Task(asyncio.Task[Any]):
    """Sets of tasks have the same order in every run: that of their start, not of their address."""

    def __init__(self, number: int, *args: Any, **more: Any) -> None:
        self._number = number
        super().__init__(*args, **more)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """`now` is true time, in seconds since the start; `time()` is the running host's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.rounds = 0
        self.most_rounds = MOST_ROUNDS
        self._selector = _Jump(self)
        numbers = itertools.count()
        self.set_task_factory(
            lambda loop, coro, **more: _Task(next(numbers), coro, loop=loop, **more)
        )
        self.outside: Context = copy_context()
        """The context of what belongs to no program."""

    def time(self) -> float:
        host = HOST.get()
        return self.now if host is None else host.read(self.now)

    def wall(self) -> float:
        """Seconds since 1970, as the running host's wall clock shows."""
        host = HOST.get()
        return EPOCH + self.now + (host.wall if host is not None else 0.0)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        host = HOST.get()
        true = when if host is None else host.true(when)
        return super().call_at(true, callback, *args, context=context)

    def later(self, delay: float, callback: Callable[..., object], *args: Any) -> None:
        """Have something done after a true delay, whoever asks for it."""
        outside = self.outside.copy()
        super().call_at(self.now + delay, callback, *args, context=outside)

    def spawn(self, coro: Any, host: Host | None = None, name: str = "") -> asyncio.Task[Any]:
        """Start a task on a host (None: outside of all programs)."""
        context = self.outside.copy()
        context.run(HOST.set, host)
        return self.create_task(coro, name=name or None, context=context)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody waits for a descriptor."""

    def close(self) -> None:
        self._selector.close()
        super().close()
