"""Keeps what the scheduler charges equal to what the jobs hold, and tells what came free."""

from __future__ import annotations

import time
from collections.abc import Callable

from federation.core.elastic import growth_uid, unsettled
from federation.core.facts import JobState
from federation.core.scheduler import Scheduler
from federation.core.sizes import exceeds
from federation.core.types import Holder
from manager.views import Views


class Charges:
    """`on_quota` hears that the scheduler may decide something new, `on_void` that an offer decided
    on (UID, cluster) is not made, `on_grown` that more pods of what runs are counted there as of a
    version (0: are not to be).
    """

    def __init__(self, scheduler: Scheduler, views: Views) -> None:
        self._scheduler, self._views = scheduler, views
        self.on_quota: Callable[[], None] = lambda: None
        self.on_void: Callable[[str, str], None] = lambda uid, cluster: None
        self.on_grown: Callable[[str, str, int], None] = lambda uid, cluster, version: None

    def moved(self, uid: str, before: JobState, after: JobState) -> None:
        """A job changed."""
        if not _same(before, after):
            self.charge(uid, after)
        self._free_offer(uid, before, after)
        self._free_growth(uid, before, after)

    def gone(self, uid: str, before: JobState) -> None:
        """All memory of a job is dropped."""
        if not _same(before, JobState()):
            self.charge(uid, JobState())
        self._free_offer(uid, before, JobState())

    def charge(self, uid: str, state: JobState) -> None:
        """Have the scheduler charge what a job holds, and what it is to have beside that."""
        self._charge_as(uid, self._views.holder(uid, state))
        self._charge_as(growth_uid(uid), self._views.growth_holder(uid, state))

    def _charge_as(self, uid: str, held: Holder | None) -> None:
        known = self._scheduler.holder(uid)
        if held == known:
            return
        if held is None:
            self._scheduler.release(uid, time.time())
        else:
            self._scheduler.hold(held)
            if known is not None and held.usage != known.usage:  # pods of it have ended
                self._scheduler.wake(held.cluster_queue, time.time())
        self.on_quota()

    def _free_offer(self, uid: str, before: JobState, after: JobState) -> None:
        """Say when a decision was given up, or a binding of which there is no copy: its cluster has
        that room again.
        """
        if before.choice is not None and after.choice is None and after.bound is None:
            self.on_void(uid, before.choice.cluster)
        was, now, copy = before.bound, after.bound, before.remote
        left = was is not None and (now is None or now.cluster != was.cluster)
        if was is not None and left and not (copy and copy.uid):
            self.on_void(uid, was.cluster)

    def _free_growth(self, uid: str, before: JobState, after: JobState) -> None:
        """Say what became of more pods that were decided on: they are there, or are not to be."""
        if not unsettled(before) or unsettled(after) or before.bound is None:
            return
        was, now = before.remote, after.remote
        more = was and now and was.size and now.size and exceeds(now.size.runs, was.size.runs)
        version = now.version if more and now else 0
        self.on_grown(growth_uid(uid), before.bound.cluster, version)


def _same(before: JobState, after: JobState) -> bool:
    """Whether a job holds the same."""
    same = before.record is after.record and before.local is after.local
    same = same and before.admission is after.admission and before.evicting == after.evicting
    same = same and before.grown is after.grown
    same = same and before.reclaimable == after.reclaimable and before.there == after.there
    return same and before.pods_ready == after.pods_ready
