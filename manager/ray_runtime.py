"""Cluster workers as Ray actors. The one module that imports ray.

An actor is restarted by Ray when its process dies, and starts from a fresh listing of its
cluster. A call that fails with the actor may have been carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Any, TypeVar

import ray
import structlog
from ray.exceptions import RayError

from federation.edge.telemetry import settle_memory
from manager.cluster_worker import ClusterWorker
from manager.protocol import (
    ClusterSpec,
    Command,
    News,
    Outcome,
    WorkerHandle,
    WorkerUnavailable,
)

log = structlog.get_logger(__name__)
T = TypeVar("T")

CALL_TIMEOUT_S = 60.0


class _Actor:
    """The actor's side: a ClusterWorker whose `run` is started with it."""

    def __init__(self, spec: ClusterSpec) -> None:
        settle_memory()
        self._spec, self._worker = spec, ClusterWorker(spec)
        self._task: asyncio.Task[None] | None = None

    def _ensure_running(self) -> None:
        """Begin anew after a bug has ended the worker: it lists its cluster and tells all again."""
        if self._task is not None and self._task.done() and (error := self._task.exception()):
            log.error("cluster.worker_crashed", cluster=self._spec.name, exc_info=error)
            self._worker, self._task = ClusterWorker(self._spec), None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._worker.run())

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        self._ensure_running()
        return await self._worker.apply(commands)

    async def poll(self, instance: str, ack: int) -> News:
        self._ensure_running()
        return await self._worker.poll(instance, ack)


class _ActorHandle:
    """The manager's side of an actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        """See WorkerHandle."""
        return await _answer(self._actor.apply.remote(commands))

    async def poll(self, instance: str, ack: int) -> News:
        """See WorkerHandle."""
        return await _answer(self._actor.poll.remote(instance, ack))

    async def stop(self) -> None:
        """See WorkerHandle."""
        with contextlib.suppress(RayError):
            ray.kill(self._actor)


async def _answer(ref: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await ref
    except (RayError, TimeoutError) as error:
        raise WorkerUnavailable(f"{type(error).__name__}: {error}") from error


class RayRuntime:
    """Actors on a Ray cluster: a local one, or the one `RAY_ADDRESS` names."""

    name = "ray"

    def __init__(self, address: str, temp_dir: str) -> None:
        """`address` is empty for a local Ray, whose sockets and logs go below `temp_dir`.

        Raises WorkerUnavailable when Ray cannot be had.
        """
        options: dict[str, Any] = {"address": address} if address else {
            "address": "local",
            "num_cpus": 2,
            "include_dashboard": False,
            "_temp_dir": temp_dir,
            "object_store_memory": 80 * 1024 * 1024,
        }  # fmt: skip
        try:
            ray.init(namespace="fedq", log_to_driver=False, configure_logging=False, **options)
        except Exception as error:  # Ray raises bare Exception when its processes do not start
            ray.shutdown()
            raise WorkerUnavailable(f"Ray does not start: {error}") from error

    async def start(self, spec: ClusterSpec) -> WorkerHandle:
        """See Runtime. The actor is this manager's: it ends with it."""
        actor_class = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(_Actor)
        return _ActorHandle(actor_class.options(name=None).remote(spec))

    async def aclose(self) -> None:
        """See Runtime."""
        ray.shutdown()
