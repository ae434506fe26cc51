"""What must hold of the objects on the management cluster, after every write there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.dst.people import CHARGED
from bench.dst.truth import Run, Truth
from federation.api import record as records
from federation.api.names import FENCED, ConditionType
from federation.core.types import FlavorResource
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
        self._held: dict[str, Held] = {}
        self._sum = 0
        truth.on_end = self._ended
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
            assert change.old is not None
            self._quota(records.owner_uid(change.old), None)
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
            self.reached[
                f"left: {before.life.evicted or record.life.evicted or 'without reason'}"
            ] += 1
        if before is not None and before.binding and record.binding:
            self.reached["adopted"] += record.binding.epoch > before.binding.epoch
        if before is not None and before.finished and not record.finished:
            self.violate("finished-once", f"{record.key} is not finished any more")
        self._quota(uid, held(change.new, self.truth))

    def _quota(self, uid: str, now: Held | None) -> None:
        """Count what a record holds now."""
        before = self._held.pop(uid, None)
        if now is not None:
            self._held[uid] = now
        more = (now.amount if now else 0) - (before.amount if before else 0)
        self._sum += more
        if more > 0 and self._sum > sum(self.quotas.values()):
            self.violate("quota", f"{self._sum} of {self.quotas} are reserved")

    def _ended(self, run: Run) -> None:
        found = self._held.get(run.local_uid)
        if found is not None and found.attempt == run.attempt:
            self._quota(run.local_uid, None)

    def _job(self, old: Json | None, new: Json) -> None:
        before = batch_job.finished((old or {}).get("status") or {})
        after = batch_job.finished(new.get("status") or {})
        if before == after:
            return
        name, uid = new["metadata"]["name"], new["metadata"]["uid"]
        if before:
            self.violate("finished-once", f"{name} was {before} and is {after or 'not'}")
        elif not any(run.outcome == after for run in self.truth.ended.get(uid, ())):
            self.violate("finished-once", f"{name} is {after}, but no run of it ended so")


@dataclass(frozen=True, slots=True)
class Held:
    """What a record holds of the quota of a ClusterQueue."""

    queue: str
    attempt: int
    amount: int


def held(workload: Json, truth: Truth) -> Held | None:
    """What a Workload holds. Quota is free again once the pods have ended, before the record says
    so.
    """
    if not records.is_true(workload.get("status") or {}, ConditionType.QUOTA_RESERVED):
        return None
    uid, record = records.owner_uid(workload), records.read_record(workload)
    over = any(run.attempt == record.attempt for run in truth.ended.get(uid, ()))
    if record.finished or over or record.admission is None:
        return None
    admission = record.admission
    return Held(admission.cluster_queue, record.attempt, charged(admission.usage()))


def charged(usage: Mapping[FlavorResource, int]) -> int:
    """How much of it is of the quota that is short."""
    return sum(amount for of, amount in usage.items() if of.resource == CHARGED)


def usage(home: FakeKube, truth: Truth) -> Counter[str]:
    """The sum of what is held, by ClusterQueue."""
    used = Counter[str]()
    for obj in home.objects.data.get(WORKLOADS, {}).values():
        if (found := held(obj, truth)) is not None:
            used[found.queue] += found.amount
    return used
