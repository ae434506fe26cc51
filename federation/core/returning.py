"""Copies that are not, or not yet again, the job's own: left behind, or of an epoch that is over.

A cluster that is back has copies of attempts that may go on elsewhere, and of bindings that still
stand. The first end: their result counts if there is no other, else they are removed. The second
are adopted. Nothing is done on a cluster that cannot be reached; its news starts the plan again.
"""

from __future__ import annotations

from federation.core import doubt
from federation.core import effects as do
from federation.core.facts import JobState, LocalJob, Record, RemoteJob
from federation.core.failover import OnDisconnect, Timings
from federation.core.loss import harmless, reached, standing_of
from federation.core.reasons import Reason


def strays(state: JobState) -> list[RemoteJob]:
    """Copies that exist and do not belong to the binding."""
    current = state.remote
    return [copy for copy in state.remotes.values() if not copy.gone and copy is not current]


def blocking(state: JobState, copies: list[RemoteJob], timings: Timings) -> bool:
    """Whether nothing may start before these strays are gone."""
    return any(not harmless(copy, standing_of(state, copy.cluster), timings) for copy in copies)


def to_remove(state: JobState, copies: list[RemoteJob]) -> list[RemoteJob]:
    """Strays that can be removed now and have no business there."""
    return [
        copy
        for copy in copies
        if not copy.terminating and reached(state, copy.cluster) and not _spared(state, copy)
    ]


def _spared(state: JobState, copy: RemoteJob) -> bool:
    """Whether a stray stays for the time being: its result is to be taken over first, or it runs,
    may run twice, and the attempt that takes its place does not run yet.
    """
    record, local = state.record, state.local
    if local is None or local.finished or (record is not None and record.finished):
        return False
    if copy.finished == "Complete" or doubt.undecided(state, copy):
        return True
    if record is None or not record.active or state.queue_problem:
        return False
    if copy.policy is not OnDisconnect.DUPLICATE_OK or not copy.running or copy.refused:
        return False
    bound = record.binding
    return bound is None or (bound.cluster != copy.cluster and not record.admitted)


def retakable(state: JobState) -> RemoteJob | None:
    """A stray that runs on a cluster that is back, of a job that was to run elsewhere and is not
    bound yet: it may go on there, in its attempt, once the job has quota again.
    """
    record = state.record
    if record is None or record.binding is not None or record.finished or not record.active:
        return None
    if record.life.evicted != Reason.CLUSTER_LOST:
        return None
    for copy in strays(state):
        standing = standing_of(state, copy.cluster)
        dead = standing.confirmed_below > copy.epoch
        runs = copy.running and not (copy.terminating or copy.refused)
        if copy.attempt == record.attempt and standing.well and runs and not dead:
            return copy if copy.policy is OnDisconnect.DUPLICATE_OK else None
    return None


def result(state: JobState, local: LocalJob, record: Record) -> RemoteJob | None:
    """The stray whose result is that of the job; None if there is none.

    Work that was completed counts whenever it becomes known, if there is no other result, be it by
    the last word of a copy that was deleted. A failure counts only if the job has no later attempt,
    and if it does not come from the loss.
    """
    current = state.remote
    ended = current is not None and current.finished and not doubt.doubted(state, current)
    if record.finished or local.finished or ended:
        return None
    last = record.attempt if record.binding is None else 0
    found = (
        copy
        for copy in state.remotes.values()
        if copy is not current
        and (copy.finished == "Complete" or _failed_at_last(state, copy, last))
    )
    return min(found, key=lambda copy: (copy.finished, -copy.attempt), default=None)


def _failed_at_last(state: JobState, copy: RemoteJob, last: int) -> bool:
    ended = copy.finished and not copy.gone
    return bool(ended) and copy.attempt == last and not doubt.doubted(state, copy)


def take_over(local: LocalJob, copy: RemoteJob) -> tuple[do.Effect, ...]:
    """Record the result of a stray: the local Job first, then the record."""
    effects: list[do.Effect] = [do.SetSuspend(False)] if local.suspended else []
    effects.append(do.SyncStatus(copy.cluster))
    return (*effects, do.FinishWorkload(copy.finished, copy.cluster))


def adoption(state: JobState, record: Record, copy: RemoteJob) -> tuple[do.Effect, ...]:
    """What lets a copy of an epoch that is over go on: the record first, then the copy.

    Only what has run is adopted: the agent refuses offers of an old epoch, and the job is offered
    anew.
    """
    bound = record.binding
    assert bound is not None
    if copy.suspended and not copy.held:
        return ()
    rebind = renewal(state, record)
    epoch = rebind[0].epoch if rebind else bound.epoch
    if copy.epoch >= epoch or not reached(state, copy.cluster):
        return rebind
    return (*rebind, do.Adopt(copy.cluster, copy.uid, epoch))


def renewal(state: JobState, record: Record) -> tuple[do.Rebind, ...]:
    """Have the binding go on in the epoch that its cluster came back in, if it did."""
    bound = record.binding
    assert bound is not None
    standing = standing_of(state, bound.cluster)
    if standing.present and standing.epoch > bound.epoch:
        return (do.Rebind(standing.epoch),)
    return ()
