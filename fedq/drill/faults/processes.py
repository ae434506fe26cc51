"""Processes of a rig that stand still or die.

A process is named as the rig names it (`worker-1/etcd`, `agent/worker-1`, `manager`); what it
started belongs to it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from federation.edge.machine import process_stat
from fedq.rig.errors import RigError
from fedq.rig.process import marked, send
from fedq.rig.rig import Rig
from manager.sessions import members


def pids(rig: Rig, *names: str) -> list[int]:
    """The live processes of these names and their descendants. Raises RigError if one has none.

    Some overwrite their environment, and with it the mark by which descendants are found (Redis,
    with its title): those are known by their record alone.
    """
    found = {pid: name for pid, name in marked(rig.home) if name in names}
    for name in names:
        if (process := rig.process(name)) is not None and process.running:
            found[process.pid] = name
    if missing := set(names) - set(found.values()):
        raise RigError(f"{', '.join(sorted(missing))} does not run", f"in the rig {rig.home}")
    return list(found)


@asynccontextmanager
async def frozen(rig: Rig, *names: str) -> AsyncIterator[list[int]]:
    """They stand still (SIGSTOP) while the block runs: connections stay open, nothing answers.

    They wake up in the order of `names`.
    """
    stopped = [pid for name in names for pid in await asyncio.to_thread(pids, rig, name)]
    try:
        for pid in stopped:
            send(pid, signal.SIGSTOP)
        yield stopped
    finally:
        for pid in stopped:
            send(pid, signal.SIGCONT)


def of_cluster(rig: Rig, cluster: str) -> list[str]:
    """Names of all processes of the rig that run on the machines of a cluster."""
    names = {name for _, name in marked(rig.home)}
    return sorted(n for n in names if n.startswith(f"{cluster}/") or n.endswith(f"/{cluster}"))


@asynccontextmanager
async def dead(rig: Rig, *names: str, tree: bool = True) -> AsyncIterator[None]:
    """They are killed (SIGKILL), and started again as they were after the block.

    With `tree` their descendants die as well, as in a container; else they are left behind.
    """
    await kill(rig, *names, tree=tree)
    try:
        yield
    finally:
        for name in names:
            await asyncio.to_thread(rig.restart, name)


async def kill(rig: Rig, *names: str, tree: bool = True) -> None:
    """Kill them (SIGKILL) and leave it to others to start them again."""
    for pid in await asyncio.to_thread(pids, rig, *names):
        if tree or _leads(rig, names, pid):
            send(pid, signal.SIGKILL)


def _leads(rig: Rig, names: Iterable[str], pid: int) -> bool:
    known = (rig.process(name) for name in names)
    return any(process is not None and process.pid == pid for process in known)


def running_part(rig: Rig, name: str, *words: str) -> list[int]:
    """Pids among what a process has started whose command line contains one of `words`, such as
    `raylet` of the manager. Empty when there is none.

    They are known by their session: one that shows a title of its own, as an actor of Ray does, has
    overwritten the mark of its rig with it.
    """
    found = []
    leaders = {stat.session for pid in marks(rig, name) if (stat := process_stat(pid)) is not None}
    for pid in sorted({member.pid for leader in leaders for member in members(leader)}):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it ended meanwhile
            continue
        if any(word in line for word in words):
            found.append(pid)
    return found


def marks(rig: Rig, name: str) -> list[int]:
    """The live processes that carry the mark of this one, itself included."""
    return [pid for pid, owner in marked(rig.home) if owner == name]


def strike(pid: int, signum: int = signal.SIGKILL) -> None:
    """A signal to one process; nothing if it is gone."""
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return
