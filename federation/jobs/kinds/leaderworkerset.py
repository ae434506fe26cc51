"""LeaderWorkerSet: groups of a leader and its workers, of one template or of two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from federation.api.kinds.paths import Path, Place, first, number
from federation.jobs.kinds.kind import PodRole
from federation.jobs.kinds.scaled import Scaled
from federation.jobs.kinds.shape import shaped

Json = dict[str, Any]

_AT: Path = ("spec", "leaderWorkerTemplate")


class LeaderWorkerSet(Scaled):
    """See JobKind."""

    def placed(self, obj: Json) -> Iterator[tuple[Place, PodRole]]:
        """See GenericKind."""
        groups, size = number(obj, ("spec", "replicas"), 1), number(obj, (*_AT, "size"), 1)
        leader, worker = first(obj, (*_AT, "leaderTemplate")), first(obj, (*_AT, "workerTemplate"))
        if shaped(leader):
            yield (*_AT, "leaderTemplate"), PodRole("leader", groups, leader)
        if shaped(worker):
            name, each = ("worker", size - 1) if shaped(leader) else ("main", size)
            yield (*_AT, "workerTemplate"), PodRole(name, groups * each, worker)
