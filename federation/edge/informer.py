"""Keep up with one resource type on one cluster: list once, then watch.

Nothing is ever read again by GET: an event carries the object. After a 410 or an error that
leaves doubt the full list is delivered again, so that the owner can compute what it missed.
Memory is the owner's choice: an informer keeps no object, a `Store` keeps a projection of each.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import structlog

from federation.edge.errors import ApiError, Gone, Unreachable
from federation.edge.kube import KubeClient
from federation.edge.resources import Json, Resource
from federation.edge.retry import Sleep, backoff

log = structlog.get_logger(__name__)

STEADY = 1.0
"""Seconds a round must last, or an event must come, for its end to be no failure."""

T = TypeVar("T")
Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped objects."""


class Handler(Protocol):
    """Who is told. Both calls must be cheap; what they raise ends the informer. A full list may
    take long: then `on_list` returns what is waited for before the watch begins.

    An object can come more than once in the same version; a deletion can go unseen between two
    lists, so `on_list` is the full set and whatever is not in it is gone.
    """

    def on_list(self, items: Sequence[Json], resource_version: str) -> Awaitable[None] | None: ...

    def on_event(self, type: str, obj: Json) -> None: ...


@dataclass(frozen=True, slots=True)
class Calls:
    """A Handler made of functions: for a full set and its version, for one object as it is now, for
    one that was deleted.
    """

    listed: Callable[[Sequence[Json], str], Awaitable[None] | None]
    seen: Callable[[Json], None]
    gone: Callable[[Json], None]

    def on_list(self, items: Sequence[Json], resource_version: str) -> Awaitable[None] | None:
        """See Handler."""
        return self.listed(items, resource_version)

    def on_event(self, type: str, obj: Json) -> None:
        """See Handler."""
        (self.gone if type == "DELETED" else self.seen)(obj)


@dataclass(frozen=True, slots=True)
class Select:
    """Which objects: one namespace (None: all) and selectors, spelled as the API does."""

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long to wait, in seconds, and where time and chance come from."""

    idle_timeout: float = 90.0
    """A watch without any event or bookmark for this long hangs. Servers send one a minute."""
    watch_timeout: int = 300
    """When the server ends a watch; up to twice that, at random, so that clients spread out."""
    sleep: Sleep = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)


class Informer:
    """Run `run()` in a task; it ends by cancellation only, or with what the handler raises."""

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        handler: Handler,
        *,
        select: Select | None = None,
        timing: Timing | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        """Set once the first full list was delivered; stays set."""
        self.on_synced: Callable[[], None] = lambda: None
        """Called at that moment."""
        self.last_contact = float("-inf")
        """Clock reading of the last list, event or bookmark."""
        self.error: ApiError | None = None
        """Why there is no contact now; None while there is."""
        self._client = client
        self._handler = handler
        self._select = select or Select()
        self._timing = timing or Timing()
        self._version = ""
        self._streamed = False

    async def run(self) -> None:
        """List and watch for ever. API errors are kept in `error` and waited out."""
        timing = self._timing
        failures = 0
        while True:
            started, self._streamed = timing.clock(), False
            problem = await self._round()
            steady = self._streamed or timing.clock() - started > STEADY
            failures = 0 if steady else failures + 1
            if problem is None and failures == 0:
                continue
            delay = backoff(max(failures, 1), timing.rng, problem)
            if problem is not None:
                log.warning("informer.retry", error=str(problem), delay=round(delay, 2))
            await timing.sleep(delay)

    async def _round(self) -> ApiError | None:
        """List if needed, watch until the watch ends, and decide where to go on from."""
        try:
            if not self._version:
                await self._list()
            await self._watch()
        except Gone:
            self._version = ""
        except ApiError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError from error  # closing a stream replaced it
            # Only a lost connection leaves no doubt about where to go on.
            if not isinstance(error, Unreachable):
                self._version = ""
            self.error = error
            return error
        return None

    async def _list(self) -> None:
        select = self._select
        page = await self._client.list(
            self.resource,
            select.namespace,
            label_selector=select.label_selector,
            field_selector=select.field_selector,
        )
        self._contact(page.resource_version)
        if (taken := self._handler.on_list(page.items, page.resource_version)) is not None:
            await taken
        if not self.synced.is_set():
            self.synced.set()
            self.on_synced()

    async def _watch(self) -> None:
        select, timing = self._select, self._timing
        events = self._client.watch(
            self.resource,
            select.namespace,
            label_selector=select.label_selector,
            field_selector=select.field_selector,
            resource_version=self._version,
            timeout_seconds=int(timing.watch_timeout * timing.rng.uniform(1.0, 2.0)),
            opened=self._opened,
        )
        loop = asyncio.get_running_loop()
        try:
            # aclosing inside the timeout: a hung stream is closed before the error is raised.
            async with asyncio.timeout(timing.idle_timeout) as limit, aclosing(events):
                async for type_, obj in events:
                    limit.reschedule(loop.time() + timing.idle_timeout)
                    self._streamed = True
                    self._contact(obj["metadata"]["resourceVersion"])
                    if type_ != "BOOKMARK":
                        self._handler.on_event(type_, obj)
        except TimeoutError as error:
            raise Unreachable(
                f"watch {self.resource.plural} on cluster {self._client.cluster}: "
                f"silent for {timing.idle_timeout:g} s",
                reason="Hung",
                cluster=self._client.cluster,
            ) from error

    def _opened(self) -> None:
        """There is contact, even if nothing happens: the next bookmark may be a minute off."""
        self.error = None

    def _contact(self, version: str) -> None:
        self._version = version
        self.last_contact = self._timing.clock()
        self.error = None


class Store(Generic[T]):
    """A handler that keeps `project(object)` of each object and says what changed.

    `project` returns None for what is not wanted. `on_change(key, old, new)` is called when the
    projection differs (new is None: gone), so put into it what identity means to you: the uid, or
    an object that was deleted and created again during a cut looks unchanged.
    """

    def __init__(
        self,
        project: Callable[[Json], T | None],
        on_change: Callable[[Key, T | None, T | None], None] | None = None,
    ) -> None:
        self.items: dict[Key, T] = {}
        self._project = project
        self._on_change = on_change

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """Take over the full set; what is not in it is gone."""
        found = {key_of(obj): self._project(obj) for obj in items}
        for key in self.items.keys() - found.keys():
            self._set(key, None)
        for key, value in found.items():
            self._set(key, value)

    def on_event(self, type: str, obj: Json) -> None:
        """Take over one change."""
        self._set(key_of(obj), None if type == "DELETED" else self._project(obj))

    def _set(self, key: Key, new: T | None) -> None:
        old = self.items.get(key)
        if new is None:
            self.items.pop(key, None)
        else:
            self.items[key] = new
        if self._on_change and old != new:
            self._on_change(key, old, new)


def key_of(obj: Json) -> Key:
    """Name an object within its resource type."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]
