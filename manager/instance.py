"""A name for this process that its successor on the same machine takes over.

A leader that was killed and started again need not wait until its own Lease ends, if it is certain
that the other process of that name is dead. A locked file says so: the kernel lets go of the lock
when the process ends, and not before.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from federation.edge.machine import boot_id

SEATS = 16
"""As many managers may share a state directory; more get a name that nobody takes over."""


@contextlib.contextmanager
def instance(state_dir: Path) -> Iterator[str]:
    """The name, HOST_UUID, for as long as the block lasts.

    The file also says under which boot of which machine it was written: a copy of it, in an image
    or on a shared disk, gives nobody a name that is in use elsewhere.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        for number in range(SEATS):
            file = stack.enter_context((state_dir / f"manager-{number}.instance").open("a+"))
            if _locked(file):
                yield f"{socket.gethostname()}_{_name(file)}"
                return
        yield f"{socket.gethostname()}_{uuid.uuid4()}"


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name(file: IO[str]) -> str:
    boot = boot_id()
    file.seek(0)
    try:
        known = json.loads(file.read())
        if known["boot"] == boot:
            return str(uuid.UUID(known["name"]))
    except (ValueError, TypeError, KeyError):  # new, or cut short by a crash
        pass
    name = str(uuid.uuid4())
    file.seek(0)
    file.truncate()
    file.write(json.dumps({"boot": boot, "name": name}))
    file.flush()
    return name
