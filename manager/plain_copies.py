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
from federation.jobs.plain_kueue import answer, pair_key, remote_job
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
        """By `pair_key`, as all that follows."""
        self._listed: dict[Resource, int] = {}
        self._shown: dict[Resource, int] = {}
        """The newest version that a list or a watch has shown. What is known from answers can be
        newer than a list that was read meanwhile."""
        self._floors: dict[str, int] = {}
        """The highest version that was told of each copy."""
        self._waits: dict[str, tuple[float, float]] = {}
        self._started: set[str] = set()
        self._deleted = Deletions()

    @property
    def known(self) -> bool:
        """Whether all copies are."""
        return len(self._listed) == len(self._seen)

    def clone(self, key: str) -> Json | None:
        """The Workload of a copy."""
        return self._seen[WORKLOADS].get(key)

    def job(self, key: str) -> Json | None:
        """The Job of it."""
        return self._seen[JOBS].get(key)

    def calls(self, kind: Resource, client: KubeClient, identify: Identify) -> Calls:
        """What an informer of Workloads, or of Jobs, calls."""

        async def listed(items: Sequence[Json], version: str) -> None:
            if await identify(client):
                self.see_all(kind, items, int(version))

        def seen(obj: Json, *, gone: bool = False) -> None:
            self._shown[kind] = max(self._shown.get(kind, 0), _version(obj))
            self.see(kind, obj, gone=gone)

        return Calls(listed, seen, partial(seen, gone=True))

    def see_all(self, kind: Resource, items: Sequence[Json], version: int) -> None:
        """All of a kind that there are, as of a version. One that is older than what was shown
        before comes from a store that was restored: then what it says is the truth.
        """
        known = self._seen[kind]
        if version < self._shown.get(kind, 0):
            known.clear()
            self._floors.clear()
            self._deleted = Deletions()
        self._listed[kind] = self._shown[kind] = version
        there = [item for item in items if not self._covered(item)]
        newer = {key: obj for key, obj in known.items() if _version(obj) > version}
        self._seen[kind] = {**{pair_key(item): item for item in there}, **newer}
        if not self.known:
            return
        keys = frozenset().union(*self._seen.values())
        for memory in (self._floors, self._waits):
            for key in memory.keys() - keys:
                del memory[key]
        self._started &= keys
        copies = [self._copy(key) for key in keys]
        at = max(*self._listed.values(), *self._floors.values(), 0)
        self._tell_all(copies, Inventory(at, frozenset(copy.local_uid for copy in copies)))

    def removed(self, kind: Resource, obj: Json) -> None:
        """One that is certainly no more, as the answer to a write says."""
        known, own = self._seen[kind].get(pair_key(obj)), obj["metadata"]["uid"]
        if known is not None and known["metadata"]["uid"] == own:
            self.see(kind, known, gone=True)
        self._deleted.note(own, FOR_EVER)

    def see(self, kind: Resource, obj: Json, *, gone: bool = False) -> None:
        """One object as it is now, or was when it was deleted. One that looks deleted to a watch
        may come back with the label by which it is watched. An answer can be older than a list that
        it was not in.
        """
        key, objects, own = pair_key(obj), self._seen[kind], obj["metadata"]["uid"]
        known, version = objects.get(key), _version(obj)
        newest = _version(known) - 1 if known else self._listed.get(kind, 0)
        if self._covered(obj) or version <= newest:
            return
        if gone:
            self._deleted.note(own, version)
            if known is None or known["metadata"]["uid"] != own:
                return
            del objects[key]
        else:
            objects[key] = obj
        self._floors[key] = max(self._floors.get(key, 0), version)
        if not self.known:
            return
        if key in self._seen[WORKLOADS] or key in self._seen[JOBS]:
            self._tell(self._copy(key))
        else:
            self._tell(Copy(local_uid(obj), self._gone(key, kind, obj)))

    def _covered(self, obj: Json) -> bool:
        return self._deleted.covers(obj["metadata"]["uid"], _version(obj))

    def _copy(self, key: str) -> Copy:
        return Copy(key.partition("/")[2], self.facts(key))

    def facts(self, key: str) -> RemoteJob:
        """A copy as the manager sees it. A Job that may run counts, whatever Workload there is."""
        clone, job = self.clone(key), self.job(key)
        if clone is not None and job is not None and not _same_attempt(clone, job):
            clone = None
        if job is not None and not job["spec"].get("suspend"):
            self._started.add(key)
        until = self._waits_until(key, clone) if clone is not None and job is None else 0.0
        started = key in self._started
        found = remote_job(self._cluster, clone, job, waits_until=until, started=started)
        floor = self._floors[key] = max(self._floors.get(key, 0), found.version)
        return replace(found, version=floor)

    def _gone(self, key: str, kind: Resource, last: Json) -> RemoteJob:
        pair = (last, None) if kind is WORKLOADS else (None, last)
        self._waits.pop(key, None)
        self._started.discard(key)
        found = remote_job(self._cluster, *pair)
        found = replace(found, granted=False, refused="", refused_reason="", deciding_until=0.0)
        return replace(found, gone=True, version=self._floors.pop(key))

    def _waits_until(self, key: str, clone: Json) -> float:
        """It is counted here since when it waits: clocks of other machines are not asked."""
        seconds = answer(clone).wait_s
        if not seconds:
            self._waits.pop(key, None)
            return 0.0
        if self._waits.get(key, (0.0, 0.0))[0] != seconds:
            self._waits[key] = seconds, time.time() + seconds
        return self._waits[key][1]


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
        known = objects.get(uid)
        if kind is LOCAL_QUEUES and known and not gone and known.get("spec") == obj.get("spec"):
            return  # Kueue writes the status of each with every Workload in it
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
