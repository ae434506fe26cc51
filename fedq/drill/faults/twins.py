"""A second process beside one that runs, with the same credentials and its own files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fedq.rig.errors import RigError
from fedq.rig.rig import Rig


@asynccontextmanager
async def twin(rig: Rig, name: str) -> AsyncIterator[str]:
    """It runs while the block runs; yields the name of the second process."""
    first = rig.process(name)
    if first is None:
        raise RigError(f"{name} does not run", f"in the rig {rig.home}")
    program, _, cluster = name.partition("/")
    other = f"{program}-twin/{cluster}" if cluster else f"{program}-twin"
    folder = rig.data_dir(other)
    own = {"FEDQ_LISTEN": "127.0.0.1:0", "FEDQ_DEADLINE_FILE": str(folder / "deadline")}
    env = {**first.env, **own}
    await asyncio.to_thread(rig.start_process, other, first.argv, env)
    try:
        yield other
    finally:
        await asyncio.to_thread(rig.stop_process, other)
