"""The processes of a session, as the kernel numbers them: children cannot hide from it.

A program that leads a session of its own can be ended with all that it started, also what its
children left behind: whoever loses its parent stays in the session.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NamedTuple

from federation.edge.machine import process_stat


class Process(NamedTuple):
    """A live process. `started` is in clock ticks after boot, `session` the pid of its leader."""

    pid: int
    name: str
    session: int
    started: int


def process(pid: int) -> Process | None:
    """A process by its pid; None for none, and for one that is dead and not yet collected."""
    found = process_stat(pid)
    return Process(pid, found.name, found.session, found.started) if found else None


def members(session: int) -> list[Process]:
    """The live processes of a session."""
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return [found for pid in pids if (found := process(pid)) and found.session == session]


def end(session: int, spare: int = 0) -> list[str]:
    """SIGKILL all processes of a session but `spare`; their names. A second look finds what was
    being started during the first.
    """
    killed: dict[int, str] = {}
    for _ in range(2):
        for found in members(session):
            if found.pid != spare:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(found.pid, signal.SIGKILL)
                killed[found.pid] = found.name
    return list(killed.values())
