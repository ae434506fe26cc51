"""Ray in a process of its own, as the manager sees it: started, asked, ended with all it started.

The process leads a session. A local Ray lives in it; whatever state Ray is in, killing the session
is the end of all its workers. What a manager that was killed may have left is found by its record.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from federation.edge.machine import boot_id
from manager import sessions
from manager.frames import receive, send
from manager.leash import LEASH_S
from manager.protocol import ClusterSpec, Command, News, Outcome, WorkerUnavailable
from manager.runtime import ActorHandle

log = structlog.get_logger(__name__)

PROGRAM = "from manager.ray_runtime import main; main()"
CHECK_S = 10.0
SESSIONS_KEPT = 5
GONE_LOOK_S = 0.02
LEAVE_S = 7.0
"""A driver of a Ray elsewhere may take this long to take its leave there."""


@dataclass(frozen=True, slots=True)
class RaySettings:
    """`address` is that of a Ray cluster; '' for a local Ray. `folder` is where a local one keeps
    its sockets and logs, and where drivers are recorded.
    """

    address: str
    folder: Path
    log_level: str = "info"


class RayProcess:
    """A backend for cluster workers. Made by `open_ray`."""

    name = "ray"

    def __init__(
        self,
        settings: RaySettings,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._settings, self._process, self._writer = settings, process, writer
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._lost = ""
        self._actors = False
        opened = self._expect()
        assert opened[0] == 0, "the first message says whether Ray could be had"
        self.opened = opened[1]
        self._record = settings.folder / f"driver-{process.pid}.json"
        self._listening = asyncio.create_task(self._listen(reader))

    def _expect(self) -> tuple[int, asyncio.Future[Any]]:
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._waiting[number] = future
        return number, future

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(EOFError):
            while True:
                number, error, value = await receive(reader)
                if (future := self._waiting.pop(number, None)) and not future.done():
                    if error:
                        future.set_exception(WorkerUnavailable(error))
                    else:
                        future.set_result(value)
        self._fail("the process that drives Ray has ended")

    def _fail(self, why: str) -> None:
        self._lost = self._lost or why
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerUnavailable(self._lost))
        self._waiting.clear()

    async def call(self, method: str, *arguments: Any) -> Any:
        """Have the driver do something. Raises WorkerUnavailable; waits as long as Ray does."""
        if self._lost:
            raise WorkerUnavailable(self._lost)
        number, future = self._expect()
        send(self._writer, (number, method, arguments))
        try:
            return await future
        finally:
            self._waiting.pop(number, None)

    async def start(self, spec: ClusterSpec) -> ActorHandle:
        """See Runtime."""
        key, self._actors = next(self._numbers), True
        try:
            async with asyncio.timeout(CHECK_S):
                await self.call("start", key, spec)
        except TimeoutError:
            raise WorkerUnavailable(f"no actor could be asked for within {CHECK_S:.0f} s") from None
        return _ActorHandle(self, key)

    async def check(self) -> str:
        """What is wrong with Ray; '' if nothing is."""
        try:
            async with asyncio.timeout(CHECK_S):
                return str(await self.call("check"))
        except TimeoutError:
            return f"the process that drives Ray has not answered for {CHECK_S:.0f} s"
        except WorkerUnavailable as error:
            return str(error)

    async def aclose(self) -> None:
        """End it. When this returns, none of its workers writes any more."""
        self._fail("Ray was given up")
        self._writer.close()
        left = bool(self._settings.address) and await self._ended_by_itself()
        killed = sessions.end(self._process.pid)
        await self._process.wait()
        while sessions.members(self._process.pid):  # noqa: ASYNC110  (of others' ends nobody tells)
            await asyncio.sleep(GONE_LOOK_S)  # see above
        self._listening.cancel()
        self._record.unlink(missing_ok=True)
        log.info("ray.ended", processes=len(killed))
        if self._settings.address and self._actors and not left:
            await asyncio.sleep(LEASH_S)  # its actors are out of reach, and end by themselves

    async def _ended_by_itself(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                return await self._process.wait() == 0
        return False

    def record(self) -> None:
        """Leave word of what to end, should this manager be killed."""
        owner, driver = sessions.process(os.getpid()), sessions.process(self._process.pid)
        self._record.write_text(json.dumps({"boot": boot_id(), "owner": owner, "driver": driver}))


class _ActorHandle:
    def __init__(self, process: RayProcess, key: int) -> None:
        self._ray, self._key = process, key

    async def apply(self, commands: list[Command]) -> list[Outcome]:
        """See WorkerHandle."""
        outcomes: list[Outcome] = await self._ray.call("apply", self._key, commands)
        return outcomes

    async def poll(self, instance: str, ack: int) -> News:
        """See WorkerHandle."""
        news: News = await self._ray.call("poll", self._key, instance, ack)
        return news

    async def begin_again(self) -> None:
        """See ActorHandle."""
        await self._ray.call("begin_again", self._key)

    async def stop(self) -> None:
        """See WorkerHandle."""
        with contextlib.suppress(WorkerUnavailable):
            await self._ray.call("stop", self._key)


async def open_ray(settings: RaySettings) -> RayProcess:
    """Start the process and wait until it has Ray. Raises WorkerUnavailable; if it is cancelled,
    everything that was started is ended.
    """
    settings.folder.mkdir(parents=True, exist_ok=True)
    end_leftovers(settings.folder)
    await asyncio.to_thread(_remove_old_sessions, settings.folder)
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(theirs.fileno()), settings.address,
            str(settings.folder), settings.log_level,
            pass_fds=(theirs.fileno(),), start_new_session=True, stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    reader, writer = await asyncio.open_connection(sock=ours)
    found = RayProcess(settings, process, reader, writer)
    try:
        found.record()
        await found.opened
    except BaseException:  # a cancellation too must not leave its processes
        await found.aclose()
        raise
    return found


def end_leftovers(folder: Path) -> None:
    """End what drivers of dead managers have left. The pid of a driver that is in other hands by
    now is left alone, as is the driver of a manager that lives.
    """
    for file in folder.glob("driver-*.json"):
        try:
            known = json.loads(file.read_text())
            owner, driver = sessions.Process(*known["owner"]), sessions.Process(*known["driver"])
        except (OSError, ValueError, TypeError, KeyError):
            file.unlink(missing_ok=True)
            continue
        if known["boot"] == boot_id():
            if sessions.process(owner.pid) == owner:
                continue
            if sessions.process(driver.pid) in (None, driver):
                killed = sessions.end(driver.pid)
                log.info("ray.leftovers_ended", driver=driver.pid, processes=killed)
        file.unlink(missing_ok=True)


def _remove_old_sessions(folder: Path) -> None:
    """Ray leaves the logs of each local one behind. Its folder ends with the pid of its driver."""
    for found in sorted(folder.glob("session_*_*"))[:-SESSIONS_KEPT]:
        pid = found.name.rpartition("_")[2]
        if pid.isdigit() and sessions.process(int(pid)) is None:
            shutil.rmtree(found, ignore_errors=True)
