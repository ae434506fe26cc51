"""The Workloads on the management cluster, brought to the jobs whose records they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from federation.api import record as records
from federation.api.workload_spec import left_by
from federation.core import events as on
from federation.core.facts import BATCH_JOB, JobState, LocalJob, ObjectKey, Record
from federation.edge.deletions import FOR_EVER, Deletions
from federation.edge.resources import Json
from federation.edge.turns import in_turns
from federation.jobs.kinds.kind import Kinds


class WorkloadWatch:
    """One per controller, whose `states` it reads. `look` is told of a job that is bound nowhere as
    its record says now: its queues may have been stopped while it was bound. `first` says whether
    the first listings are being taken in yet.
    """

    def __init__(
        self,
        states: Mapping[str, JobState],
        kinds: Kinds,
        feed: Callable[[str, on.Event], None],
        look: Callable[[str], None],
        first: Callable[[], bool],
    ) -> None:
        self._states, self._kinds = states, kinds
        self._feed, self._look, self._first = feed, look, first
        self._known: dict[ObjectKey, tuple[str, str]] = {}
        """UIDs of the job and of the Workload."""
        beside = (kind.name for kind in kinds if kind.name != BATCH_JOB)
        self._unread: dict[str, dict[str, Json]] = {name: {} for name in beside}
        """Those of kinds whose objects have not been listed yet, by UID: that none is known does
        not mean that none is there."""
        self._deleted = Deletions()
        self._ownerless: list[tuple[str, Json]] = []

    async def listed(self, items: Sequence[Json], version: str) -> None:
        """A full listing of the Workloads. No other one has the UID of one that is gone, so its
        `version` does not matter.
        """
        present = {item["metadata"]["uid"] for item in items}
        for key, (_, workload_uid) in list(self._known.items()):
            if workload_uid not in present:
                self.gone(key, workload_uid)
        async for item in in_turns(items):
            self.see(item)

    def jobs_listed(self, kind: str) -> None:
        """All jobs of a kind are known: their Workloads tell of them, or of jobs that are gone."""
        for workload in self._unread.pop(kind, {}).values():
            self.see(workload)

    def see(self, obj: Json) -> None:
        """A Workload as it is now. Those of other kinds of owners are not ours."""
        meta = obj["metadata"]
        before = self._known.get(ObjectKey(meta["namespace"], meta["name"]), ("", ""))
        if before[1] != meta["uid"] and records.superseded_slice(obj):
            return
        # One whose owner was taken away by hand still is the record that we write.
        if (unread := self._unread.get(records.owner_kind(obj))) is not None:
            unread[meta["uid"]] = obj
            return
        uid = self._job_uid(obj) or (before[0] if before[1] == meta["uid"] else "")
        if not uid and self._first() and (left := left_by(obj)):
            self._ownerless.append((left, obj))
        if not uid or self._deleted.covers(meta["uid"], int(meta["resourceVersion"])):
            return
        self._known[ObjectKey(meta["namespace"], meta["name"])] = (uid, meta["uid"])
        state = self._states.get(uid)
        if state is not None and known(state.record, obj):
            return
        self._feed(uid, on.RecordSeen(records.read_record(obj)))
        state = self._states.get(uid)
        if state is not None and state.bound is None and state.local is not None:
            self._look(uid)

    def _job_uid(self, workload: Json) -> str:
        for owner in workload["metadata"].get("ownerReferences") or ():
            kind = self._kinds.find(owner.get("apiVersion", ""), owner.get("kind", ""))
            if owner.get("controller") and kind is not None:
                return str(owner["uid"])
        return ""

    def see_left(self) -> None:
        """Take in those whose Job was deleted alone (propagation policy Orphan) while no manager
        looked: they are removed like those of any other Job that is gone.
        """
        for uid, obj in self._ownerless:
            if uid not in self._states:
                meta = obj["metadata"]
                self._known[ObjectKey(meta["namespace"], meta["name"])] = (uid, meta["uid"])
                self._feed(uid, on.RecordSeen(records.read_record(obj)))
        self._ownerless.clear()

    def deleted(self, obj: Json) -> None:
        """A Workload is gone."""
        meta = obj["metadata"]
        self.gone(ObjectKey(meta["namespace"], meta["name"]), meta["uid"])

    def gone(self, key: ObjectKey, workload_uid: str) -> None:
        """A Workload is known to be gone. Another one of its name may be there already."""
        self._deleted.note(workload_uid, FOR_EVER)
        for unread in self._unread.values():
            unread.pop(workload_uid, None)
        uid, current = self._known.get(key, ("", ""))
        if current != workload_uid:
            return
        del self._known[key]
        if uid in self._states or self._first():
            self._feed(uid, on.RecordSeen(None))


def known(fact: LocalJob | Record | None, obj: Json) -> bool:
    """Whether this very version, or a later one, has been taken in: the echo of our own write."""
    meta = obj["metadata"]
    same = fact is not None and fact.uid == meta["uid"]
    return same and fact is not None and fact.version >= int(meta["resourceVersion"])
