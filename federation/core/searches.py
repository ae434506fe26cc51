"""Where the searches for flavors of waiting workloads go on.

Kueue's rule: a search goes on behind the flavor where the last one stopped; an older search is void
once quota has changed in the queue.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from federation.core.assignment import Tried
from federation.core.types import Pending


@dataclass(frozen=True, slots=True)
class _Search:
    """Where a search for flavors stopped, in which cycle, and how often quota had changed then.

    `starts` are where searches started since `events` was counted: to start there again would end
    the same way.
    """

    tried: Tried
    cycle: int
    generation: int
    events: int
    starts: frozenset[object]


class Searches:
    """The last search of each waiting workload."""

    def __init__(self) -> None:
        self._last: dict[str, _Search] = {}
        self._generations: defaultdict[str, int] = defaultdict(int)
        """How often quota changed, by ClusterQueue."""

    def quota_changed(self, queue: str) -> None:
        """Searches in this queue are void from the cycle after the next on."""
        self._generations[queue] += 1

    def forget(self, uid: str) -> None:
        """The next search of this workload starts at the first flavor."""
        self._last.pop(uid, None)

    def resumed(self, item: Pending, cycle: int) -> Tried:
        """Behind which flavors the search of a workload goes on in this cycle."""
        last = self._last.get(item.uid)
        if last is None:
            return ()
        if last.cycle < cycle - 1 and self._generations[item.cluster_queue] > last.generation:
            return ()
        return last.tried

    def note(self, item: Pending, resumed: Tried, tried: Tried, cycle: int, events: int) -> bool:
        """A search went on behind `resumed` and stopped at `tried`, after this many events.

        Returns whether the next one starts where none did since the last event.
        """
        last = self._last.get(item.uid)
        starts = frozenset({_start(resumed)})
        if last is not None and last.events == events:
            starts |= last.starts
        generation = self._generations[item.cluster_queue]
        self._last[item.uid] = _Search(tried, cycle, generation, events, starts)
        return _start(tried) not in starts


def _start(tried: Tried) -> object:
    """Where a search behind `tried` starts; empty if at the first flavor of everything."""
    ahead = (
        (index, resource, at)
        for index, known in enumerate(tried)
        for resource, at in known.items()
        if at != -1
    )
    return tuple(sorted(ahead))
