"""JobSet: its replicated jobs say how many of their Jobs are ready or done."""

from __future__ import annotations

from typing import Any

from federation.api.kinds.paths import first, number
from federation.jobs.kinds.generic import GenericKind
from federation.jobs.scaling import pod_count

Json = dict[str, Any]


class JobSet(GenericKind):
    """See JobKind."""

    def ready(self, obj: Json) -> bool:
        """See GenericKind. All Jobs are ready or have succeeded."""
        if self.finished(obj):
            return True
        wanted = sum(number(job, ("replicas",), 1) for job in _jobs(obj))
        found = sum(
            number(told, ("ready",), 0) + number(told, ("succeeded",), 0) for told in _told(obj)
        )
        return not self.suspended(obj) and bool(_told(obj)) and found >= wanted

    def reclaimable(self, asked: Json, obj: Json) -> dict[str, int]:
        """See JobKind. The pods of Jobs that have succeeded."""
        pods = {
            job.get("name", ""): pod_count(first(job, ("template", "spec"), {}))
            for job in _jobs(obj)
        }
        done = {told.get("name", ""): number(told, ("succeeded",), 0) for told in _told(obj)}
        return {
            name.lower(): count * pods[name]
            for name, count in done.items()
            if count > 0 and name in pods
        }


def _jobs(obj: Json) -> list[Json]:
    found: list[Json] = first(obj, ("spec", "replicatedJobs"), [])
    return found


def _told(obj: Json) -> list[Json]:
    found: list[Json] = first(obj, ("status", "replicatedJobsStatus"), [])
    return found
