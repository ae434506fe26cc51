"""The processes of this machine, as /proc shows them, and signals to exactly those."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from federation.edge.machine import process_stat
from worker_agent.guard.decision import Run, run_of

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One that lives. `started` (ticks after boot) tells it from a later one with its pid."""

    pid: int
    started: int
    parent: int
    group: int
    session: int
    run: Run | None = None

    @property
    def born(self) -> float:
        """When it started, in seconds of CLOCK_BOOTTIME."""
        return self.started / TICKS


def table(only: bytes = b"") -> dict[int, Process]:
    """All that live, by pid. `only` is that of `run_of`."""
    found = (_read(int(entry.name), only) for entry in PROC.iterdir() if entry.name.isdigit())
    return {process.pid: process for process in found if process is not None}


def _read(pid: int, only: bytes) -> Process | None:
    """None for one that is gone, or a zombie."""
    if (found := process_stat(pid)) is None:
        return None
    place = found.parent, found.group, found.session
    return Process(pid, found.started, *place, _run(pid, only))


def _run(pid: int, only: bytes) -> Run | None:
    try:
        return run_of((PROC / str(pid) / "environ").read_bytes(), only)
    except OSError:
        return None


def send(process: Process, number: int) -> None:
    """Signal it, and no other that has got its pid meanwhile."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        found = process_stat(process.pid)
        if found is not None and found.started == process.started:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)
