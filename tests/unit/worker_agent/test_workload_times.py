"""When a copy gets its Workload on the worker: never while others still come, if that ends."""

from __future__ import annotations

import asyncio

from bench.dst.clock import VirtualLoop
from federation.edge.resources import WORKLOADS
from tests.unit.manager.support import stop
from tests.unit.manager.virtual import virtually
from tests.unit.worker_agent.support import Worker, mirrored
from worker_agent.workloads import COPY_AFTER_S, COPY_LATEST_S, QUIET_S


class Coming(Worker):
    """Copies come `apart` seconds from each other, `count` of them."""

    def __init__(self, count: int, apart: float) -> None:
        super().__init__(nominal=1000)
        self._count, self._apart = count, apart
        self.came: list[float] = []
        self.written: list[float] = []
        """When each Workload was there, in seconds."""

    def run(self) -> None:
        virtually(self._main)

    async def _main(self, loop: VirtualLoop) -> None:
        async with self.running():
            writer = asyncio.create_task(self.workloads.run())
            looker = asyncio.create_task(self._look(loop))
            for number in range(self._count):
                self.came.append(loop.now)
                self.add(mirrored(f"j-{number}"))
                await asyncio.sleep(self._apart)  # virtual time, as below
            await asyncio.sleep(COPY_AFTER_S + QUIET_S)  # virtual time
            await stop([writer, looker])

    async def _look(self, loop: VirtualLoop) -> None:
        while True:
            there = len(self.fake.items(WORKLOADS))
            self.written += [loop.now] * (there - len(self.written))
            await asyncio.sleep(1)  # virtual time


def test_a_copy_that_comes_alone() -> None:
    world = Coming(1, 0.0)
    world.run()
    assert COPY_AFTER_S <= world.written[0] - world.came[0] <= COPY_AFTER_S + 1


def test_many_copies() -> None:
    """Those of a lost cluster come for half a minute: their Workloads come when they are over."""
    world = Coming(10, 3.0)
    world.run()
    assert len(world.written) == 10
    assert world.written[0] >= world.came[-1] + QUIET_S
    assert world.written[0] <= world.came[-1] + QUIET_S + 2
    assert world.written[-1] <= world.came[-1] + COPY_AFTER_S + 2


def test_copies_that_come_all_the_time() -> None:
    """No Workload waits for that to end."""
    world = Coming(45, 3.0)
    world.run()
    waited = world.written[0] - world.came[0]
    assert COPY_LATEST_S <= waited <= COPY_LATEST_S + 2
