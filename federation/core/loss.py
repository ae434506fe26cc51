"""A job whose cluster is lost: when it may run elsewhere, and what is said of that.

Source: DESIGN section 5, failover.md section 3.2. The answer is taken from what is known of the
cluster (`Standing`) and from the record alone: an eviction as ClusterLost is the lasting proof
that a binding was given up, for whatever manager comes next.
"""

from __future__ import annotations

from dataclasses import replace

from federation.core import effects as do
from federation.core import transit
from federation.core.facts import Binding, JobState, LocalJob, Record, RemoteJob
from federation.core.failover import OnDisconnect, Standing, Timings
from federation.core.reasons import Reason

_STARTS_FIRST = frozenset({Reason.CLUSTER_DRAINED, Reason.MOVED})
"""Evictions after which a job that may run twice runs elsewhere before its copy is stopped."""


def standing_of(state: JobState, cluster: str) -> Standing:
    """What is known of a cluster; one of which nothing was said is well."""
    return state.standings.get(cluster) or Standing(cluster)


def reached(state: JobState, cluster: str) -> bool:
    """Whether something can be done on a cluster. What cannot waits for news of it."""
    return standing_of(state, cluster).reachable


def given_up(state: JobState, record: Record, timings: Timings) -> bool:
    """Whether the binding may end although its copy may be there."""
    bound, evicted = record.binding, record.life.evicted
    if bound is None:
        return False
    if evicted == Reason.CLUSTER_LOST:
        return True
    standing = standing_of(state, bound.cluster)
    twice = bound.policy is OnDisconnect.DUPLICATE_OK and not standing.plain  # asked for, there
    if evicted in _STARTS_FIRST and twice:
        return True
    return may_rerun(bound, standing, timings)


def may_rerun(bound: Binding | RemoteJob, standing: Standing, timings: Timings) -> bool:
    """Whether a job may run elsewhere by what is known of the cluster where it is bound.

    A cluster that is back is not lost, whatever was certain of it before: its copies are adopted.
    """
    if standing.confirmed_below > bound.epoch:
        return True
    silent, after = standing.silent, bound.rerun_after
    match bound.policy:
        case OnDisconnect.DUPLICATE_OK:
            return standing.suspect and silent >= (after or 0.0)
        case OnDisconnect.STOP:
            stopped = standing.stopped_below > bound.epoch
            return standing.suspect and stopped and silent >= (after or 0.0)
        case OnDisconnect.KEEP:
            # Its worker lets it run until the lease is over, however short its limit is.
            stopped = standing.stopped_below > bound.epoch
            timed = replace(timings, kill=max(timings.kill, standing.kill))
            over = after is not None and silent >= timed.bound(after)
            return standing.suspect and stopped and over


def stranded(state: JobState, standing: Standing) -> bool:
    """Whether what a job has on a cluster is on the one that had its name before."""
    bound, cluster = state.bound, standing.cluster
    if bound is not None and bound.cluster == cluster:
        return bound.epoch < standing.own_since
    copy = state.remotes.get(cluster)
    return copy is not None and not copy.gone and copy.epoch < standing.own_since


def harmless(copy: RemoteJob, standing: Standing, timings: Timings) -> bool:
    """Whether an earlier copy that may be there is no reason not to start another one: it has
    ended, may run twice, or is certainly stopped.
    """
    if copy.finished or copy.policy is OnDisconnect.DUPLICATE_OK:
        return True
    stops = copy.policy is OnDisconnect.STOP and standing.stopped_below > copy.epoch
    return stops or may_rerun(copy, standing, timings)


def waits_for_time(state: JobState) -> bool:
    """Whether it matters to the job for how long its cluster is silent."""
    return state.bound is not None and state.bound.rerun_after is not None


def eviction(state: JobState, local: LocalJob, record: Record, idle_s: float = 0.0) -> do.Evict:
    """Leaving a lost cluster, in one write where that is enough, else phase one of it. It stood
    still there for `idle_s` seconds.
    """
    bound = record.binding
    assert bound is not None
    standing = standing_of(state, bound.cluster)
    text = (
        f"cluster {bound.cluster} is lost, with attempt {bound.attempt}: silent for"
        f" {standing.silent:.0f} s; policy {bound.policy}: {_why(bound, standing)}"
    )
    at_once = transit.at_once(local)
    idle = idle_s if at_once else 0.0
    return do.Evict(Reason.CLUSTER_LOST, text, "", record.life.requeue, at_once, idle)


def _why(bound: Binding, standing: Standing) -> str:
    if standing.confirmed_below > bound.epoch:
        return "it was confirmed that nothing runs there any more"
    if bound.policy is OnDisconnect.DUPLICATE_OK:
        return "it may run elsewhere meanwhile"
    if bound.policy is OnDisconnect.KEEP:
        return f"its limit of {bound.rerun_after or 0:.0f} s is over, it is stopped there by now"
    return "it is stopped there by now"
