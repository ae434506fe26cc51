"""Who waits in which line: the waiting workloads of every ClusterQueue, over the index of them.

A ClusterQueue is one line, or one for each LocalQueue where those take turns. In a line, workloads
are ready or set aside; shapes that do not fit are set aside whole. One workload per ClusterQueue
may stick to the front while its victims stop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field

from federation.core.cycle import Wait
from federation.core.queueing import Entry, IndexLost, PendingIndex, member, shape_of
from federation.core.types import Pending

Usages = Mapping[tuple[str, str], float]
"""What LocalQueues used lately, by namespace and name."""


@dataclass(slots=True)
class _Line:
    """What is known of one ClusterQueue beside the index.

    `blocked` are shapes that do not fit now, `aside` the index queues in which something is set
    aside, `sticky` the workload that waits for its victims, `parts` the index queues it consists of
    with the number of workloads that came in there.
    """

    blocked: dict[str, Wait] = field(default_factory=dict)
    parked: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    sticky: str = ""
    parts: dict[str, int] = field(default_factory=dict)

    def forget(self) -> None:
        """Nothing is set aside any more."""
        self.blocked.clear()
        self.parked.clear()
        self.aside.clear()


class Lines:
    """`charged` are the UIDs that hold quota: they are passed over. `touch` is called with each
    queue whose next head is not the one that was read.
    """

    def __init__(
        self, index: PendingIndex, charged: Container[str], touch: Callable[[str], None]
    ) -> None:
        self.items: dict[str, Pending] = {}
        """All that waits, by UID."""
        self._index, self._charged, self._touch = index, charged, touch
        self._queues: Mapping[str, bool] = {}
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self._members: dict[str, str] = {}
        self._outside: set[str] = set()
        """UIDs that wait, and are not in the index: their time has not come."""

    def configure(self, queues: Mapping[str, bool], now: float) -> None:
        """Take over changed queues, by name: whether the LocalQueues of each take turns. Where
        they begin, or cease, to do so, workloads change lines. Of a queue that is gone only its
        workloads are remembered, in one line.
        """
        before, self._queues = self._queues, queues
        for name in (before.keys() - queues.keys()) & self._lines.keys():
            line = self._lines[name]
            self._index.reactivate(sorted(line.aside))
            line.forget()
            line.sticky = ""
        names = before.keys() | queues.keys()
        moved = {name for name in names if before.get(name, False) is not queues.get(name, False)}
        for name in moved & self._lines.keys():
            line = self._lines[name]
            self._index.reactivate(sorted(line.aside))
            line.forget()
            line.parts.clear()
        for item in self.items.values() if moved else ():
            if item.cluster_queue in moved:
                self._count(item, 1)
                self._index.drop(item.uid)
                self._place(item, item.not_before <= now)

    # What comes and goes

    def put(self, item: Pending, ready: bool) -> None:
        """Take in a workload, or what changed about it. One that is not `ready` stays out of the
        index until `bring_back`.
        """
        uid, line = item.uid, self._lines[item.cluster_queue]
        sticks = ready and line.sticky == uid
        if uid in self.items:
            self.take_out(uid)
        self.items[uid], self._members[uid] = item, member(item)
        self._count(item, 1)
        if sticks:
            line.sticky = uid
        self._place(item, ready)

    def _place(self, item: Pending, ready: bool) -> None:
        """Into the index, or not yet."""
        if ready:
            self._outside.discard(item.uid)
            self._index.enqueue(self._part(item), self._entry(item))
        else:
            self._outside.add(item.uid)

    def _entry(self, item: Pending) -> Entry:
        return Entry(item.uid, item.generation, self._members[item.uid])

    def take_out(self, uid: str) -> None:
        """A workload does not wait any more."""
        self.admitted(uid)
        self._index.drop(uid)

    def admitted(self, uid: str) -> None:
        """A workload that was claimed does not wait any more."""
        item = self.items.pop(uid)
        line = self._lines[item.cluster_queue]
        self._count(item, -1)
        line.parked.discard(uid)
        if line.sticky == uid:
            line.sticky = ""
        self._members.pop(uid, None)
        self._outside.discard(uid)

    def _count(self, item: Pending, change: int) -> None:
        parts, part = self._lines[item.cluster_queue].parts, self._part(item)
        parts[part] = parts.get(part, 0) + change
        if parts[part] <= 0:
            del parts[part]

    def _part(self, item: Pending) -> str:
        """Where it stands in the index: LocalQueues that take turns have a line each."""
        if not self._queues.get(item.cluster_queue, False):
            return item.cluster_queue
        return f"{item.cluster_queue}|{item.namespace}/{item.local_queue}"

    # What is set aside

    def shape(self, uid: str) -> str:
        """The shape of a waiting workload; of one that does not wait, ''."""
        return shape_of(self._members.get(uid, ""))

    def blocked(self, item: Pending) -> Wait | None:
        """The answer that another workload of the same shape got, if it still holds."""
        return self._lines[item.cluster_queue].blocked.get(self.shape(item.uid))

    def block(self, wait: Wait) -> None:
        """All workloads of this shape get the same answer until `reactivate`."""
        item = wait.item
        line, shape, part = self._lines[item.cluster_queue], self.shape(item.uid), self._part(item)
        line.blocked[shape] = wait
        line.aside.add(part)
        self._index.block(part, shape)

    def park(self, item: Pending) -> None:
        """Set a workload aside until `reactivate`."""
        line = self._lines[item.cluster_queue]
        line.parked.add(item.uid)
        line.aside.add(self._part(item))
        self._index.park(item.uid, item.generation)

    def stick(self, item: Pending) -> bool:
        """Keep the place at the front for a workload; whether that is new."""
        line = self._lines[item.cluster_queue]
        if line.sticky == item.uid:
            return False
        line.sticky = item.uid
        return True

    def bring_back(self, item: Pending) -> None:
        """Make a workload ready whose time has come, parked or not."""
        line = self._lines[item.cluster_queue]
        if item.uid in line.parked:
            line.parked.discard(item.uid)
            self._index.drop(item.uid)
        self._place(item, ready=True)

    def reactivate(self, names: Iterable[str], selected: Callable[[Pending], bool]) -> None:
        """All that is set aside in these queues is ready, but for what is not `selected`."""
        aside, unselected = [], []
        for name in names:
            line = self._lines[name]
            if line.aside:
                aside += sorted(line.aside)
                parked = [self.items[uid] for uid in sorted(line.parked)]
                unselected += [item for item in parked if not selected(item)]
                line.forget()
        if aside:
            self._index.reactivate(aside)
        for item in unselected:
            self.park(item)

    # What is read

    async def heads(self, names: Iterable[str], usages: Usages) -> list[Pending]:
        """Whom to try: the first of each queue, as far as it has one.

        The LocalQueue that used least goes first, then who waits for its victims.
        """
        lines = {name: self._lines[name] for name in names}
        wanted = [
            part
            for line in lines.values()
            if not self._sticks(line) or len(line.parts) > 1
            for part in line.parts
        ]
        found = await self._index.heads(wanted) if wanted else {}

        def turn(item: Pending) -> tuple[float, bool, str]:
            used = usages.get((item.namespace, item.local_queue), 0.0)
            sticky = lines[item.cluster_queue].sticky == item.uid
            return used, not sticky, self._members[item.uid]

        heads = []
        for name, line in lines.items():
            entries = [found[part] for part in line.parts if part in found]
            known = [item for e in entries if (item := self._known(name, e)) is not None]
            if self._sticks(line):
                known.append(self.items[line.sticky])
            if known:
                heads.append(min(known, key=turn) if len(known) > 1 else known[0])
        return heads

    async def rounds(self, names: Iterable[str], usages: Usages, depth: int) -> list[list[Pending]]:
        """Whom to try one cycle after the other, if all that is tried before is admitted: `heads`,
        and then who follows in each queue, at most `depth` rounds.

        There is one round only where the order depends on more than who is in line: something is
        set aside, waits for victims, or LocalQueues take turns.
        """
        lines = {name: self._lines[name] for name in names}
        plain = all(not (x.aside or x.sticky) and len(x.parts) < 2 for x in lines.values())
        if depth < 2 or not plain:
            return [await self.heads(lines, usages)]
        parts = {name: part for name, line in lines.items() for part in line.parts}
        found = await self._index.ahead(parts.values(), depth) if parts else {}
        fewest, queues = depth, []
        for name, part in parts.items():
            entries = found.get(part, [])
            known = self._known_ones(name, entries)
            queues.append(known)
            if len(known) < len(entries) or len(entries) == depth:  # more may follow
                fewest = min(fewest, max(1, len(known)))
        rounds = [[q[at] for q in queues if at < len(q)] for at in range(fewest)]
        return [heads for heads in rounds if heads] or [[]]

    def _known_ones(self, queue: str, entries: Iterable[Entry]) -> list[Pending]:
        """The workloads of index entries, up to the first one of which something else is known."""
        known: list[Pending] = []
        for found in entries:
            if (item := self._known(queue, found)) is None:
                break
            known.append(item)
        return known

    def _sticks(self, line: _Line) -> bool:
        """Whether a workload that waits for its victims is at the front, and not set aside."""
        uid = line.sticky
        if not uid or uid in line.parked or uid in self._charged:
            return False
        return self.shape(uid) not in line.blocked

    def _known(self, queue: str, found: Entry) -> Pending | None:
        """The workload of an index entry; what came in while the index was read is seen next."""
        item = self.items.get(found.uid)
        if item is None or item.generation != found.generation or item.cluster_queue != queue:
            if item is None:
                self._index.drop(found.uid)
            self._touch(queue)
            return None
        if item.uid in self._charged:  # what holds quota waits for no more until it is released
            self.park(item)
            self._touch(queue)
            return None
        return item

    async def claim(self, items: Iterable[Pending]) -> frozenset[str]:
        """Take workloads out of the index; the UIDs of those that could be. The index had another
        idea of the others, and is told again.
        """
        wanted = {item.uid: item for item in items}
        if not wanted:
            return frozenset()
        generations = {uid: item.generation for uid, item in wanted.items()}
        claimed = await self._index.claim(generations)
        for uid, item in wanted.items():
            if uid not in claimed and self.items.get(uid) is item:
                self._index.drop(uid)
                self._index.enqueue(self._part(item), self._entry(item))
        return claimed

    async def waiting(self, queue: str, limit: int, usages: Usages) -> list[str]:
        """UIDs of the first that wait in a ClusterQueue, in order.

        Where LocalQueues take turns, those of the one that used least come first.
        """
        line = self._lines[queue] if queue in self._lines else _Line()
        found: list[str] = [line.sticky] if line.sticky else []
        for part in sorted(line.parts, key=lambda part: (usages.get(_local(part), 0.0), part)):
            found += [uid for uid in await self._index.waiting(part, limit) if uid != line.sticky]
        return found[:limit]

    async def audit(self) -> None:
        """Compare the index with what it was told. Raises IndexLost when it lacks something, or
        has something that nobody put there, and when it contradicts itself.
        """
        before = self._expected()
        found = await self._index.counts(before)
        if self._expected() != before:
            return  # jobs came or went meanwhile: it is not known which of them it counts
        wrong = [name for name, count in before.items() if found[name] != count]
        if wrong:
            name = wrong[0]
            raise IndexLost(
                f"the index does not have what was put there: {found[name]} instead of"
                f" {before[name]} workloads in {name}, and {len(wrong) - 1} more queues are wrong"
            )

    def _expected(self) -> dict[str, int]:
        """How many workloads each part of the index should have."""
        found = {name: n for line in self._lines.values() for name, n in line.parts.items()}
        for uid in self._outside:
            found[self._part(self.items[uid])] -= 1
        return found

    async def refill(self, now: float) -> None:
        """Fill the index again with all that waits; nothing is set aside any more."""
        for line in self._lines.values():
            line.forget()
        self._outside = {uid for uid, item in self.items.items() if item.not_before > now}
        await self._index.fill(
            (self._part(item), self._entry(item))
            for uid, item in self.items.items()
            if uid not in self._outside
        )


def _local(part: str) -> tuple[str, str]:
    """Namespace and name of the LocalQueue of an index queue."""
    namespace, _, name = part.partition("|")[2].partition("/")
    return namespace, name
