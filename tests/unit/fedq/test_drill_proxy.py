"""The proxy that falls silent: stalls bytes and closes, never refuses, and gives back later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from fedq.drill.faults.proxy import Relay, parse

QUIET = 0.15
"""Seconds for which nothing may come from what is cut: the loopback needs a thousandth."""


@asynccontextmanager
async def echo_behind_relay() -> AsyncIterator[tuple[Relay, int, asyncio.Queue[bytes]]]:
    """A server that answers each chunk with `re:` before it, and the relay before that server;
    the queue has what arrived at the server, and `closed` when a client left.
    """
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1000):
                arrived.put_nowait(data)
                writer.write(b"re:" + data)
        arrived.put_nowait(b"closed")
        writer.close()

    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        stack.push_async_callback(server.wait_closed)
        stack.callback(server.close)
        relay = Relay(server.sockets[0].getsockname()[1])
        front = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
        stack.push_async_callback(front.wait_closed)
        stack.callback(front.close)
        yield relay, front.sockets[0].getsockname()[1], arrived


async def nothing_comes(reader: asyncio.StreamReader) -> bool:
    """Whether neither bytes nor an end come."""
    with suppress(TimeoutError):
        await asyncio.wait_for(reader.read(1), QUIET)
        return False
    return True


async def test_open_and_new_connections_stall_and_go_on_when_mended() -> None:
    """A cut is silence in both directions, not an error; what was sent arrives afterwards."""
    async with echo_behind_relay() as (relay, port, arrived):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one")
        assert await reader.readexactly(6) == b"re:one"
        relay.obey({"do": "cut", "ways": ["out", "in"], "new": True})

        writer.write(b"two")
        fresh, second = await asyncio.open_connection("127.0.0.1", port)
        second.write(b"new")
        assert await nothing_comes(reader)
        assert await nothing_comes(fresh)
        assert arrived.qsize() == 1

        relay.obey({"do": "mend"})
        assert await reader.readexactly(6) == b"re:two"
        assert await fresh.readexactly(6) == b"re:new"
        writer.close()
        second.close()
        await asyncio.wait_for(relay.idle.wait(), 5)


async def test_a_cut_of_the_answers_lets_requests_arrive() -> None:
    """One-way: the server sees the request, the client never hears of it."""
    async with echo_behind_relay() as (relay, port, arrived):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        relay.obey({"do": "cut", "ways": ["in"], "new": True})
        writer.write(b"renew")
        assert await asyncio.wait_for(arrived.get(), 5) == b"renew"
        assert await nothing_comes(reader)
        relay.obey({"do": "mend"})
        writer.close()
        await asyncio.wait_for(relay.idle.wait(), 5)


async def test_a_cut_of_the_requests_keeps_them_from_the_server() -> None:
    """The other way round: nothing arrives, not even that the client has left."""
    async with echo_behind_relay() as (relay, port, arrived):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one")
        assert await asyncio.wait_for(arrived.get(), 5) == b"one"
        relay.obey({"do": "cut", "ways": ["out"], "new": True})
        writer.write(b"two")
        writer.close()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(arrived.get(), QUIET)
        relay.obey({"do": "mend"})
        assert await asyncio.wait_for(arrived.get(), 5) == b"two"
        assert await asyncio.wait_for(arrived.get(), 5) == b"closed"
        await asyncio.wait_for(relay.idle.wait(), 5)


async def test_freezing_what_is_open_leaves_new_connections_alone() -> None:
    """A watch that is stuck, while new requests are answered."""
    async with echo_behind_relay() as (relay, port, _):
        old, first = await asyncio.open_connection("127.0.0.1", port)
        first.write(b"a")
        assert await old.readexactly(4) == b"re:a"
        relay.obey({"do": "cut", "ways": ["in"], "new": False})
        first.write(b"b")
        new, second = await asyncio.open_connection("127.0.0.1", port)
        second.write(b"c")
        assert await new.readexactly(4) == b"re:c"
        assert await nothing_comes(old)
        relay.obey({"do": "mend"})
        assert await old.readexactly(4) == b"re:b"
        first.close()
        second.close()
        await asyncio.wait_for(relay.idle.wait(), 5)


async def test_a_delay_holds_each_way() -> None:
    """There and back take the delay twice."""
    async with echo_behind_relay() as (relay, port, _):
        relay.obey({"do": "delay", "seconds": 0.1})
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        loop = asyncio.get_running_loop()
        started = loop.time()
        writer.write(b"x")
        assert await reader.readexactly(4) == b"re:x"
        assert loop.time() - started >= 0.2
        writer.close()
        relay.obey({"do": "mend"})
        await asyncio.wait_for(relay.idle.wait(), 5)


def test_links_are_read_from_words() -> None:
    """NAME=FROM:TO, and names may hold a slash."""
    assert parse(["up/worker-1=1:2", "manager=3:4"]) == {"up/worker-1": (1, 2), "manager": (3, 4)}
