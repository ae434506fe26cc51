"""What must hold of the objects on the management cluster, after every write there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.dst.truth import Truth
from federation.api import record as records
from federation.api.names import FENCED, ConditionType
from federation.edge.resources import JOBS, LEASES, WORKLOADS
from federation.jobs import batch_job
from tests.fakes.kube_api import FakeKube
from tests.fakes.objects import Change

Json = dict[str, Any]


class RecordWatch:
    """`attempts` is the highest of each job so far, `places` where each attempt was bound."""

    def __init__(
        self,
        home: FakeKube,
        quotas: dict[str, int],
        truth: Truth,
        violate: Callable[[str, str], None],
    ) -> None:
        self.home, self.quotas, self.truth, self.violate = home, quotas, truth, violate
        self.attempts: dict[str, int] = {}
        self.places: dict[tuple[str, int], str] = {}
        self.reached: Counter[str] = Counter()
        """What happened, and how often: a run that reaches nothing proves nothing."""
        self._seen = 0
        home.objects.listeners.append(self._look)

    def _look(self) -> None:
        history = self.home.objects.history
        for change in history[self._seen :]:
            if change.resource == WORKLOADS:
                self._workload(change)
            elif change.resource == JOBS and change.new is not None:
                self._job(change.old, change.new)
            elif change.resource == LEASES and change.new is not None:
                before = ((change.old or {}).get("spec") or {}).get("holderIdentity")
                now = change.new["spec"].get("holderIdentity")
                self.reached["fences"] += now == FENCED != before
        self._seen = len(history)

    def _workload(self, change: Change) -> None:
        if change.new is None:
            return
        uid, record = records.owner_uid(change.new), records.read_record(change.new)
        before = records.read_record(change.old) if change.old else None
        if record.attempt < self.attempts.get(uid, 0) and before is not None:
            known = self.attempts[uid]
            self.violate("attempts", f"{record.key}: {record.attempt} after {known}")
        self.attempts[uid] = max(record.attempt, self.attempts.get(uid, 0))
        if record.binding is not None:
            at = (uid, record.binding.attempt)
            if self.places.setdefault(at, record.binding.cluster) != record.binding.cluster:
                self.violate("attempts", f"{record.key}: attempt {at[1]} bound in two places")
        if before is not None and before.binding and record.binding is None:
            self.reached[f"left: {before.life.evicted or 'without reason'}"] += 1
        if before is not None and before.binding and record.binding:
            self.reached["adopted"] += record.binding.epoch > before.binding.epoch
        if before is not None and before.finished and not record.finished:
            self.violate("finished-once", f"{record.key} is not finished any more")
        if record.admission is not None and (before is None or before.admission is None):
            self._quota()

    def _quota(self) -> None:
        used = usage(self.home, self.truth)
        if sum(used.values()) > sum(self.quotas.values()):
            self.violate("quota", f"{used} of {self.quotas} are reserved")

    def _job(self, old: Json | None, new: Json) -> None:
        before = batch_job.finished((old or {}).get("status") or {})
        after = batch_job.finished(new.get("status") or {})
        if before == after:
            return
        name, uid = new["metadata"]["name"], new["metadata"]["uid"]
        if before:
            self.violate("finished-once", f"{name} was {before} and is {after or 'not'}")
        elif not any(run.outcome == after for run in self.truth.runs if run.local_uid == uid):
            self.violate("finished-once", f"{name} is {after}, but no run of it ended so")


def usage(home: FakeKube, truth: Truth) -> dict[str, int]:
    """What the records hold: the sum of what is bound, by ClusterQueue. Quota is free again once
    the pods have ended, before the record says so.
    """
    used: dict[str, int] = {}
    ended = {(run.local_uid, run.attempt) for run in truth.runs if run.outcome}
    for obj in home.objects.data.get(WORKLOADS, {}).values():
        status = obj.get("status") or {}
        if not records.is_true(status, ConditionType.QUOTA_RESERVED):
            continue
        record = records.read_record(obj)
        over = (records.owner_uid(obj), record.attempt) in ended
        if record.finished or over or record.admission is None:
            continue
        amount = sum(record.admission.usage().values())
        queue = record.admission.cluster_queue
        used[queue] = used.get(queue, 0) + amount
    return used
