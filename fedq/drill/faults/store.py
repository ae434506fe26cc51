"""Redis that forgets, is full, read-only or slow: commands to the server of the rig.

Spoken directly, as an operator's redis-cli would; the product's own store module is what is tested.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fedq.stack import Stack


async def command(stack: Stack, *words: str) -> str:
    """The answer to one command, as text. Raises OSError when nobody answers and ValueError with
    what the server says when it refuses.
    """
    path = stack.redis_url.removeprefix("unix://")
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        parts = [f"*{len(words)}\r\n", *(f"${len(word.encode())}\r\n{word}\r\n" for word in words)]
        writer.write("".join(parts).encode())
        await writer.drain()
        return await _answer(reader)
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> str:
    line = (await reader.readline()).decode().rstrip("\r\n")
    kind, rest = line[:1], line[1:]
    if kind == "-":
        raise ValueError(rest)
    if kind == "$":
        size = int(rest)
        return "" if size < 0 else (await reader.readexactly(size + 2))[:-2].decode()
    if kind == "*":
        return "\n".join([await _answer(reader) for _ in range(int(rest))])
    return rest


async def flush(stack: Stack) -> None:
    """All that it holds is gone."""
    await command(stack, "FLUSHALL")


async def keys(stack: Stack) -> int:
    """How many keys it holds."""
    return int(await command(stack, "DBSIZE"))


@asynccontextmanager
async def full(stack: Stack) -> AsyncIterator[None]:
    """Its memory is used up: writes are refused with OOM, reads and deletes go on."""
    await command(stack, "CONFIG", "SET", "maxmemory", "1")
    try:
        yield
    finally:
        await command(stack, "CONFIG", "SET", "maxmemory", "0")


@asynccontextmanager
async def read_only(stack: Stack) -> AsyncIterator[None]:
    """It is a replica of a primary that is not there: it serves reads and refuses writes."""
    await command(stack, "REPLICAOF", "127.0.0.1", "1")
    try:
        yield
    finally:
        await command(stack, "REPLICAOF", "NO", "ONE")
