"""Health, metrics and status of a program over HTTP; on loopback unless it is told otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from federation.core.queueing import IndexLost, IndexUnavailable

MOST_CONNECTIONS = 256
"""To one listener."""
SILENCE_S = 10.0
"""How long a connection may be open without a request, or with a part of one."""
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in (
        ("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4),
    ) if hasattr(socket, name)),
)  # fmt: skip

Report = Callable[[], dict[str, Any]]
Waiting = Callable[[str], Awaitable[list[str]]]


def app(
    problem: Callable[[], str],
    status: Report,
    waiting: Waiting | None = None,
    note: Callable[[], str] = lambda: "ok",
) -> Starlette:
    """`problem` is '' while the program makes progress; then /healthz says `note`. `status` is what
    /status shows.

    `waiting` has the UIDs that wait in a ClusterQueue, in order, for /waiting?queue=NAME.
    """

    async def health(request: Request) -> Response:
        text = problem()
        return PlainTextResponse(text or note(), status_code=503 if text else 200)

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    async def show(request: Request) -> Response:
        return JSONResponse(status())

    async def line(request: Request) -> Response:
        assert waiting is not None
        queue = request.query_params.get("queue", "")
        try:
            return JSONResponse({"queue": queue, "waiting": await waiting(queue)})
        except (IndexLost, IndexUnavailable) as error:
            return PlainTextResponse(str(error), status_code=503)

    routes = [Route("/healthz", health), Route("/metrics", metrics), Route("/status", show)]
    return Starlette(routes=[*routes, Route("/waiting", line)] if waiting else routes)


async def serve(application: Starlette, listen: str, tls: tuple[Path, Path] | None = None) -> None:
    """Serve until cancelled. `listen` is host:port, `tls` a certificate (chain) and its key."""
    host, _, port = listen.rpartition(":")
    certificate, key = tls or (None, None)
    config = uvicorn.Config(
        application,
        host=host.strip("[]"),
        port=int(port),
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
        access_log=False,
        lifespan="off",
        http=_Connection,
    )
    server = _Server(config)
    try:
        await server.serve()
    finally:  # uvicorn leaves that to the end of the process
        for listening in getattr(server, "servers", ()):
            listening.close()


class _Connection(H11Protocol):
    """One that has to ask for something, among at most so many: whoever opens connections and says
    nothing would take the descriptors with which the program reaches its API servers.
    """

    _timer: asyncio.TimerHandle | None = None
    _seen: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio.Protocol."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._timer = self.loop.call_later(SILENCE_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close it if it has had no request since the last look, and none is being answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if self.cycle is self._seen and not answering:
            self.transport.abort()
            return
        self._seen = self.cycle
        self._timer = self.loop.call_later(SILENCE_S, self._look)


class _Server(uvicorn.Server):
    """Leaves the signals to the program, which ends everything by cancellation."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; connections inherit that the system asks whether their other end is still there:
        of a log that is silent nothing else would tell.
        """
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                for level, option, value in _KEEPALIVE:
                    listening.setsockopt(level, option, value)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal over."""
        yield


def counted(requests: Mapping[tuple[str, str, str], int]) -> dict[str, int]:
    """Requests by `verb/plural[/subresource]`, for a status page."""
    return {"/".join(filter(None, key)): count for key, count in sorted(requests.items())}
