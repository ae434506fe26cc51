"""A second process beside one that runs, with the same credentials and its own files."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fedq.rig.errors import RigError
from fedq.rig.ports import allocate
from fedq.rig.rig import Rig


@asynccontextmanager
async def twin(rig: Rig, name: str) -> AsyncIterator[str]:
    """It runs while the block runs; yields the name of the second process, once it listens."""
    first = rig.process(name)
    if first is None:
        raise RigError(f"{name} does not run", f"in the rig {rig.home}")
    program, _, cluster = name.partition("/")
    other = f"{program}-twin/{cluster}" if cluster else f"{program}-twin"
    folder = rig.data_dir(other)
    state = rig.socket_dir / "twin"  # its own identity, in a path that is short enough for sockets
    state.mkdir(mode=0o700, exist_ok=True)
    address = (rig.network.host(cluster or rig.management), allocate(1, folder)[0])
    own = {
        "FEDQ_LISTEN": f"{address[0]}:{address[1]}",
        "FEDQ_STATE_DIR": str(state),
        "FEDQ_DEADLINE_FILE": str(folder / "deadline"),
    }
    argv, env = first.argv, {**first.env, **own}
    await asyncio.to_thread(rig.start_process, other, argv, env, lambda: _listens(address))
    try:
        yield other
    finally:
        await asyncio.to_thread(rig.stop_process, other)


def _listens(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True
