"""The processes of pods from outside: started, found again, waited for, ended.

What is known of a process is what it wrote into its own file, so a runner that starts anew finds
all of them there. Each leads a session of its own and outlives its runner.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from federation.edge.machine import boot_id
from fedq.rig.pods import process
from fedq.rig.pods.plan import Plan
from fedq.rig.process import MARK, send, start_time

KILLED = 128 + signal.SIGKILL
"""Exit code of a process that did not say how it ended."""


@dataclass(frozen=True, slots=True)
class Handle:
    """One process; `ticks` is its start, as pids come again."""

    pid: int
    ticks: int
    file: Path

    @classmethod
    async def start(cls, plan: Plan, file: Path, mark: str) -> Self:
        """Start it, with nothing in its environment but that of its containers and `mark`. Returns
        when it has written that it runs, or has died before that.
        """
        argv = [sys.executable, "-I", "-S", process.__file__, *plan.arguments(str(file))]
        ours, theirs = os.pipe()
        try:
            pid = _spawn(argv, {**plan.env, MARK: mark}, theirs)
            ticks = start_time(pid) or -1
            os.close(theirs)
            await _readable(ours)  # closed at the other end
        finally:
            os.close(ours)
        return cls(pid, ticks, file)

    @classmethod
    def find(cls, file: Path) -> Self | None:
        """The process that made this file, dead or alive; None if none did in this boot."""
        try:
            with file.open("rb") as stream:
                start = json.loads(stream.readline())
        except (OSError, ValueError):
            return None
        return cls(start["pid"], start["ticks"], file) if start["boot"] == boot_id() else None

    @property
    def alive(self) -> bool:
        """Whether it still runs, or stands still."""
        return start_time(self.pid) == self.ticks

    def terminate(self) -> None:
        """SIGTERM to the process alone, as a container's first process gets it."""
        if self.alive:
            send(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to its whole session."""
        if self.alive:
            os.killpg(self.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """Wait for its end, without asking again and again."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive:  # not another one that has got its pid
                await _readable(descriptor)
        finally:
            os.close(descriptor)
        _reap(self.pid)

    def exit_code(self) -> int:
        """Of a process that is gone, as it wrote; if it could not, note when that was seen."""
        records = list(_records(self.file))
        for record in records:
            if record["t"] == "stop":
                return int(record["exit"])
        if records and records[-1]["t"] != "gone":
            descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND)
            line = {"t": "gone", "b": round(process.boottime(), 4), "w": round(time.time(), 3)}
            os.write(descriptor, json.dumps(line).encode() + b"\n")
            os.fsync(descriptor)
            os.close(descriptor)
        return KILLED


def _spawn(argv: list[str], env: dict[str, str], started: int) -> int:
    nothing = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    actions = [*nothing, (os.POSIX_SPAWN_DUP2, started, process.STARTED)]
    return os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True)


async def _readable(descriptor: int) -> None:
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_reader(descriptor)


def _records(file: Path) -> list[dict[str, Any]]:
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError:
        return []
    return [json.loads(line) for line in lines[:-1]]


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:  # a former runner's, or reaped already
        return
