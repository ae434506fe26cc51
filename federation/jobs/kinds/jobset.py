"""JobSet: its replicated jobs say how many of their Jobs are ready or done."""

from __future__ import annotations

from typing import Any

from federation.api.kinds.paths import EACH, first, number, places
from federation.jobs.kinds.generic import GenericKind

Json = dict[str, Any]

_JOBS = ("spec", "replicatedJobs", EACH)
_TOLD = ("status", "replicatedJobsStatus", EACH)


class JobSet(GenericKind):
    """See JobKind."""

    def ready(self, obj: Json) -> bool:
        """See GenericKind. All Jobs are ready or have succeeded."""
        if self.finished(obj):
            return True
        wanted = sum(number(job, ("replicas",), 1) for _, job in places(obj, _JOBS))
        told = [found for _, found in places(obj, _TOLD)]
        fields = (("ready",), ("succeeded",))
        found = sum(number(one, field, 0) for one in told for field in fields)
        return not self.suspended(obj) and bool(told) and found >= wanted

    def reclaimable(self, asked: Json, obj: Json) -> dict[str, int]:
        """See JobKind. The pods of Jobs that have succeeded."""
        jobs = {
            str(first(job, ("name",))): number(job, ("replicas",), 1)
            for _, job in places(obj, _JOBS)
        }
        done = {
            str(first(one, ("name",))): number(one, ("succeeded",), 0)
            for _, one in places(obj, _TOLD)
        }
        pods = {role.name: role.count for role in self.roles(obj)}
        return {
            name.lower(): pods[name.lower()] * min(count, jobs[name]) // jobs[name]
            for name, count in done.items()
            if count > 0 and jobs.get(name, 0) > 0 and name.lower() in pods
        }
