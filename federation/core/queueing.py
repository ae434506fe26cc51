"""The order of waiting workloads and the port behind which they wait.

Order (Kueue): higher priority, then earlier creation, then UID. It is encoded in a fixed-width
text whose lexical order is that order, so that memory, Redis and anything else that sorts text
agree.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from federation.core.devices.wants import PodWants
from federation.core.types import Pending

_INT32 = 2**31
_LATEST_MS = 2**48 - 1
_ORDER_LENGTH = 8 + 12
"""Characters of a member before the UID: inverted priority, milliseconds (hex)."""
_SHAPE_LENGTH = 8
"""Characters of a member behind the UID and a `~`; `pending_index.lua` counts on both too."""


class Entry(NamedTuple):
    """A waiting workload as an index knows it. `member` says where it stands (see `member`)."""

    uid: str
    generation: int
    member: str

    @property
    def shape(self) -> str:
        """See `shape`."""
        return shape_of(self.member)


def entry(item: Pending) -> Entry:
    """A workload for the index."""
    return Entry(item.uid, item.generation, member(item))


def member(item: Pending) -> str:
    """The sortable text of a workload; behind its order stand the UID and the shape."""
    priority = min(max(item.priority, -_INT32), _INT32 - 1)
    created = min(max(int(item.created * 1000), 0), _LATEST_MS)
    return f"{_INT32 - 1 - priority:08x}{created:012x}{item.uid}~{shape(item)}"


def shape(item: Pending) -> str:
    """Equal for workloads that get the same answer: if one does not fit now, none does.

    Kueue's scheduling equivalence (priority and pod sets), and here also where it was submitted,
    since that decides which worker queues serve it, and what binds it to one cluster.
    """
    pods = [
        (
            (p.name, p.count, p.min_count, sorted(p.requests.items())),
            (p.node_selector, p.affinity, p.tolerations, p.topology),
            *((_cards(p.cards),) if p.cards else ()),
        )
        for p in item.pod_sets
    ]
    tied: tuple[object, ...] = (item.only, item.stays) if item.only or item.stays else ()
    tied = (*tied, *item.rules.place, *item.nominees)
    tied = (*tied, *filter(None, (item.kind, item.agent_only)))
    if item.growth is not None:
        tied = (*tied, item.growth.cluster, sorted(item.growth.flavors.items()))
    text = repr((item.namespace, item.local_queue, item.priority, pods, *tied))
    return hashlib.blake2b(text.encode(), digest_size=_SHAPE_LENGTH // 2).hexdigest()


def _cards(wants: PodWants) -> str:
    """The same text for the same wants: a set has no order of its own."""
    wishes = wants.wishes
    uuids = None if wishes.use_uuids is None else sorted(wishes.use_uuids)
    sets = (uuids, sorted(wishes.avoid_uuids))
    bare = replace(wishes, use_uuids=None, avoid_uuids=frozenset())
    return repr((wants.containers, bare, sets))


def shape_of(member: str) -> str:
    """The shape of the workload of a member."""
    return member[-_SHAPE_LENGTH:]


def uid_of(member: str) -> str:
    """The UID of the workload of a member."""
    return member[_ORDER_LENGTH : -_SHAPE_LENGTH - 1]


class IndexLost(Exception):
    """The index no longer holds what was put there; fill it again from the record."""


class IndexUnavailable(Exception):
    """The index cannot be reached now; nothing is known to be lost."""


class PendingIndex(Protocol):
    """Where waiting workloads are kept in order. An index only: losing it loses no workload.

    Each workload is ready or parked in one queue. Changes (enqueue, park, block, reactivate, drop)
    neither wait nor fail: they take effect in the order of the calls, at the latest before the
    next reading (heads, ahead, claim, waiting, counts) does. A reading raises IndexLost or
    IndexUnavailable when it, or a change before it, did not get through. `fill` has to follow then;
    until it does, changes are ignored and readings raise.
    """

    def enqueue(self, queue: str, entry: Entry) -> None:
        """Make a workload ready in a queue. One that is there in this generation, or a later one,
        stays as it is, parked or not; an earlier one is replaced.
        """

    def park(self, uid: str, generation: int) -> None:
        """Set a ready workload aside until `reactivate`, if it is there in this generation."""

    def block(self, queue: str, shape: str) -> None:
        """Set all ready workloads of a shape aside until `reactivate`, and those that follow."""

    def reactivate(self, queues: Iterable[str]) -> None:
        """Make all workloads of these queues ready."""

    def drop(self, uid: str) -> None:
        """Forget a workload."""

    async def heads(self, queues: Iterable[str]) -> dict[str, Entry]:
        """The first ready workload of each of these queues, as far as they have one."""

    async def ahead(self, queues: Iterable[str], depth: int) -> dict[str, list[Entry]]:
        """The first of each of these queues in order, at most `depth`, ready or not: for queues in
        which nothing is set aside. One that has none may be left out.
        """

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        """Take ready workloads out, by UID and generation; the UIDs of those that could be.

        Another one was changed or taken meanwhile.
        """

    async def waiting(self, queue: str, limit: int) -> list[str]:
        """UIDs of the first that wait in a queue, in order, ready or not."""

    async def counts(self, queues: Iterable[str]) -> dict[str, int]:
        """How many wait in each of these queues, ready or not. Raises IndexLost too when what is
        kept of a queue does not agree with itself.
        """

    async def fill(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """Forget everything and make these ready, each in its queue.

        They are gone through once, at one moment; changes made after that follow.
        """


@dataclass(slots=True)
class _Queue:
    """`lines` are the ready members by shape, `first` the first of each line not blocked."""

    lines: dict[str, list[str]] = field(default_factory=dict)
    first: list[str] = field(default_factory=list)
    blocked: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)

    def add(self, member: str) -> None:
        shape = shape_of(member)
        line = self.lines.setdefault(shape, [])
        insort(line, member)
        if shape not in self.blocked and line[0] == member:
            if len(line) > 1:
                _remove(self.first, line[1])
            insort(self.first, member)

    def remove(self, member: str) -> bool:
        """Whether it was ready."""
        shape = shape_of(member)
        line = self.lines.get(shape, [])
        was_first = line[:1] == [member]
        if not _remove(line, member):
            return False
        if not line:
            del self.lines[shape]
        if was_first and shape not in self.blocked:
            _remove(self.first, member)
            if line:
                insort(self.first, line[0])
        return True

    def block(self, shape: str) -> None:
        if shape not in self.blocked:
            self.blocked.add(shape)
            if shape in self.lines:
                _remove(self.first, self.lines[shape][0])

    def reactivate(self) -> None:
        self.first += [self.lines[shape][0] for shape in self.blocked if shape in self.lines]
        self.first.sort()
        self.blocked.clear()
        for member in self.parked:
            self.add(member)
        self.parked.clear()

    @property
    def size(self) -> int:
        return len(self.parked) + sum(map(len, self.lines.values()))

    def ready(self, member: str) -> bool:
        return member not in self.parked and shape_of(member) not in self.blocked


def _remove(members: list[str], member: str) -> bool:
    """Take it out of a sorted list, if it is there."""
    at = bisect_left(members, member)
    if at == len(members) or members[at] != member:
        return False
    del members[at]
    return True


class MemoryIndex:
    """The port in memory: for the agent, for tests and for benchmarks."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._entries: dict[str, tuple[str, Entry]] = {}

    def enqueue(self, queue: str, entry: Entry) -> None:
        """See PendingIndex."""
        known = self._entries.get(entry.uid)
        if known is not None:
            if known[1].generation >= entry.generation:
                return
            self._forget(entry.uid)
        self._entries[entry.uid] = (queue, entry)
        self._queues.setdefault(queue, _Queue()).add(entry.member)

    def park(self, uid: str, generation: int) -> None:
        """See PendingIndex."""
        name, known = self._entries.get(uid, ("", None))
        if known is not None and known.generation == generation:
            queue = self._queues[name]
            if queue.remove(known.member):
                queue.parked.add(known.member)

    def block(self, queue: str, shape: str) -> None:
        """See PendingIndex."""
        self._queues.setdefault(queue, _Queue()).block(shape)

    def reactivate(self, queues: Iterable[str]) -> None:
        """See PendingIndex."""
        for name in queues:
            if queue := self._queues.get(name):
                queue.reactivate()

    def drop(self, uid: str) -> None:
        """See PendingIndex."""
        if uid in self._entries:
            self._forget(uid)

    async def heads(self, queues: Iterable[str]) -> dict[str, Entry]:
        """See PendingIndex."""
        found = {}
        for name in queues:
            queue = self._queues.get(name)
            if queue is not None and queue.first:
                found[name] = self._entries[uid_of(queue.first[0])][1]
        return found

    async def ahead(self, queues: Iterable[str], depth: int) -> dict[str, list[Entry]]:
        """See PendingIndex."""
        return {name: self._first(name, depth) for name in queues if name in self._queues}

    def _first(self, queue: str, limit: int) -> list[Entry]:
        known = self._queues[queue]
        members = [*known.parked, *(text for line in known.lines.values() for text in line)]
        return [self._entries[uid_of(text)][1] for text in sorted(members)[:limit]]

    async def claim(self, entries: Mapping[str, int]) -> frozenset[str]:
        """See PendingIndex."""
        claimed = set()
        for uid, generation in entries.items():
            name, known = self._entries.get(uid, ("", None))
            if known is None or known.generation != generation:
                continue
            if self._queues[name].ready(known.member):
                self._forget(uid)
                claimed.add(uid)
        return frozenset(claimed)

    async def waiting(self, queue: str, limit: int) -> list[str]:
        """See PendingIndex."""
        if queue not in self._queues:
            return []
        return [found.uid for found in self._first(queue, limit)]

    async def counts(self, queues: Iterable[str]) -> dict[str, int]:
        """See PendingIndex."""
        return {name: self._queues.get(name, _Queue()).size for name in queues}

    async def fill(self, entries: Iterable[tuple[str, Entry]]) -> None:
        """See PendingIndex."""
        self._queues, self._entries = {}, {}
        for queue, found in entries:
            self.enqueue(queue, found)

    def _forget(self, uid: str) -> None:
        name, known = self._entries.pop(uid)
        queue = self._queues[name]
        if not queue.remove(known.member):
            queue.parked.discard(known.member)
