"""Cluster workers as tasks of the manager's own process: for tests, and where Ray cannot be had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from manager.cluster_worker import ClusterWorker
from manager.protocol import ClusterSpec, Command, News, Outcome, WorkerHandle

log = structlog.get_logger(__name__)


class LocalRuntime:
    """Keeps a task for each cluster."""

    name = "in-process"
    problem = ""

    def __init__(self) -> None:
        self._handles: set[TaskHandle] = set()

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        """See Runtime."""

        def begin() -> tuple[ClusterWorker, asyncio.Task[None]]:
            worker = ClusterWorker(spec)
            return worker, asyncio.create_task(worker.run(), name=f"cluster-worker/{spec.name}")

        handle = TaskHandle(*begin(), begin)
        self._handles = {known for known in self._handles if not known.stopped} | {handle}
        return handle

    async def aclose(self) -> None:
        """See Runtime."""
        await asyncio.gather(*(handle.stop() for handle in self._handles))
        self._handles.clear()


class TaskHandle:
    """A worker and the task that runs it. `again` makes both anew; without it a worker that a bug
    has ended stays as it is.
    """

    def __init__(
        self,
        worker: ClusterWorker,
        task: asyncio.Task[None],
        again: Callable[[], tuple[ClusterWorker, asyncio.Task[None]]] | None = None,
    ) -> None:
        self._worker, self._task, self._again = worker, task, again
        self.stopped = False

    def _ensure_running(self) -> None:
        """Begin anew after a bug has ended the worker: it lists its cluster and tells all again."""
        if self._again is None or not self._task.done() or self._task.cancelled():
            return
        if error := self._task.exception():
            log.error("cluster.worker_crashed", cluster=self._worker.spec.name, exc_info=error)
            self._worker, self._task = self._again()

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        """See WorkerHandle."""
        self._ensure_running()
        return await self._worker.apply(commands)

    async def poll(self, instance: str, ack: int) -> News:
        """See WorkerHandle."""
        self._ensure_running()
        return await self._worker.poll(instance, ack)

    async def stop(self) -> None:
        """See WorkerHandle."""
        self.stopped = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
