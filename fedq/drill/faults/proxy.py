"""A TCP proxy that can fall silent: `python -m fedq.drill.faults.proxy CONTROL NAME=FROM:TO …`.

It listens on 127.0.0.1:FROM and passes everything on to 127.0.0.1:TO. What is cut stalls: bytes are
taken and kept, new connections are accepted and never answered, and neither side sees the other one
close. Orders come as one line of JSON each on the Unix socket CONTROL, answered by one line:

    {"link": NAME, "do": "cut", "ways": ["out"], "new": true}   out: to the server; in: its answers;
                                                new false: only connections that are open now
    {"link": NAME, "do": "mend"}     stalled bytes go on, as resent packets would
    {"link": NAME, "do": "delay", "seconds": 0.2}
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

CHUNK = 65536
WAYS = ("out", "in")


class Connection:
    """One connection: an event per way, set while bytes may pass."""

    def __init__(self, cut: set[str]) -> None:
        self.passing = {way: asyncio.Event() for way in WAYS}
        for way in WAYS:
            if way not in cut:
                self.passing[way].set()


class Relay:
    """One listening port and what goes through it."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._cut: set[str] = set()
        self._delay = 0.0
        self._open: set[Connection] = set()
        self.idle = asyncio.Event()
        """Set while no connection goes through it."""
        self.idle.set()

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out an order of the control socket."""
        match order["do"]:
            case "cut":
                self._stall(order["ways"], new=order["new"])
            case "mend":
                self._cut, self._delay = set(), 0.0
                for connection in self._open:
                    for way in WAYS:
                        connection.passing[way].set()
            case "delay":
                self._delay = float(order["seconds"])
        return {"connections": len(self._open)}

    def _stall(self, ways: list[str], *, new: bool) -> None:
        if new:
            self._cut |= set(ways)
        for connection in self._open:
            for way in ways:
                connection.passing[way].clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, from its connection to the end of both ways."""
        connection = Connection(self._cut)
        self._open.add(connection)
        self.idle.clear()
        try:
            await connection.passing["out"].wait()
            answers, requests = await asyncio.open_connection("127.0.0.1", self._target)
            await asyncio.gather(
                self._pump(reader, requests, connection.passing["out"]),
                self._pump(answers, writer, connection.passing["in"]),
            )
        except OSError:
            writer.close()
        finally:
            self._open.discard(connection)
            if not self._open:
                self.idle.set()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, passing: asyncio.Event
    ) -> None:
        try:
            while True:
                data = b""
                with suppress(OSError):
                    data = await source.read(CHUNK)
                if self._delay:
                    await asyncio.sleep(self._delay)  # the delay is what was ordered
                await passing.wait()
                if not data:
                    return
                sink.write(data)
                await sink.drain()
        except OSError:
            return
        finally:
            sink.close()


async def run(control: Path, links: dict[str, tuple[int, int]]) -> None:
    """Serve all links and the control socket until the process is ended."""
    relays = {name: Relay(target) for name, (_, target) in links.items()}
    for name, (port, _) in links.items():
        await asyncio.start_server(relays[name].serve, "127.0.0.1", port)

    async def orders(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            order = json.loads(line)
            answer = relays[order["link"]].obey(order)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(orders, control)
    await server.serve_forever()


def parse(words: list[str]) -> dict[str, tuple[int, int]]:
    """`NAME=FROM:TO` → name → (from, to)."""
    pairs = (word.partition("=") for word in words)
    ports = ((name, rest.partition(":")) for name, _, rest in pairs)
    return {name: (int(port), int(target)) for name, (port, _, target) in ports}


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.unlink(missing_ok=True)
    asyncio.run(run(path, parse(sys.argv[2:])))
