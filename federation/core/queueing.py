"""The order of waiting workloads and the port behind which they wait.

Order (Kueue): a sticky workload first, then higher priority, then earlier creation, then UID. It
is encoded in a fixed-width text whose lexical order is that order, so that memory, Redis and
anything else that sorts text agree.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from federation.core.types import Pending

_INT32 = 2**31
_LATEST_MS = 2**48 - 1
_ORDER_LENGTH = 1 + 8 + 12
"""Characters of a member before the UID: sticky mark, inverted priority, milliseconds (hex)."""
_SHAPE_LENGTH = 8
"""Characters of a member behind the UID and a `~`; `pending_index.lua` counts on it too."""


def member(item: Pending, *, sticky: bool = False) -> str:
    """The sortable text of a workload; behind its order stand the UID and the shape."""
    priority = min(max(item.priority, -_INT32), _INT32 - 1)
    created = min(max(int(item.created * 1000), 0), _LATEST_MS)
    order = f"{0 if sticky else 1}{_INT32 - 1 - priority:08x}{created:012x}"
    return f"{order}{item.uid}~{shape(item)}"


def shape(item: Pending) -> str:
    """Equal for workloads that get the same answer: if one does not fit now, none does.

    Kueue's scheduling equivalence (priority and pod sets), and here also where it was submitted,
    since that decides which worker queues serve it.
    """
    pods = [
        (p.name, p.count, sorted(p.requests.items()), p.node_selector, p.affinity, p.tolerations)
        for p in item.pod_sets
    ]
    text = repr((item.namespace, item.local_queue, item.priority, pods))
    return hashlib.blake2b(text.encode(), digest_size=_SHAPE_LENGTH // 2).hexdigest()


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many workloads of a ClusterQueue are ready, parked (did not fit), and held (claimed)."""

    ready: int = 0
    parked: int = 0
    held: int = 0


class IndexLost(Exception):
    """The index no longer holds what was put there; fill it again from the record."""


class IndexUnavailable(Exception):
    """The index cannot be reached now; nothing is known to be lost."""


class PendingIndex(Protocol):
    """Where waiting workloads are kept in order. An index only: losing it loses no workload.

    Each workload is in exactly one of ready, parked, held. Every call is safe to repeat, and may
    raise IndexLost or IndexUnavailable.
    """

    async def enqueue(self, item: Pending, *, sticky: bool = False) -> None:
        """Make `item` ready. The same generation again only undoes a claim."""

    async def heads(self, queue: str, limit: int, without: Collection[str] = ()) -> list[Pending]:
        """The first ready workloads of a ClusterQueue, in order, left where they are.

        Those with a shape in `without` are passed over.
        """

    async def park(self, uid: str, generation: int) -> None:
        """Set a ready workload aside until `reactivate`."""

    async def reactivate(self, queues: Iterable[str]) -> None:
        """Make the parked workloads of these ClusterQueues ready."""

    async def claim(self, uid: str, generation: int) -> bool:
        """Move ready to held; False if it is neither, in this generation (lost a race)."""

    async def release(self, uid: str) -> None:
        """Move held back to ready."""

    async def drop(self, uid: str) -> None:
        """Forget a workload wherever it is."""

    async def sizes(self, queue: str) -> Sizes:
        """Counts of one ClusterQueue."""

    async def position(self, uid: str) -> int | None:
        """How many ready workloads of its queue are ahead; None if it is not ready."""


@dataclass(slots=True)
class _Queue:
    ready: list[str] = field(default_factory=list)
    parked: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Entry:
    item: Pending
    member: str


class MemoryIndex:
    """The port in memory: for the agent, for tests and for benchmarks."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._entries: dict[str, _Entry] = {}

    def _queue(self, name: str) -> _Queue:
        return self._queues.setdefault(name, _Queue())

    async def enqueue(self, item: Pending, *, sticky: bool = False) -> None:
        """See PendingIndex."""
        known = self._entries.get(item.uid)
        if known is not None:
            if known.item.generation >= item.generation:
                await self.release(item.uid)
                return
            self._remove(item.uid)
        entry = _Entry(item, member(item, sticky=sticky))
        self._entries[item.uid] = entry
        insort(self._queue(item.cluster_queue).ready, entry.member)

    async def heads(self, queue: str, limit: int, without: Collection[str] = ()) -> list[Pending]:
        """See PendingIndex."""
        texts = (text for text in self._queue(queue).ready if text[-_SHAPE_LENGTH:] not in without)
        return [
            self._entries[text[_ORDER_LENGTH : -_SHAPE_LENGTH - 1]].item
            for text in islice(texts, limit)
        ]

    async def park(self, uid: str, generation: int) -> None:
        """See PendingIndex."""
        entry = self._ready(uid, generation)
        if entry is not None:
            queue = self._queue(entry.item.cluster_queue)
            queue.ready.remove(entry.member)
            queue.parked.add(uid)

    async def reactivate(self, queues: Iterable[str]) -> None:
        """See PendingIndex."""
        for queue in map(self._queue, queues):
            queue.ready.extend(self._entries[uid].member for uid in queue.parked)
            queue.ready.sort()
            queue.parked.clear()

    async def claim(self, uid: str, generation: int) -> bool:
        """See PendingIndex."""
        entry = self._ready(uid, generation)
        if entry is None:
            known = self._entries.get(uid)
            held = known and uid in self._queue(known.item.cluster_queue).held
            return bool(held and known and known.item.generation == generation)
        queue = self._queue(entry.item.cluster_queue)
        queue.ready.remove(entry.member)
        queue.held.add(uid)
        return True

    async def release(self, uid: str) -> None:
        """See PendingIndex."""
        entry = self._entries.get(uid)
        if entry is None:
            return
        queue = self._queue(entry.item.cluster_queue)
        if uid in queue.held:
            queue.held.remove(uid)
            insort(queue.ready, entry.member)

    async def drop(self, uid: str) -> None:
        """See PendingIndex."""
        self._remove(uid)

    async def sizes(self, queue: str) -> Sizes:
        """See PendingIndex."""
        known = self._queue(queue)
        return Sizes(len(known.ready), len(known.parked), len(known.held))

    async def position(self, uid: str) -> int | None:
        """See PendingIndex."""
        entry = self._entries.get(uid)
        if entry is None:
            return None
        ready = self._queue(entry.item.cluster_queue).ready
        return ready.index(entry.member) if entry.member in ready else None

    def _ready(self, uid: str, generation: int) -> _Entry | None:
        entry = self._entries.get(uid)
        if entry is None or entry.item.generation != generation:
            return None
        return entry if entry.member in self._queue(entry.item.cluster_queue).ready else None

    def _remove(self, uid: str) -> None:
        entry = self._entries.pop(uid, None)
        if entry is None:
            return
        queue = self._queue(entry.item.cluster_queue)
        queue.parked.discard(uid)
        queue.held.discard(uid)
        if entry.member in queue.ready:
            queue.ready.remove(entry.member)
