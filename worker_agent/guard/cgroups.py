"""Control groups (version 2): which belong to a run, and killing one with all that is in it.

A container has one of its own. What runs in it stays in it, whatever it does to its parents, its
session and its environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from worker_agent.guard.decision import Run
from worker_agent.guard.processes import Process

MOUNTS = Path("/proc/self/mounts")
PROCS, KILL = "cgroup.procs", "cgroup.kill"


def mount() -> Path | None:
    """Where the hierarchy of version 2 is; None without one."""
    for line in MOUNTS.read_text().splitlines():
        _, folder, kind, *_ = line.split(" ")
        if kind == "cgroup2":
            return Path(folder.encode().decode("unicode_escape"))
    return None


def members(root: Path) -> dict[Path, set[int]]:
    """The processes that are directly in each group below `root`, itself left out.

    Paths in /proc depend on the namespace of whoever reads them, so the groups are asked.
    """
    found = {}
    for folder, _, files in os.walk(root):
        if PROCS in files and folder != str(root) and (pids := _pids(Path(folder))):
            found[Path(folder)] = pids
    return found


def _pids(group: Path) -> set[int]:
    try:
        return {int(pid) for pid in (group / PROCS).read_text().split()}
    except OSError:  # gone, or of a type that has none
        return set()


def owned(groups: Mapping[Path, set[int]], processes: Mapping[int, Process], run: Run) -> set[Path]:
    """The groups that belong to a run as a whole: the first process that lives in one is of that
    run, as in a container, and none is of another run or this guard itself. In the group of a login
    session or of a service some other process was first.
    """
    found = set()
    for group, inside in groups.items():
        living = [processes[pid] for pid in inside if pid in processes]
        strangers = {process.run for process in living} - {None, run}
        if living and not strangers and os.getpid() not in inside:
            first = min(living, key=lambda process: (process.started, process.pid))
            if first.run == run:
                found.add(group)
    return found


def kill(group: Path) -> bool:
    """SIGKILL to all in it. False where the kernel cannot do that (before 5.14), or nothing is
    there any more.
    """
    try:
        (group / KILL).write_text("1")
    except OSError:
        return False
    return True
