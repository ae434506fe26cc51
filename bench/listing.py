"""An API server of recorded lists, in a process of its own: `python -m bench.listing`.

Reads one JSON object from standard input: path of a collection to its items. Serves them over
loopback HTTP in pages, as an API server does, keeps watches open and silent, and refuses every
write. It prints its port. What it lacks in truth, it has in speed: what a client takes is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
VERSION = "1000000"
_REFUSED = json.dumps({"kind": "Status", "message": "this server only reads", "code": 503}).encode()


class Lists:
    """Pages are made once, before anybody asks."""

    def __init__(self, collections: dict[str, list[Json]], page: int = 500) -> None:
        self._pages = {
            path: [
                _page(items[start : start + page], start // page + 1, start + page < len(items))
                for start in range(0, max(1, len(items)), page)
            ]
            for path, items in collections.items()
        }
        self._empty = _page([], 1, more=False)

    def page(self, path: str, token: str) -> bytes:
        """The page of a collection that a token of the page before stands for."""
        pages = self._pages.get(path)
        return pages[int(token or 0)] if pages else self._empty


def _page(items: list[Json], following: int, more: bool) -> bytes:
    meta = {"resourceVersion": VERSION} | ({"continue": str(following)} if more else {})
    return json.dumps({"kind": "List", "metadata": meta, "items": items}).encode()


def _answer(status: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


async def serve(lists: Lists) -> None:
    """Until standard input is closed for good: until it is killed."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _request(reader):
            method, target = head
            parts = urlsplit(target)
            query = parse_qs(parts.query)
            if method != "GET":
                writer.write(_answer("503 Service Unavailable", _REFUSED))
            elif "watch" in query:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            else:
                page = lists.page(parts.path, query.get("continue", [""])[0])
                writer.write(_answer("200 OK", page))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


async def _request(reader: asyncio.StreamReader) -> tuple[str, str] | None:
    """Method and target of the next request; its body is passed over. None at the end."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
    await reader.readexactly(int(headers.get("content-length", 0)))
    method, target, _ = head[0].split(" ", 2)
    return method, target


if __name__ == "__main__":
    asyncio.run(serve(Lists(json.load(sys.stdin))))
