"""The copies on a cluster that plain Kueue runs, each a Workload and then a Job, as they are seen.

Nothing is told before both have been listed: half of a copy could look like another one. What the
worker itself has made or deleted is noted from the answer, before a watch shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from federation.api.plain_report import plain_report
from federation.core.facts import RemoteJob
from federation.edge.deletions import FOR_EVER, Deletions
from federation.edge.informer import Calls, Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS, Json, Resource
from federation.jobs.mirror import mirrored_attempt
from federation.jobs.plain_kueue import answer, remote_job
from manager.copy_writes import local_uid
from manager.protocol import Copy, Inventory

Identify = Callable[[KubeClient], Coroutine[Any, Any, bool]]
"""Whether the physical cluster that answers is the one that is meant."""
TellAll = Callable[[Sequence[Copy], Inventory], None]


class PlainCopies:
    """`tell` hears of each copy that changed, `tell_all` of all that there are."""

    def __init__(self, cluster: str, tell: Callable[[Copy], None], tell_all: TellAll) -> None:
        self._cluster, self._tell, self._tell_all = cluster, tell, tell_all
        self._seen: dict[Resource, dict[str, Json]] = {WORKLOADS: {}, JOBS: {}}
        self._listed: dict[Resource, int] = {}
        self._floors: dict[str, int] = {}
        """The highest version that was told of each copy, by local UID."""
        self._waits: dict[str, tuple[float, float]] = {}
        self._started: set[str] = set()
        self._deleted = Deletions()

    @property
    def known(self) -> bool:
        """Whether all copies are."""
        return len(self._listed) == len(self._seen)

    def clone(self, uid: str) -> Json | None:
        """The Workload of a job (local UID)."""
        return self._seen[WORKLOADS].get(uid)

    def job(self, uid: str) -> Json | None:
        """The Job of it."""
        return self._seen[JOBS].get(uid)

    def calls(self, kind: Resource, client: KubeClient, identify: Identify) -> Calls:
        """What an informer of Workloads, or of Jobs, calls."""

        async def listed(items: Sequence[Json], version: str) -> None:
            if await identify(client):
                self.see_all(kind, items, int(version))

        return Calls(listed, partial(self.see, kind), partial(self.see, kind, gone=True))

    def see_all(self, kind: Resource, items: Sequence[Json], version: int) -> None:
        """All of a kind that there are, as of a version. One that is older than what was seen comes
        from a store that was restored: then what it says is the truth.
        """
        known = self._seen[kind]
        if version < max([self._listed.get(kind, 0), *map(_version, known.values())]):
            known.clear()
            self._floors.clear()
            self._listed = {}
        self._listed[kind] = version
        newer = {uid: obj for uid, obj in known.items() if _version(obj) > version}
        self._seen[kind] = {**{local_uid(item): item for item in items}, **newer}
        if not self.known:
            return
        uids = frozenset().union(*self._seen.values())
        for memory in (self._floors, self._waits):
            for uid in memory.keys() - uids:
                del memory[uid]
        self._started &= uids
        copies = [Copy(uid, self.facts(uid)) for uid in uids]
        at = max(*self._listed.values(), *self._floors.values(), 0)
        self._tell_all(copies, Inventory(at, uids))

    def see(self, kind: Resource, obj: Json, *, gone: bool = False) -> None:
        """One object as it is now, or was when it was deleted."""
        uid, objects = local_uid(obj), self._seen[kind]
        known, own, version = objects.get(uid), obj["metadata"]["uid"], _version(obj)
        if self._deleted.covers(own, version) or (known and _version(known) > version):
            return
        if gone:
            self._deleted.note(own, FOR_EVER)
            if known is None or known["metadata"]["uid"] != own:
                return
            del objects[uid]
        else:
            objects[uid] = obj
        self._floors[uid] = max(self._floors.get(uid, 0), _version(obj))
        if not self.known:
            return
        if uid in self._seen[WORKLOADS] or uid in self._seen[JOBS]:
            self._tell(Copy(uid, self.facts(uid)))
        else:
            self._tell(Copy(uid, self._gone(uid, kind, obj)))

    def facts(self, uid: str) -> RemoteJob:
        """A copy as the manager sees it. A Job that may run counts, whatever Workload there is."""
        clone, job = self.clone(uid), self.job(uid)
        if clone is not None and job is not None and not _same_attempt(clone, job):
            clone = None
        if job is not None and not job["spec"].get("suspend"):
            self._started.add(uid)
        until = self._waits_until(uid, clone) if clone is not None and job is None else 0.0
        started = uid in self._started
        found = remote_job(self._cluster, clone, job, waits_until=until, started=started)
        floor = self._floors[uid] = max(self._floors.get(uid, 0), found.version)
        return replace(found, version=floor)

    def _gone(self, uid: str, kind: Resource, last: Json) -> RemoteJob:
        pair = (last, None) if kind is WORKLOADS else (None, last)
        self._waits.pop(uid, None)
        self._started.discard(uid)
        found = remote_job(self._cluster, *pair)
        found = replace(found, granted=False, refused="", refused_reason="", deciding_until=0.0)
        return replace(found, gone=True, version=self._floors.pop(uid))

    def _waits_until(self, uid: str, clone: Json) -> float:
        """It is counted here since when it waits: clocks of other machines are not asked."""
        seconds = answer(clone).wait_s
        if not seconds:
            self._waits.pop(uid, None)
            return 0.0
        if self._waits.get(uid, (0.0, 0.0))[0] != seconds:
            self._waits[uid] = seconds, time.time() + seconds
        return self._waits[uid][1]


class PlainQueues:
    """The queues of such a cluster; `told` hears of the report that is made of them."""

    def __init__(self, cluster: str, told: Callable[[Json], None]) -> None:
        self._cluster, self._told = cluster, told
        self._seen: dict[Resource, dict[str, Json]] = {}

    def calls(self, kind: Resource) -> Calls:
        """What an informer of ClusterQueues, or of LocalQueues, calls."""
        return Calls(
            partial(self._list, kind), partial(self._see, kind), partial(self._see, kind, gone=True)
        )

    def _list(self, kind: Resource, items: Sequence[Json], version: str) -> None:
        self._seen[kind] = {item["metadata"]["uid"]: item for item in items}
        self._tell()

    def _see(self, kind: Resource, obj: Json, *, gone: bool = False) -> None:
        objects, uid = self._seen.setdefault(kind, {}), obj["metadata"]["uid"]
        if gone:
            objects.pop(uid, None)
        else:
            objects[uid] = obj
        self._tell()

    def _tell(self) -> None:
        queues, doors = self._seen.get(CLUSTER_QUEUES), self._seen.get(LOCAL_QUEUES)
        if queues is not None and doors is not None:
            self._told(plain_report(self._cluster, queues.values(), doors.values()))


def plain_informers(
    client: KubeClient, own: Select, copies: PlainCopies, queues: PlainQueues, identify: Identify
) -> tuple[Informer, ...]:
    """What has to be watched of such a cluster; `own` selects the copies."""
    return (
        *(
            Informer(client, kind, copies.calls(kind, client, identify), select=own)
            for kind in (WORKLOADS, JOBS)
        ),
        *(Informer(client, kind, queues.calls(kind)) for kind in (CLUSTER_QUEUES, LOCAL_QUEUES)),
    )


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _same_attempt(clone: Json, job: Json) -> bool:
    return mirrored_attempt(clone) == mirrored_attempt(job)
