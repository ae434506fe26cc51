"""This machine: the clock of its boot, which boot that is, and its processes as in /proc."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boottime() -> float:
    """Seconds of CLOCK_BOOTTIME: it goes on while the machine sleeps, and nobody can set it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Another one after each start of the machine: pids and readings of `boottime` that were noted
    before it mean nothing.
    """
    return _BOOT_ID.read_text().strip()


class Stat(NamedTuple):
    """A process that lives. `started` (clock ticks after boot) tells it from a later one with its
    pid; `parent`, `group` and `session` are pids.
    """

    name: str
    parent: int
    group: int
    session: int
    started: int


def process_stat(pid: int) -> Stat | None:
    """None for a process that is gone, and for one that is dead and not yet collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")  # the name may hold blanks and parentheses itself
    fields = tail.split()
    # A leader that has ended while its other threads run is a zombie by name only.
    if fields[0] in "ZX" and int(fields[17]) <= 1:
        return None
    parent, group, session, started = (int(fields[at]) for at in (1, 2, 3, 19))
    return Stat(head.partition("(")[2], parent, group, session, started)
