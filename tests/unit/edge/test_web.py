"""The pages of a program, and who opens connections to them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from federation.edge import web

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The port of pages that are served."""
    listens: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    startup = web._Server.startup

    async def tell(self: web._Server, sockets: list[socket.socket] | None = None) -> None:
        await startup(self, sockets)
        listens.set_result(self.servers[0].sockets[0].getsockname()[1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web._Server, "startup", tell)
        task = asyncio.create_task(web.serve(web.app(lambda: "", dict), "127.0.0.1:0"))
        try:
            yield await listens
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def ask(streams: Streams) -> bytes:
    """The first line of an answer."""
    reader, writer = streams
    writer.write(ASK)
    return await reader.readline()


async def closed(streams: Streams) -> None:
    """Until the other end has closed it."""
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionError):
            while await streams[0].read(65536):
                pass


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", ASK + b"G"])
async def test_who_says_nothing_is_not_kept(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither without a request, nor with a part of one, nor with a part of a second one."""
    monkeypatch.setattr(web, "SILENCE_S", 0.05)
    async with serving() as port:
        streams = await asyncio.open_connection("127.0.0.1", port)
        streams[1].write(said)
        await closed(streams)
        streams[1].close()


async def test_who_asks_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection for many requests."""
    monkeypatch.setattr(web, "SILENCE_S", 0.2)
    async with serving() as port:
        streams = await asyncio.open_connection("127.0.0.1", port)
        end = asyncio.get_running_loop().time() + 0.7
        while asyncio.get_running_loop().time() < end:
            assert b"200" in await ask(streams)
            await streams[0].readuntil(b"ok")
        streams[1].close()


async def test_connections_over_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are closed; those before are served."""
    monkeypatch.setattr(web, "MOST_CONNECTIONS", 1)
    async with serving() as port:
        first = await asyncio.open_connection("127.0.0.1", port)
        assert b"200" in await ask(first)
        second = await asyncio.open_connection("127.0.0.1", port)
        await closed(second)
        await first[0].readuntil(b"ok")
        assert b"200" in await ask(first)
        for _, writer in (first, second):
            writer.close()


async def test_connections_are_asked_whether_they_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system, as inherited from the socket that listens."""
    made: list[socket.socket] = []
    before = web._Connection.connection_made

    def note(self: web._Connection, transport: asyncio.Transport) -> None:
        made.append(transport.get_extra_info("socket"))
        before(self, transport)

    monkeypatch.setattr(web._Connection, "connection_made", note)
    async with serving() as port:
        streams = await asyncio.open_connection("127.0.0.1", port)
        assert b"200" in await ask(streams)
        assert made[-1].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        streams[1].close()
