"""One suite for both indexes of pending workloads: in memory, and in a real Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.queueing import (
    Entry,
    IndexLost,
    IndexUnavailable,
    MemoryIndex,
    PendingIndex,
    entry,
    member,
    shape,
)
from federation.core.types import Pending
from federation.edge.redis_index import RedisIndex
from tests.contract.valkey import Server
from tests.unit.core.build import item, pods


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
    found = RedisIndex(server.url)
    await found.fill(())
    yield found
    await found.aclose()


@pytest.fixture(params=["memory", "redis"])
async def index(request: pytest.FixtureRequest) -> AsyncIterator[PendingIndex]:
    """Either kind, filled with nothing."""
    if request.param == "memory":
        yield MemoryIndex()
        return
    found = RedisIndex(request.getfixturevalue("server").url)
    await found.fill(())
    yield found
    await found.aclose()


def work(uid: str, priority: int = 0, at: float = 1.0, **more: Any) -> Pending:
    return item(uid, priority=priority, created=at, **more)


def fill(index: PendingIndex, *items: Pending, queue: str = "q") -> None:
    for one in items:
        index.enqueue(queue, entry(one))


async def head(index: PendingIndex, queue: str = "q") -> str:
    """UID of the first that is ready; '' if none is."""
    found = await index.heads([queue])
    return found[queue].uid if found else ""


async def ready(index: PendingIndex, queue: str = "q") -> list[str]:
    """UIDs of all that are ready, in order; they are ready again afterwards."""
    taken: list[Entry] = []
    while found := await index.heads([queue]):
        taken.append(found[queue])
        assert await index.claim({taken[-1].uid: taken[-1].generation})
    for one in taken:
        index.enqueue(queue, one)
    return [one.uid for one in taken]


# Order


async def test_order(index: PendingIndex) -> None:
    """Priority, then creation, then UID, whatever the shapes; reading changes nothing."""
    fill(index, work("c", 0, 2.0), work("b", 0, 1.0), work("a", 0, 2.0), work("low", -7, 0.0))
    fill(index, work("high", 2**31 - 1, 9.0), item("big", "q", pods(gpu=8), created=1.5))
    fill(index, work("other"), queue="r")

    expected = ["high", "b", "big", "a", "c", "low"]
    assert await index.waiting("q", 100) == expected
    assert await index.waiting("q", 2) == expected[:2]
    assert await head(index) == "high"
    assert await ready(index) == expected
    assert await index.waiting("unknown", 9) == []


async def test_heads_of_many_queues(index: PendingIndex) -> None:
    """One of each, as it was put; queues where nothing is ready are left out."""
    wanted = entry(work("a", generation=2**40))
    index.enqueue("q", wanted)
    fill(index, work("b"), queue="cq|team/lq")
    fill(index, work("parked"), queue="p")
    index.park("parked", 0)

    found = await index.heads(["q", "unknown", "p", "cq|team/lq"])
    assert found == {"q": wanted, "cq|team/lq": entry(work("b"))}
    assert await index.heads([]) == {}


# Each change, and the same change again


async def test_ahead(index: PendingIndex) -> None:
    """The first of each queue in order; of none, nothing or an empty list."""
    fill(index, work("low"), work("old", 5), work("new", 5, at=2.0), queue="a")
    fill(index, work("one"), queue="b")
    found = await index.ahead(["a", "b", "none"], 2)
    assert [each.uid for each in found["a"]] == ["old", "new"]
    assert found["b"] == [entry(work("one"))]
    assert not found.get("none")
    fill(index, replace(work("old", 5), generation=3), queue="a")
    assert [each.generation for each in (await index.ahead(["a"], 9))["a"]] == [3, 0, 0]


async def test_enqueue(index: PendingIndex) -> None:
    """The same generation again changes nothing; a newer one replaces; an older one does not."""
    first, newer = work("u", 0, generation=1), work("u", 5, generation=2)
    fill(index, first, first)
    assert await index.heads(["q"]) == {"q": entry(first)}
    fill(index, newer, first)
    assert await index.heads(["q"]) == {"q": entry(newer)}
    assert await index.waiting("q", 9) == ["u"]


async def test_enqueue_in_another_queue(index: PendingIndex) -> None:
    """A workload is in one queue at a time."""
    fill(index, work("u", generation=1))
    fill(index, work("u", generation=2), queue="r")
    assert await ready(index) == []
    assert await ready(index, "r") == ["u"]
    assert await index.waiting("q", 9) == []


async def test_claim(index: PendingIndex) -> None:
    """Taken once, in no other generation than asked for; queued again it waits again."""
    fill(index, work("u", generation=3), work("v"))
    assert await index.claim({"u": 2, "unknown": 0}) == frozenset()
    assert await index.claim({"u": 4}) == frozenset()
    assert await index.claim({"u": 3, "v": 1}) == {"u"}
    assert await index.claim({"u": 3}) == frozenset()
    assert await ready(index) == ["v"]
    assert await index.waiting("q", 9) == ["v"]
    fill(index, work("u", generation=3))
    assert await ready(index) == ["u", "v"]


async def test_nothing_is_claimed(index: PendingIndex) -> None:
    """Not worth an answer, but one there is."""
    assert await index.claim({}) == frozenset()


async def test_enqueue_does_not_wake_what_is_parked(index: PendingIndex) -> None:
    """The same generation did not fit before and does not now."""
    fill(index, work("u", generation=1))
    index.park("u", 1)
    fill(index, work("u", generation=1))
    assert await ready(index) == []
    fill(index, work("u", generation=2))
    assert await ready(index) == ["u"]


async def test_park_and_reactivate(index: PendingIndex) -> None:
    """Parked ones keep their place in line, and come back in those queues that are named."""
    fill(index, work("a"), work("b"), work("c"))
    fill(index, work("r"), queue="r")
    for uid in ("b", "a", "a"):
        index.park(uid, 0)
    index.park("c", 9)
    index.park("unknown", 0)
    index.park("r", 0)
    assert await ready(index) == ["c"]
    assert await index.waiting("q", 9) == ["a", "b", "c"]
    assert await index.claim({"a": 0}) == frozenset()
    index.reactivate(["q", "unknown"])
    index.reactivate(["q"])
    index.reactivate([])
    assert await ready(index) == ["a", "b", "c"]
    assert await ready(index, "r") == []


async def test_block_a_shape(index: PendingIndex) -> None:
    """All of it, also what comes later, but in that queue only; behind any number one is found."""
    big = [item(f"big{n:04}", "q", pods(gpu=8)) for n in range(700)]
    fill(index, *big, item("small", "q", pods(gpu=1), created=2000.0))
    fill(index, replace(big[0], uid="there"), queue="r")
    index.block("q", shape(big[0]))
    index.block("q", shape(big[0]))
    index.block("q", "ffffffff")
    assert await ready(index) == ["small"]
    assert await head(index, "r") == "there"
    fill(index, item("late", "q", pods(gpu=8), created=0.0))
    assert await ready(index) == ["small"]
    assert await index.claim({"late": 0, "big0000": 0}) == frozenset()
    assert await index.waiting("q", 2) == ["late", "big0000"]
    index.reactivate(["q"])
    assert await head(index) == "late"
    assert len(await index.waiting("q", 9999)) == 702


async def test_a_shape_stays_blocked_when_it_is_empty(index: PendingIndex) -> None:
    """Until reactivation, whether anything waits there or not."""
    fill(index, work("u"))
    index.block("q", shape(work("u")))
    index.drop("u")
    fill(index, work("v"))
    assert await head(index) == ""
    index.drop("v")
    index.reactivate(["q"])
    fill(index, work("w"))
    assert await head(index) == "w"


async def test_what_is_parked_in_a_blocked_shape(index: PendingIndex) -> None:
    """One reactivation is enough for both."""
    fill(index, work("a"), work("b"))
    index.park("a", 0)
    index.block("q", shape(work("a")))
    index.park("b", 0)
    index.reactivate(["q"])
    assert await ready(index) == ["a", "b"]


@pytest.mark.parametrize("state", ["ready", "parked", "blocked"])
async def test_drop(index: PendingIndex, state: str) -> None:
    """From wherever it is; a dropped one may be queued anew in any generation."""
    fill(index, work("u", generation=5), work("v"))
    if state == "parked":
        index.park("u", 5)
    if state == "blocked":
        index.block("q", shape(work("u")))
    index.drop("u")
    index.drop("u")
    assert await index.claim({"u": 5}) == frozenset()
    index.reactivate(["q"])
    assert await ready(index) == ["v"]
    fill(index, work("u", generation=1))
    assert await ready(index) == ["u", "v"]


async def test_counts(index: PendingIndex) -> None:
    """All that wait, ready, parked or blocked; what was claimed or dropped does not."""
    fill(index, *(work(uid) for uid in ("a", "b", "c", "d")), item("big", "q", pods(gpu=8)))
    fill(index, work("there"), queue="r")
    index.park("a", 0)
    index.block("q", shape(item("big", "q", pods(gpu=8))))
    index.drop("b")
    assert await index.claim({"c": 0}) == {"c"}
    assert await index.counts(["q", "unknown", "r"]) == {"q": 3, "unknown": 0, "r": 1}
    index.reactivate(["q"])
    assert await index.counts(["q"]) == {"q": 3}
    assert await index.counts([]) == {}


async def test_fill(index: PendingIndex) -> None:
    """What was there is gone, set aside or not; what is given is ready."""
    fill(index, work("old"), work("parked", 1))
    index.park("parked", 0)
    index.block("q", shape(work("old")))
    given = [("q", entry(work("new"))), ("r", entry(work("there")))]
    await index.fill(given)
    assert await ready(index) == ["new"]
    assert await ready(index, "r") == ["there"]
    assert await index.waiting("q", 9) == ["new"]


CALL = st.tuples(
    st.sampled_from(["enqueue", "park", "block", "claim", "drop", "reactivate"]),
    st.sampled_from(["a", "b", "c", "d"]),
    st.integers(0, 2),
)


def made(uid: str, generation: int) -> Pending:
    """Two shapes, in a queue of its own for d."""
    return item(
        uid, "q", pods(gpu=1 + (uid == "c")), created=10.0 - generation, generation=generation
    )


def queue_of(uid: str) -> str:
    return "r" if uid == "d" else "q"


class Model:
    """What the port promises, said as simply as possible."""

    def __init__(self) -> None:
        self.items: dict[str, Pending] = {}
        self.parked: set[str] = set()
        self.blocked: set[tuple[str, str]] = set()

    def call(self, name: str, uid: str, generation: int) -> bool | None:
        found = self.items.get(uid)
        same = found is not None and found.generation == generation
        queue = queue_of(uid)
        if name == "enqueue" and (found is None or found.generation < generation):
            self.items[uid] = made(uid, generation)
            self.parked.discard(uid)
        elif name == "drop":
            self.items.pop(uid, None)
            self.parked.discard(uid)
        elif name == "reactivate":
            self.parked = {other for other in self.parked if queue_of(other) != queue}
            self.blocked = {(where, what) for where, what in self.blocked if where != queue}
        elif name == "block":
            self.blocked.add((queue, shape(made(uid, 0))))
        elif name == "park" and same:
            self.parked.add(uid)
        elif name == "claim":
            taken = same and self.ready(uid)
            if taken:
                del self.items[uid]
            return taken
        return None

    def ready(self, uid: str) -> bool:
        blocked = (queue_of(uid), shape(self.items[uid])) in self.blocked
        return uid not in self.parked and not blocked

    def order(self, queue: str) -> list[str]:
        found = [uid for uid in self.items if queue_of(uid) == queue]
        return sorted(found, key=lambda uid: (self.items[uid].created, uid))


async def compare(index: PendingIndex, calls: list[tuple[str, str, int]]) -> None:
    """Each call twice: the second changes nothing."""
    model = Model()
    for name, uid, generation in calls:
        for _ in range(2):
            expected = model.call(name, uid, generation)
            if name == "claim":
                assert (await index.claim({uid: generation}) == {uid}) is expected
            elif name == "enqueue":
                index.enqueue(queue_of(uid), entry(made(uid, generation)))
            elif name == "reactivate":
                index.reactivate([queue_of(uid)])
            elif name == "block":
                index.block(queue_of(uid), shape(made(uid, 0)))
            elif name == "park":
                index.park(uid, generation)
            else:
                index.drop(uid)
        for queue in ("q", "r"):
            order = model.order(queue)
            assert await index.waiting(queue, 9) == order
            assert await index.counts([queue]) == {queue: len(order)}
            assert await head(index, queue) == next(filter(model.ready, order), "")


@settings(max_examples=100, deadline=None)
@given(st.lists(CALL, max_size=20))
def test_any_calls_in_memory(calls: list[tuple[str, str, int]]) -> None:
    """The index in memory is the model, whatever is called in whatever order."""
    asyncio.run(compare(MemoryIndex(), calls))


def test_any_calls_in_redis(server: Server) -> None:
    """And so is the one in Redis."""

    @settings(max_examples=40, deadline=None)
    @given(st.lists(CALL, max_size=20))
    def check(calls: list[tuple[str, str, int]]) -> None:
        async def run() -> None:
            index = RedisIndex(server.url)
            try:
                await index.fill(())
                await compare(index, calls)
            finally:
                await index.aclose()

        asyncio.run(run())

    check()


# Redis only


async def every_reading(index: PendingIndex) -> set[str]:
    """The names of the errors of all readings."""
    calls: list[Any] = [index.heads(["q"]), index.claim({"x": 0}), index.waiting("q", 1)]
    return {type(await _error(call)).__name__ for call in calls}


async def _error(call: Any) -> BaseException | None:
    try:
        await call
    except (IndexLost, IndexUnavailable) as error:
        return error
    return None


async def test_it_begins_lost(server: Server) -> None:
    """Nothing is written to an index that this owner has not filled."""
    index = RedisIndex(server.url)
    fill(index, work("u"))
    assert await every_reading(index) == {"IndexLost"}
    await index.fill(())
    assert await ready(index) == []
    await index.aclose()


async def test_changes_travel_with_the_next_reading(redis_index: RedisIndex) -> None:
    """However many there are: one round trip, unless they are more than a batch."""
    before = redis_index.round_trips
    fill(redis_index, *(work(f"u{n:03}") for n in range(400)))
    redis_index.park("u000", 0)
    assert await head(redis_index) == "u001"
    assert redis_index.round_trips == before + 1


async def test_lost_after_flushall(redis_index: RedisIndex, server: Server) -> None:
    """Every reading says so, changes are let go, and a fill makes it whole again."""
    fill(redis_index, work("u"))
    await head(redis_index)
    server.flush()
    assert await every_reading(redis_index) == {"IndexLost"}
    fill(redis_index, work("w"))
    assert await every_reading(redis_index) == {"IndexLost"}
    await redis_index.fill([("q", entry(work("v"))), ("q", entry(work("u")))])
    assert await ready(redis_index) == ["u", "v"]


async def test_a_change_that_does_not_get_through(redis_index: RedisIndex, server: Server) -> None:
    """The reading behind it tells: it must not answer from an index that lacks the change."""
    await head(redis_index)
    fill(redis_index, work("u"))
    with server.client() as client:
        client.hset("{fedq:0}:meta", "incarnation", "somebody else's")
    with pytest.raises(IndexLost, match="filled by"):
        await redis_index.heads(["q"])


async def test_lost_to_another_owner(redis_index: RedisIndex, server: Server) -> None:
    """A new owner fills the index: the old one notices at its next call and changes nothing."""
    fill(redis_index, work("old"))
    owner = RedisIndex(server.url)
    await owner.fill([("q", entry(work("new")))])
    fill(redis_index, work("late"))
    assert await every_reading(redis_index) == {"IndexLost"}
    assert await owner.waiting("q", 9) == ["new"]
    await owner.aclose()


async def test_shards_are_apart(redis_index: RedisIndex, server: Server) -> None:
    """Another shard in the same Redis is not touched by a fill."""
    other = RedisIndex(server.url, shard="1")
    await other.fill([("q", entry(work("there")))])
    await redis_index.fill([("q", entry(work("here")))])
    assert await ready(other) == ["there"]
    assert await ready(redis_index) == ["here"]
    await other.aclose()


async def test_lost_when_the_sequence_goes_back(redis_index: RedisIndex, server: Server) -> None:
    """A replica that lagged has the incarnation and an older state."""
    fill(redis_index, work("a"), work("b"))
    await head(redis_index)
    with server.client() as client:
        client.hset("{fedq:0}:meta", "seq", 0)
    with pytest.raises(IndexLost, match="it has 0 changes, and 1 were made"):
        await redis_index.heads(["q"])


async def test_broken_off(redis_index: RedisIndex, server: Server) -> None:
    """What a cancelled request has changed is not known: the index is filled again."""
    await head(redis_index)
    fill(redis_index, work("v"))
    with server.client() as client:
        client.client_pause(60_000, all=False)
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await redis_index.heads(["q"])
        finally:
            client.client_unpause()
    assert await every_reading(redis_index) == {"IndexLost"}
    await redis_index.fill([("q", entry(work("u")))])
    assert await ready(redis_index) == ["u"]


async def test_a_cancellation_that_the_client_loses(
    redis_index: RedisIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts all the same: who reads is told to stop but once."""
    begun = asyncio.Event()
    wait_for = asyncio.wait_for

    async def losing(what: Any, limit: float | None) -> Any:
        """As that of Python 3.11 does when both come in one moment."""
        try:
            begun.set()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return await wait_for(what, limit)

    monkeypatch.setattr("asyncio.wait_for", losing)
    reading = asyncio.create_task(redis_index.heads(["q"]))
    await begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_changes_during_a_fill(redis_index: RedisIndex) -> None:
    """They come after what is filled in, though they are made before it is there."""
    filling = asyncio.create_task(
        redis_index.fill([("q", entry(work("u"))), ("q", entry(work("v")))])
    )
    await asyncio.sleep(0)
    redis_index.drop("u")
    fill(redis_index, work("w"))
    await filling
    assert await ready(redis_index) == ["v", "w"]


async def test_full(redis_index: RedisIndex, server: Server) -> None:
    """Redis takes nothing more: unavailable with its words, and whole again once it does."""
    with server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            fill(redis_index, work("u"))
            with pytest.raises(IndexUnavailable, match="is full"):
                await redis_index.heads(["q"])
        finally:
            client.config_set("maxmemory", 0)
    await redis_index.fill([("q", entry(work("u")))])
    assert await ready(redis_index) == ["u"]


async def test_down_and_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Down: unavailable. Back without its data: to be filled again."""
    server = Server(tmp_path_factory.mktemp("vk"))
    server.start()
    index = RedisIndex(server.url)
    given = [("q", entry(work("u")))]
    try:
        await index.fill(given)
        server.stop()
        with pytest.raises(IndexUnavailable, match="cannot be reached"):
            await index.heads(["q"])
        with pytest.raises(IndexUnavailable):
            await index.fill(given)
        server.start()
        with pytest.raises(IndexLost):
            await index.heads(["q"])
        await index.fill(given)
        assert await ready(index) == ["u"]
    finally:
        await index.aclose()
        server.stop()


async def test_a_fill_of_ten_thousand(redis_index: RedisIndex) -> None:
    """In batches; the order is right over all of them."""
    items = [work(f"u{n:05}", n % 3, float(n)) for n in range(10_000)]
    await redis_index.fill(("q", entry(one)) for one in items)
    expected = sorted(items, key=member)
    assert [one.uid for one in expected] == await redis_index.waiting("q", 20_000)
    assert await head(redis_index) == expected[0].uid
