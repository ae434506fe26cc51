"""The processes of this machine, as /proc shows them, and signals to exactly those."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

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
    fields = _stat(pid)
    if fields is None:
        return None
    state, parent, group, session = fields[0], int(fields[1]), int(fields[2]), int(fields[3])
    # A leader that has ended while its other threads run is a zombie by name only.
    if state in "ZX" and int(fields[17]) <= 1:
        return None
    return Process(pid, int(fields[19]), parent, group, session, _run(pid, only))


def _stat(pid: int) -> list[str] | None:
    try:
        stat = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in parentheses may itself hold blanks and parentheses: count from its end.
    return stat[stat.rindex(")") + 2 :].split()


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
        fields = _stat(process.pid)
        if fields is not None and int(fields[19]) == process.started:
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)
