"""For the length of a run: every source of time and chance of the programs comes from the seed."""

from __future__ import annotations

import contextlib
import datetime as real
import random
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from bench.dst.clock import VirtualLoop
from federation.edge import informer, kube, services
from manager import clusters, queue_status
from tests.fakes import kube_api, light, links
from worker_agent import deadline_file

_PROGRAMS = ("federation.", "manager.", "worker_agent.")
_Random = random.Random
QUEUE_STATUS_S = 5.0
CLUSTER_STATUS_S = 2.0
"""What people read of queues and clusters is written less often here: it decides nothing."""


@contextlib.contextmanager
def deterministic(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """Within: time.*, datetime.now, uuid4 and unseeded generators are the simulation's."""
    chance = _Random(f"chance-{seed}")

    class Seeded(_Random):
        """A generator of which nobody said where it starts."""

        def __init__(self, x: Any = None) -> None:
            super().__init__(chance.getrandbits(64) if x is None else x)

    class Moment(real.datetime):
        """`now` is virtual."""

        @classmethod
        def now(cls, tz: real.tzinfo | None = None) -> Any:
            return real.datetime.fromtimestamp(loop.wall(), tz)

    def timing(**more: Any) -> informer.Timing:
        return replace(_TIMING(**more), clock=loop.time, rng=Seeded())

    def reading(clock: int) -> float:
        return loop.wall() if clock == time.CLOCK_REALTIME else loop.time()

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=chance.getrandbits(128))

    def stay(seconds: float = 0.0) -> None:
        """This process does not end with a program of the simulation."""

    def write(path: Any, text: str, mode: int = 0) -> None:
        path.write_text(text)

    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        for name, function in (("time", loop.wall), ("monotonic", loop.time)):
            enter(mock.patch.object(time, name, function))
        enter(mock.patch.object(time, "clock_gettime", reading))
        enter(mock.patch.object(uuid, "uuid4", uuid4))
        enter(mock.patch.object(random, "Random", Seeded))
        for module in (kube, kube_api, links):
            enter(mock.patch.object(module, "httpx", light))
        enter(mock.patch.object(queue_status, "EVERY_S", QUEUE_STATUS_S))
        enter(mock.patch.object(clusters, "STATUS_S", CLUSTER_STATUS_S))
        enter(mock.patch.object(services, "exit_soon", stay))
        enter(mock.patch.object(deadline_file, "write_atomic", write))
        for name, program in list(sys.modules.items()):
            if not name.startswith(_PROGRAMS):
                continue
            if getattr(program, "datetime", None) is real.datetime:
                enter(mock.patch.object(program, "datetime", Moment))
            if getattr(program, "Timing", None) is _TIMING:
                enter(mock.patch.object(program, "Timing", timing))
        yield


_TIMING = informer.Timing
