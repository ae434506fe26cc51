"""The informer against the fake API: it misses nothing, and asks for nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from federation.edge.errors import Forbidden, ServerError, Unreachable
from federation.edge.informer import Informer, Key, Select, Store, Timing
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CONFIGMAPS, Json, Resource
from tests.fakes.kube_api import FakeKube

Value = tuple[str, str]  # (uid, data.a)


def config(name: str, value: str = "1", **labels: str) -> Json:
    meta = {"name": name, "namespace": "default", "labels": labels}
    return {"metadata": meta, "data": {"a": value}}


class Rigged:
    """A fake cluster, a store fed by an informer, and everything that was slept."""

    def __init__(self, select: Select | None = None, idle_timeout: float = 90.0) -> None:
        self.fake = FakeKube()
        self.kube = KubeClient(Endpoint("https://fake", name="a"), transport=self.fake)
        self.slept: list[float] = []
        self.now = 0.0
        self.changes: list[tuple[str, str | None, str | None]] = []
        self.store: Store[Value] = Store(self._project, self._changed)
        timing = Timing(idle_timeout=idle_timeout, sleep=self._sleep, clock=lambda: self.now)
        self.informer = Informer(
            self.kube, CONFIGMAPS, self.store, select=select or Select(), timing=timing
        )

    @staticmethod
    def _project(obj: Json) -> Value | None:
        if obj["data"]["a"] == "skip":
            return None
        return obj["metadata"]["uid"], obj["data"]["a"]

    def _changed(self, key: Key, old: Value | None, new: Value | None) -> None:
        self.changes.append((key[1], old and old[1], new and new[1]))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def until(self, holds: Callable[[], object]) -> None:
        """Give way until something holds."""
        for _ in range(1000):
            if holds():
                return
            await asyncio.sleep(0)
        pytest.fail("it never came true")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.informer.run())
        try:
            await self.until(lambda: self.fake.watches or task.done() or self.slept)
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def world() -> Rigged:
    return Rigged()


async def test_list_then_watch(world: Rigged) -> None:
    """One list, one watch, no GET; every change is told once."""
    world.fake.create(CONFIGMAPS, config("a"))
    async with world.running():
        assert world.informer.synced.is_set()
        world.fake.create(CONFIGMAPS, config("b"))
        world.fake.merge(CONFIGMAPS, "a", {"data": {"a": "2"}}, "default")
        world.fake.delete(CONFIGMAPS, "b", "default")
        await world.until(lambda: len(world.changes) == 4)

    assert world.changes == [
        ("a", None, "1"),
        ("b", None, "1"),
        ("a", "1", "2"),
        ("b", "1", None),
    ]
    assert {key: value[1] for key, value in world.store.items.items()} == {("default", "a"): "2"}
    assert world.kube.requests == {("list", "configmaps", ""): 1, ("watch", "configmaps", ""): 1}


async def test_a_broken_watch_goes_on_where_it_was(world: Rigged) -> None:
    """No second list, nothing missed."""
    async with world.running():
        world.fake.drop_watches()
        world.fake.create(CONFIGMAPS, config("b"))
        await world.until(lambda: world.changes)
        assert world.informer.error is None

    assert world.kube.requests["list", "configmaps", ""] == 1
    assert len(world.slept) <= 1


async def test_too_old_means_the_full_set_again(world: Rigged) -> None:
    """What vanished meanwhile is told as gone; what is unchanged is not told."""
    for name in "abc":
        world.fake.create(CONFIGMAPS, config(name))
    async with world.running():
        world.fake.fail(lambda request: "watch" in request.url.params, status=410)
        world.fake.drop_watches()
        world.fake.delete(CONFIGMAPS, "a", "default")
        world.fake.merge(CONFIGMAPS, "b", {"data": {"a": "2"}}, "default")
        world.fake.compact()
        await world.until(lambda: len(world.changes) == 5)

    assert world.changes[3:] == [("a", "1", None), ("b", "1", "2")]
    assert world.kube.requests["list", "configmaps", ""] == 2


async def test_a_new_object_of_the_same_name_is_a_change(world: Rigged) -> None:
    """The projection holds the uid, so a relist shows it."""
    world.fake.create(CONFIGMAPS, config("a"))
    async with world.running():
        world.fake.drop_watches()
        world.fake.fail(lambda request: "watch" in request.url.params, status=500)
        world.fake.delete(CONFIGMAPS, "a", "default")
        world.fake.create(CONFIGMAPS, config("a"))
        await world.until(lambda: world.changes[1:])

    assert world.changes[1:] == [("a", "1", "1")]


async def test_bookmarks_are_contact_and_move_the_version(world: Rigged) -> None:
    """After a bookmark, an older history is not needed."""
    async with world.running():
        world.now = 50.0
        world.fake.create(
            CONFIGMAPS, {**config("x"), "metadata": {"name": "x", "namespace": "kube-system"}}
        )
        world.fake.bookmark()
        await world.until(lambda: world.informer.last_contact == 50.0)
        world.fake.compact()
        world.fake.drop_watches()
        await world.until(lambda: world.kube.requests["watch", "configmaps", ""] == 2)
        await world.until(lambda: world.fake.watches)

    assert world.kube.requests["list", "configmaps", ""] == 1


async def test_selectors_reach_the_server() -> None:
    """In the list and in the watch."""
    world = Rigged(Select("default", label_selector="app=x"))
    world.fake.create(CONFIGMAPS, config("a", app="x"))
    world.fake.create(CONFIGMAPS, config("b", app="y"))
    async with world.running():
        world.fake.merge(CONFIGMAPS, "a", {"metadata": {"labels": {"app": "y"}}}, "default")
        await world.until(lambda: len(world.changes) == 2)

    assert world.changes == [("a", None, "1"), ("a", "1", None)]


async def test_a_projection_of_none_is_not_kept(world: Rigged) -> None:
    """Nor told, unless it was kept before."""
    world.fake.create(CONFIGMAPS, config("a", "skip"))
    async with world.running():
        world.fake.create(CONFIGMAPS, config("b"))
        world.fake.merge(CONFIGMAPS, "b", {"data": {"a": "skip"}}, "default")
        await world.until(lambda: len(world.changes) == 2)

    assert world.changes == [("b", None, "1"), ("b", "1", None)]
    assert world.store.items == {}


async def test_an_unreachable_cluster_is_asked_less_and_less(world: Rigged) -> None:
    """The error is there to be seen, and goes when contact is back."""
    world.fake.cut()
    async with world.running():
        await world.until(lambda: len(world.slept) > 30)
        assert isinstance(world.informer.error, Unreachable)
        assert not world.informer.synced.is_set()
        assert world.informer.last_contact == float("-inf")
        world.fake.heal()
        await world.until(world.informer.synced.is_set)
        assert world.informer.error is None

    assert max(world.slept[:3]) <= 0.4
    assert 10.0 >= max(world.slept) > 2.0


async def test_a_cluster_where_nothing_happens_is_in_contact_again(world: Rigged) -> None:
    """As soon as the watch is open: there may be no event for a long time."""
    async with world.running():
        world.fake.cut()
        world.fake.drop_watches()
        await world.until(lambda: len(world.slept) > 2)
        assert isinstance(world.informer.error, Unreachable)
        world.fake.heal()
        await world.until(lambda: world.informer.error is None)


async def test_what_cannot_get_better_by_itself_is_asked_rarely(world: Rigged) -> None:
    """Also when the list is allowed and only the watch is refused: no hot loop."""
    world.fake.fail(lambda request: "watch" in request.url.params, status=403, times=10**9)
    async with world.running():
        await world.until(lambda: len(world.slept) == 5)
        assert isinstance(world.informer.error, Forbidden)

    assert min(world.slept) >= 5.0


async def test_watches_that_end_at_once_are_no_hot_loop(world: Rigged) -> None:
    """A proxy that answers 200 and nothing."""

    def answer(request: httpx.Request) -> httpx.Response:
        if "watch" in request.url.params:
            return httpx.Response(200, content=b"")
        return httpx.Response(200, json={"metadata": {"resourceVersion": "1"}, "items": []})

    kube = KubeClient(Endpoint("https://fake"), transport=httpx.MockTransport(answer))
    informer = Informer(
        kube,
        CONFIGMAPS,
        world.store,
        timing=Timing(sleep=world._sleep, clock=lambda: 0.0),
    )
    task = asyncio.create_task(informer.run())
    await world.until(lambda: len(world.slept) == 20)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert sum(world.slept) > 10.0
    assert kube.requests["list", "configmaps", ""] == 1


async def test_a_silent_watch_is_given_up() -> None:
    """A connection that died without a word is found out by the missing bookmarks."""
    world = Rigged(idle_timeout=0.05)
    async with world.running():
        world.fake.cut()
        await asyncio.sleep(0.1)
        assert isinstance(world.informer.error, Unreachable)
        assert world.fake.watches == 0


async def test_a_server_error_leaves_doubt_and_lists_again(world: Rigged) -> None:
    """A server restored to an older state answers so to a version from its future."""
    async with world.running():
        world.fake.fail(lambda request: "watch" in request.url.params, status=504)
        world.fake.drop_watches()
        await world.until(lambda: isinstance(world.informer.error, ServerError))
        await world.until(lambda: world.kube.requests["list", "configmaps", ""] == 2)


async def test_a_missing_type_is_found_when_it_comes(world: Rigged) -> None:
    """A worker without our CRDs: an error, asked for rarely, and then it works."""
    things = Resource("x.io", "v1", "things")
    informer = Informer(world.kube, things, world.store, timing=Timing(sleep=world._sleep))
    task = asyncio.create_task(informer.run())
    await world.until(lambda: len(world.slept) == 2)
    world.fake.resources.append(things)
    await world.until(informer.synced.is_set)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert min(world.slept) >= 5.0


async def test_what_the_handler_raises_ends_the_informer(world: Rigged) -> None:
    """A bug is not retried."""

    def broken(obj: Json) -> Value:
        raise KeyError("bug")

    world.fake.create(CONFIGMAPS, config("a"))
    with pytest.raises(KeyError):
        await Informer(world.kube, CONFIGMAPS, Store(broken)).run()


async def test_a_cancellation_that_turned_into_an_api_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream that fails while it is closed must not keep the informer alive."""
    rigged = Rigged()

    async def watch(*_: object, **__: object) -> AsyncIterator[object]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Unreachable("the stream broke while it was closed") from None
        yield None

    monkeypatch.setattr(rigged.kube, "watch", watch)
    task = asyncio.create_task(rigged.informer.run())
    await rigged.informer.synced.wait()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()
