"""Failures that may come from the end of a lease, and are no results then.

At its deadline what runs on a cluster is killed, by its node guard if nobody else is left to stop
it. Where the Job controller lives on, it counts that as a failure of the job, and a Job without
retries has failed for nothing that it did. Nobody can tell afterwards what ended its pods, so a
failure that becomes known while the lease may have ended does not count: the job leaves as one of
a lost cluster does. One that was seen before is a result, and so is work that was completed.

Nor does it count if the lease may have ended since the job was started, or was seen to run last,
however late the failure becomes known: agents number the times that it may have, and note the
number on what they start. The manager, or its connection, may have been away meanwhile.
"""

from __future__ import annotations

from dataclasses import replace

from federation.core import effects as do
from federation.core import transit
from federation.core.facts import Binding, JobState, LocalJob, Record, RemoteJob
from federation.core.failover import OnDisconnect, Standing, Timings
from federation.core.holding import ANSWERED
from federation.core.loss import given_up, standing_of
from federation.core.reasons import Reason


def mark(state: JobState, timings: Timings) -> JobState:
    """Remember which failures became known while the lease of their cluster may have ended, which
    stays so when that is back; and of what else is there, which lease it lives under.
    """
    marked: dict[str, RemoteJob] = {}
    for name, copy in state.remotes.items():
        standing = standing_of(state, name)
        if _failed(copy):
            if not copy.doubtful and _ends_with_lease(copy, standing, timings):
                marked[name] = replace(copy, doubtful=True)
        elif copy.breaks < standing.breaks and _survives(copy, standing):
            marked[name] = replace(copy, breaks=standing.breaks)
    return replace(state, remotes={**state.remotes, **marked}) if marked else state


def stops(copy: Binding | RemoteJob) -> bool:
    """Whether it may be killed because no renewal came."""
    limited = copy.policy is OnDisconnect.KEEP and copy.rerun_after is not None
    return limited or copy.policy is OnDisconnect.STOP


def _ends_with_lease(copy: RemoteJob, standing: Standing, timings: Timings) -> bool:
    """Whether what runs there may have been killed by now because no renewal came."""
    if not stops(copy):
        return False
    over = standing.lapsed
    if copy.policy is OnDisconnect.KEEP and copy.rerun_after is not None:
        spare = max(timings.renew, timings.lease * ANSWERED)
        over = over and standing.unrenewed >= copy.rerun_after - spare
    if copy.breaks and standing.breaks:
        return over or copy.breaks < standing.breaks
    return over or (standing.lately and copy.policy is OnDisconnect.STOP)


def may_stand_still(state: JobState, copy: RemoteJob, timings: Timings) -> bool:
    """Whether a copy that has not ended may have been stopped, for all that is known. One that was
    listed by a manager that has just started was not, as long as that can see it.
    """
    standing = standing_of(state, copy.cluster)
    unknown = _maybe(state, copy) and not standing.reachable
    return unknown or _ends_with_lease(copy, standing, timings)


def _survives(copy: RemoteJob, standing: Standing) -> bool:
    """Whether what ended with the lease would be known by now, and this has not ended."""
    troubled = standing.lapsed or standing.lately or standing.unheard
    return standing.reachable and not (troubled or copy.finished or copy.gone)


def _failed(copy: RemoteJob) -> bool:
    """Whether it failed, for good or until other pods come: for those that were killed none do."""
    return copy.finished == "Failed" or copy.lacking


def doubted(state: JobState, copy: RemoteJob) -> bool:
    """Whether a copy failed, and that does not count, or not yet: until a manager that has just
    started has heard from the agent, it does not know for how long that was silent.
    """
    return _failed(copy) and (_certainly(state, copy) or _maybe(state, copy))


def undecided(state: JobState, copy: RemoteJob) -> bool:
    """Whether it is not known yet if the failure of a copy counts."""
    return _failed(copy) and not _certainly(state, copy) and _maybe(state, copy)


def _certainly(state: JobState, copy: RemoteJob) -> bool:
    if copy.policy is OnDisconnect.DUPLICATE_OK:
        return False
    record, standing = state.record, standing_of(state, copy.cluster)
    if copy.doubtful or (record is not None and record.life.evicted == Reason.CLUSTER_LOST):
        return True
    if copy.policy is OnDisconnect.KEEP:
        return False
    current = state.bound if copy is state.remote else None  # it may be adopted there already
    epoch = max(copy.epoch, current.epoch if current else 0)
    return standing.fenced_below > epoch


def _maybe(state: JobState, copy: RemoteJob) -> bool:
    return stops(copy) and standing_of(state, copy.cluster).unheard


def leaves(state: JobState, record: Record, copy: RemoteJob, timings: Timings) -> bool:
    """Whether a job whose failure does not count may leave: its cluster is lost, or it is back, and
    nothing of the job runs there.
    """
    if given_up(state, record, timings):
        return True
    standing = standing_of(state, copy.cluster)
    pods = copy.busy or copy.status.get("active") or copy.status.get("terminating")
    return standing.well and not pods and not undecided(state, copy)


def eviction(local: LocalJob, record: Record, copy: RemoteJob, idle_s: float = 0.0) -> do.Evict:
    """Leaving, as from a cluster that is lost: what people are told; `idle_s` as in `loss`."""
    text = (
        f"attempt {copy.attempt} on cluster {copy.cluster} failed when the lease of that cluster"
        " was ending or over, which kills what runs there: its failure does not count, the job"
        " runs again"
    )
    at_once = transit.at_once(local)
    idle = idle_s if at_once else 0.0
    return do.Evict(Reason.CLUSTER_LOST, text, "", record.life.requeue, at_once, idle)
