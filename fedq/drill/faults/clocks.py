"""Wall clocks that jump while our own processes run: libfaketime before their start.

It reads how far a clock is off from a file, at each look at the clock (FAKETIME_NO_CACHE): what is
written there takes effect at once, in that process and in what it started. Only the wall clock is
changed: the monotonic and boot-time clocks of a machine do not jump when somebody sets its time,
nor do the times of files. (libfaketime 0.9.10 breaks `time.sleep`, which uses the absolute form of
clock_nanosleep; programs that wait with poll or epoll, as ours do, are not touched by that.)
"""

from __future__ import annotations

import asyncio
import glob
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from federation.edge.files import write_atomic
from fedq.drill.faults.processes import marks, strike
from fedq.rig.errors import RigError
from fedq.rig.process import start_time
from fedq.rig.rig import Rig

PLACES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)

SHARED = ("/dev/shm/faketime_shm_*", "/dev/shm/sem.faketime_sem_*")
"""Files that the library leaves behind of a process that is killed, called by its pid: the next one
with that pid could not start with it.
"""


def library() -> str:
    """Path of libfaketime; empty when it is not installed."""
    found = [path for place in PLACES for path in glob.glob(place)]
    return found[0] if found else ""


class WallClock:
    """That of one process: `file` says how far it is off."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, offset_s: float) -> None:
        """It jumps to so many seconds ahead of the true time (behind it: below 0), and goes on."""
        write_atomic(self._file, f"{offset_s:+.0f}s\n")

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to have this clock. Raises RigError when the library is missing."""
        if not (path := library()):
            raise RigError(
                "libfaketime is not installed",
                f"looked in {', '.join(PLACES)}",
                "apt-get install libfaketime",
            )
        return {
            "LD_PRELOAD": path,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
            "FAKETIME_DISABLE_SHM": "1",  # later than 0.9.10; see SHARED
            "NO_FAKE_STAT": "1",
        }


@asynccontextmanager
async def settable(rig: Rig, *names: str) -> AsyncIterator[dict[str, WallClock]]:
    """Processes are started anew with clocks that can be set while they run, by their names, and
    as they were after the block. Raises RigError if one does not run.
    """
    before = {}
    for name in names:
        if (process := rig.process(name)) is None:
            raise RigError(f"{name} does not run", f"in the rig {rig.home}")
        before[name] = process.env
    folder = rig.data_dir("clocks")
    clocks = {name: WallClock(folder / name.replace("/", "-")) for name in names}
    changed = {name: {**before[name], **clock.environment} for name, clock in clocks.items()}
    try:
        for name, env in changed.items():
            await asyncio.to_thread(_start_anew, rig, name, env)
        yield clocks
    finally:
        for name, env in before.items():
            await asyncio.to_thread(_start_anew, rig, name, env)
        await asyncio.to_thread(_sweep)


def _start_anew(rig: Rig, name: str, env: dict[str, str]) -> None:
    for pid in marks(rig, name):
        strike(pid)
    rig.restart(name, env)


def _sweep() -> None:
    """Remove what the library left behind of processes that are gone."""
    for file in map(Path, (path for pattern in SHARED for path in glob.glob(pattern))):
        pid = file.name.rpartition("_")[2]
        if pid.isdecimal() and start_time(int(pid)) is None:
            file.unlink(missing_ok=True)
