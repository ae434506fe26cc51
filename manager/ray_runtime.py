"""Cluster workers as Ray actors: the program that drives Ray, and the one module that imports it.

It is a child of the manager (`manager.ray_process` starts it, and is the other end of its socket),
because Ray's driver is nothing to have in a process that must live: it ends its process when the
GCS has been away for a minute, and calls of it can block for as long. A local Ray belongs to this
program's session, so that all of it can be ended from outside, dead or hung.

An actor is restarted by Ray when its process dies, and starts from a fresh listing of its cluster.
A call that fails with the actor may have been carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray
import structlog
from ray.exceptions import RayError

from federation.edge.telemetry import configure_logging, settle_memory
from manager import sessions
from manager.cluster_worker import ClusterWorker
from manager.frames import receive, send
from manager.leash import ENDS_AFTER_S, Leash
from manager.protocol import ClusterSpec, Command, News, Outcome

log = structlog.get_logger(__name__)

ANSWER_S = 8.0
"""Within this time the GCS says which nodes are alive, or something is wrong with it."""
LEAVE_S = 5.0
PARENT_LOOK_S = 0.5
VITAL = ("gcs_server", "raylet")
"""Processes of a local Ray without which it does nothing. Who asks the GCS alone learns of the end
of a raylet only after half a minute."""


class _Actor:
    """The actor's side: a ClusterWorker whose `run` is started with it."""

    def __init__(self, spec: ClusterSpec) -> None:
        settle_memory()
        self._spec, self._leash = spec, Leash()
        self._worker = ClusterWorker(spec, leash=self._leash)
        self._task: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    def _ensure_running(self) -> None:
        """Begin anew after a bug has ended the worker: it lists its cluster and tells all again."""
        if self._task is not None and self._task.done() and (error := self._task.exception()):
            log.error("cluster.worker_crashed", cluster=self._spec.name, exc_info=error)
            self._worker, self._task = ClusterWorker(self._spec, leash=self._leash), None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._worker.run())
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._end_when_alone())

    async def _end_when_alone(self) -> None:
        while self._leash.silence < ENDS_AFTER_S:  # noqa: ASYNC110  (silence has no event)
            await asyncio.sleep(1)  # see above
        os._exit(0)  # nobody hears of it; if somebody still wants an actor, Ray starts another

    async def begin_again(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._worker, self._task = ClusterWorker(self._spec, leash=self._leash), None
        self._ensure_running()

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        self._ensure_running()
        return await self._worker.apply(commands)

    async def poll(self, instance: str, ack: int) -> News:
        self._ensure_running()
        return await self._worker.poll(instance, ack)


class Driver:
    """Starts actors and passes calls on. Raises what Ray raises."""

    def __init__(self, address: str) -> None:
        self._actors: dict[int, Any] = {}
        self._asking = ThreadPoolExecutor(1, "nodes")
        self._asked: asyncio.Future[list[dict[str, Any]]] | None = None
        own = sessions.members(os.getpid()) if not address else []
        self._vital = [found for found in own if found.name in VITAL]

    async def start(self, key: int, spec: ClusterSpec) -> None:
        """An actor that is this program's: it ends with it."""
        actor_class = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(_Actor)
        self._actors[key] = actor_class.options(name=None).remote(spec)

    async def apply(self, key: int, commands: list[Command]) -> list[Outcome]:
        """See WorkerHandle."""
        outcomes: list[Outcome] = await self._actors[key].apply.remote(commands)
        return outcomes

    async def poll(self, key: int, instance: str, ack: int) -> News:
        """See WorkerHandle."""
        news: News = await self._actors[key].poll.remote(instance, ack)
        return news

    async def begin_again(self, key: int) -> None:
        """See ActorHandle."""
        await self._actors[key].begin_again.remote()

    async def stop(self, key: int) -> None:
        """End an actor; what it was asked for fails."""
        if (actor := self._actors.pop(key, None)) is not None:
            with contextlib.suppress(RayError):
                ray.kill(actor)

    async def check(self) -> str:
        """What is wrong with Ray; '' if nothing is."""
        for known in self._vital:
            if sessions.process(known.pid) != known:
                return f"its process {known.name} ({known.pid}) has ended"
        if self._asked is None:
            loop = asyncio.get_running_loop()
            self._asked = loop.run_in_executor(self._asking, ray.nodes)
        done, _ = await asyncio.wait([self._asked], timeout=ANSWER_S)
        if not done:
            return f"its GCS has not answered for {ANSWER_S:.0f} s"
        asked, self._asked = self._asked, None
        try:
            alive = [node for node in asked.result() if node["Alive"]]
        except Exception as error:  # whatever it is, the GCS did not answer
            return f"its GCS does not answer: {error}"
        return "" if alive else "no node of it is alive"


def _open(address: str, temp_dir: str) -> None:
    """Connect. `address` is empty for a local Ray, whose sockets and logs go below `temp_dir`."""
    options: dict[str, Any] = {"address": address} if address else {
        "address": "local",
        "num_cpus": 0,  # actors ask for none; for each Ray would start an idle process
        "include_dashboard": False,
        "_temp_dir": temp_dir,
        "object_store_memory": 80 * 1024 * 1024,
    }  # fmt: skip
    ray.init(namespace="fedq", log_to_driver=False, configure_logging=False, **options)


async def _serve(fd: int, address: str, opened: str) -> None:
    """Answer requests (number, method, arguments) with (number, error, value), in any order. The
    first message, number 0, says whether Ray could be had.
    """
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=fd))
    send(writer, (0, opened, None))
    driver, tasks = Driver(address), set[asyncio.Task[None]]()

    async def answer(number: int, method: str, arguments: tuple[Any, ...]) -> None:
        try:
            value, error = await getattr(driver, method)(*arguments), ""
        except Exception as failure:  # of Ray, or of an actor
            value, error = None, f"{type(failure).__name__}: {failure}".strip().partition("\n")[0]
        send(writer, (number, error, value))

    with contextlib.suppress(EOFError):
        while not opened:
            task = asyncio.create_task(answer(*await receive(reader)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    with contextlib.suppress(ConnectionError):
        await writer.drain()


def _end() -> None:
    sessions.end(os.getpid(), spare=os.getpid())
    os._exit(0)


def _end_with_parent() -> None:
    """The manager may be killed, and this program's loop may hang: a thread sees to the rest."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(PARENT_LOOK_S)  # of its end nobody tells a process that is not its parent
    _end()


def main() -> None:
    """Serve until the manager is gone, or has closed its end. Arguments: see `ray_process`."""
    fd, address, temp_dir, log_level = int(sys.argv[1]), *sys.argv[2:]
    configure_logging(log_level)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    opened = ""
    try:
        _open(address, temp_dir)
    except Exception as error:  # Ray raises bare Exception when its processes do not start
        opened = f"Ray does not start: {error}"
    asyncio.run(_serve(fd, address, opened))
    if address:  # its actors are elsewhere: they are told, and if that hangs they end by themselves
        leaving = threading.Timer(LEAVE_S, _end)
        leaving.daemon = True
        leaving.start()
        ray.shutdown()
    _end()
