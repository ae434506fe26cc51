"""What is to be looked at again at some time: trees of queues, and single workloads."""

from __future__ import annotations

import heapq


class Alarms:
    """Times are seconds on the caller's clock."""

    def __init__(self) -> None:
        self._trees: dict[str, float] = {}
        self._workloads: list[tuple[float, str]] = []

    def tree(self, root: str, at: float) -> None:
        """Look at a tree at that time; if that is due anyway, when it is due."""
        self._trees.setdefault(root, at)

    def tree_by(self, root: str, at: float) -> None:
        """Look at a tree at that time, whatever was due."""
        self._trees[root] = at

    def workload(self, uid: str, at: float) -> None:
        """Look at a workload at that time."""
        heapq.heappush(self._workloads, (at, uid))

    def due(self) -> float | None:
        """The first of these times."""
        first = [at for at, _ in self._workloads[:1]]
        return min([*self._trees.values(), *first], default=None)

    def trees_due(self, now: float) -> list[str]:
        """The roots whose time has come: they are told once."""
        roots = [root for root, at in self._trees.items() if at <= now]
        for root in roots:
            del self._trees[root]
        return roots

    def workloads_due(self, now: float) -> list[str]:
        """The UIDs whose time has come, in that order: they are told once."""
        uids = []
        while self._workloads and self._workloads[0][0] <= now:
            uids.append(heapq.heappop(self._workloads)[1])
        return uids
