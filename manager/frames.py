"""Messages between the manager and the program that drives Ray: pickled, behind their length.

Both ends are one program's, over a socket pair that nobody else has; nothing else is unpickled.
"""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

LENGTH = 8


async def receive(reader: asyncio.StreamReader) -> Any:
    """The next message. Raises EOFError when the other end is gone."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH), "big")
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError("the other end is gone") from error


def send(writer: asyncio.StreamWriter, message: Any) -> None:
    """Put a message on its way. To an end that is gone it is lost: `receive` tells of that."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    writer.write(len(data).to_bytes(LENGTH, "big") + data)
