"""Health, metrics and status of a program over HTTP; on loopback unless it is told otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from federation.core.queueing import IndexLost, IndexUnavailable

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
    )
    await _Server(config).serve()


class _Server(uvicorn.Server):
    """Leaves the signals to the program, which ends everything by cancellation."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal over."""
        yield


def counted(requests: Mapping[tuple[str, str, str], int]) -> dict[str, int]:
    """Requests by `verb/plural[/subresource]`, for a status page."""
    return {"/".join(filter(None, key)): count for key, count in sorted(requests.items())}
