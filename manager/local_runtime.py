"""Cluster workers as tasks of the manager's own process: for tests, and where Ray cannot be had."""

from __future__ import annotations

import asyncio

from manager.cluster_worker import ClusterWorker
from manager.protocol import ClusterSpec, Command, News, Outcome, WorkerHandle


class LocalRuntime:
    """Keeps a task for each cluster."""

    name = "in-process"

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        """See Runtime."""
        worker = ClusterWorker(spec)
        task = asyncio.create_task(worker.run(), name=f"cluster-worker/{spec.name}")
        self._tasks.add(task)
        return _TaskHandle(worker, task)

    async def aclose(self) -> None:
        """See Runtime."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _TaskHandle:
    def __init__(self, worker: ClusterWorker, task: asyncio.Task[None]) -> None:
        self._worker, self._task = worker, task

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        """See WorkerHandle."""
        return await self._worker.apply(commands)

    async def poll(self, instance: str, ack: int) -> News:
        """See WorkerHandle."""
        return await self._worker.poll(instance, ack)

    async def stop(self) -> None:
        """See WorkerHandle."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
