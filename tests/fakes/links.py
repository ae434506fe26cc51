"""The network between one client and a fake API server: slow, cut in either direction, lossy.

    link = Link(fake, random.Random(1), sleep)
    kube = KubeClient(Endpoint("https://fake", name="a"), transport=link)

As with TCP, a client whose request was sent knows nothing without an answer: it may have been
carried out, or be carried out later. Times are in seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import httpx

from tests.fakes.kube_api import FakeKube, refusal

READ_S = 15.0
CONNECT_S = 5.0


class Link(httpx.AsyncBaseTransport):
    """`latency` is the range of one way. While `to_server` or `to_client` is False nothing passes
    in that direction (`set_open`). `on_request` hears (method, path, before) around each one that
    is carried out. A link whose client is `dead` carries nothing any more.
    """

    def __init__(self, server: FakeKube, rng: random.Random) -> None:
        self.server, self.rng = server, rng
        self.latency = (0.0005, 0.004)
        self.to_client = True
        self.dead = False
        self.refuse: tuple[int, ...] = ()
        """Statuses that the server may answer with instead of carrying a request out."""
        self.refuse_rate = 0.0
        self.lose_rate = 0.0
        """How often an answer is lost after the request was carried out."""
        self.late_rate = 0.0
        """How often a request that the client gave up is carried out some time after that."""
        self.watch_lag = 0.0
        self.requests = 0
        self.on_request: Callable[[str, str, bool], None] = lambda method, path, before: None
        self.on_answer: Callable[[httpx.Request, int], None] = lambda request, status: None
        self._open, self._reachable = asyncio.Event(), asyncio.Event()
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._late_ones: set[asyncio.Task[None]] = set()
        self.set_open(True, True)

    @property
    def to_server(self) -> bool:
        """Whether requests get through."""
        return self._reachable.is_set()

    def set_open(self, to_server: bool, to_client: bool) -> None:
        """Cut or heal the directions. What was said on open watches meanwhile comes after."""
        self.to_client = to_client
        (self._open.set if to_client else self._open.clear)()
        (self._reachable.set if to_server else self._reachable.clear)()

    def freeze(self, frozen: bool) -> None:
        """Open watches say nothing, as behind a proxy that hangs; everything else passes."""
        (self._thawed.clear if frozen else self._thawed.set)()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        self._alive(request)
        read = request.extensions["timeout"]["read"] or READ_S
        await asyncio.sleep(self.rng.uniform(*self.latency))
        self._alive(request)
        if not self.to_server:
            await self._unsent(request, read)
        if self.refuse and self.rng.random() < self.refuse_rate:
            return self._refusal(request)
        self.requests += 1
        self.on_request(request.method, path, True)
        self._alive(request)
        request.extensions["hold"] = self._hold
        response = await self.server.serve(request)
        self.on_answer(request, response.status_code)
        self.on_request(request.method, path, False)
        self._alive(request)
        if not self.to_client or (request.method != "GET" and self.rng.random() < self.lose_rate):
            await _close(response)
            await asyncio.sleep(read)
            raise httpx.ReadTimeout("no answer", request=request)
        if request.method != "GET":  # of what only reads, one delay is as good as two
            await asyncio.sleep(self.rng.uniform(*self.latency))
            self._alive(request)
        return response

    async def _unsent(self, request: httpx.Request, read: float) -> None:
        """No packet gets through: no connection can be made, or an open one is silent."""
        if self.rng.random() < 0.5:
            await asyncio.sleep(CONNECT_S)
            raise httpx.ConnectTimeout("no connection", request=request)
        if request.method != "GET" and self.rng.random() < self.late_rate:
            late = asyncio.create_task(self._late(request, self.rng.uniform(0, 2 * read)))
            self._late_ones.add(late)
            late.add_done_callback(self._late_ones.discard)
        await asyncio.sleep(read)
        raise httpx.ReadTimeout("no answer", request=request)

    async def _late(self, request: httpx.Request, after: float) -> None:
        """Packets that were sent again and again reach the server at last."""
        await self._reachable.wait()
        await asyncio.sleep(after)
        await self._reachable.wait()
        self.requests += 1
        response = await self.server.serve(request)
        self.on_answer(request, response.status_code)

    def _refusal(self, request: httpx.Request) -> httpx.Response:
        status = self.rng.choice(self.refuse)
        response = refusal(status, "", "the server is not well")
        if status == 429:
            response.headers["retry-after"] = "1"
        self.on_answer(request, status)
        return response

    def _alive(self, request: httpx.Request) -> None:
        if self.dead:
            raise httpx.ConnectError("the client is dead", request=request)

    async def _hold(self) -> None:
        """An open watch says what it has to say once the way is open, and later than it was."""
        if self.watch_lag:
            await asyncio.sleep(self.rng.uniform(0, self.watch_lag))
        await self._open.wait()
        await self._thawed.wait()


async def _close(response: httpx.Response) -> None:
    """Give up an answer that nobody reads."""
    if isinstance(response.stream, httpx.AsyncByteStream):
        await response.stream.aclose()
