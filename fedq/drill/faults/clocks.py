"""Wall clocks that are wrong, for our own processes: libfaketime before their start.

Only the wall clock is changed: the monotonic and boot-time clocks of a machine do not jump when
somebody sets its time. (libfaketime 0.9.10 then breaks `time.sleep`, which uses the absolute form
of clock_nanosleep; programs that wait with poll or epoll, as ours do, are not touched by that.)
"""

from __future__ import annotations

import asyncio
import glob
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fedq.drill.faults.processes import kill
from fedq.rig.errors import RigError
from fedq.rig.rig import Rig

PLACES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)


def library() -> str:
    """Path of libfaketime; empty when it is not installed."""
    found = [path for place in PLACES for path in glob.glob(place)]
    return found[0] if found else ""


def environment(offset_s: float, rate: float = 1.0) -> dict[str, str]:
    """What to add to the environment of a process so that its wall clock is `offset_s` off and
    runs `rate` times as fast. Raises RigError when the library is missing.
    """
    path = library()
    if not path:
        raise RigError(
            "libfaketime is not installed",
            f"looked in {', '.join(PLACES)}",
            "apt-get install libfaketime",
        )
    speed = "" if rate == 1.0 else f" x{rate}"
    return {
        "LD_PRELOAD": path,
        "FAKETIME": f"{offset_s:+.0f}s{speed}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


@asynccontextmanager
async def skewed(rig: Rig, name: str, offset_s: float) -> AsyncIterator[None]:
    """A process is started anew with its wall clock off by `offset_s`, and with the right one after
    the block.
    """
    process = rig.process(name)
    if process is None:
        raise RigError(f"{name} does not run", f"in the rig {rig.home}")
    added = environment(offset_s)
    await _start_anew(rig, name, {**process.env, **added})
    try:
        yield
    finally:
        await _start_anew(rig, name, process.env)


async def _start_anew(rig: Rig, name: str, env: dict[str, str]) -> None:
    await kill(rig, name)
    await asyncio.to_thread(rig.restart, name, env)
