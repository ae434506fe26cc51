"""The life of one job across clusters: `step(state, event, now) -> (state, effects)`.

The step is level-triggered: an event only updates facts, and the effects are derived from all
facts by `plan`. A lost effect is therefore derived again by `Tick` or by the next fact, and
nothing but this module decides what happens to a Workload.
"""

from __future__ import annotations

from dataclasses import replace

from federation.core import doubt, elastic, returning
from federation.core import effects as do
from federation.core import events as on
from federation.core.dispatch import FOR_GOOD_S, Refusal
from federation.core.facts import (
    Eviction,
    JobState,
    LocalJob,
    PodTrouble,
    Record,
    RemoteJob,
    nothing_there,
)
from federation.core.failover import Standing
from federation.core.plan import plan
from federation.core.reasons import Reason
from federation.core.sizes import NO_PODS, Growing
from federation.core.stay import LifeRules

REFUSAL_FIRST_S = 1.0
REFUSAL_MOST_S = 300.0
LOOK_AGAIN_S = 10.0
"""How soon a cluster is looked at again that a job cannot be moved to."""


def step(
    state: JobState, event: on.Event, now: float, rules: LifeRules
) -> tuple[JobState, tuple[do.Effect, ...]]:
    """Apply one event and derive what is to be done. `now` is in seconds since the epoch."""
    before, state = state, _elsewhere(elastic.void(_void(_apply(state, event, now))))
    state = doubt.mark(state, rules.timings)
    if state.queued and _tied(before) != _tied(state):
        state = replace(state, queued=False)
    if state.retry_at is not None and now >= state.retry_at:
        state = replace(state, retry_at=None)
    if state.busy or state.retry_at is not None:
        return state, ()
    state, effects = plan(state, now, rules)
    if not effects:
        return state, effects
    grants = any(isinstance(effect, do.Bind | do.Regrant) for effect in effects)
    granting = state.record.version if grants and state.record else None
    return replace(state, busy=True, granting=granting), effects


def wake_at(state: JobState) -> float | None:
    """When a Tick is due, in seconds since the epoch: nothing is planned before a retry is."""
    return state.due if state.retry_at is None else state.retry_at


def _apply(state: JobState, event: on.Event, now: float) -> JobState:
    match event:
        case on.LocalSeen(local):
            return _local_seen(state, local)
        case on.RecordSeen(record):
            return _record_seen(state, record, now)
        case on.RemoteSeen(remote):
            return _remote_seen(state, remote, now)
        case on.RemoteAbsent(cluster, version):
            return _remote_absent(state, cluster, version)
        case on.Placed(admission, choice):
            return replace(state, admission=admission, choice=choice, waits=("", ""), why=None)
        case on.Nominated(clusters):
            return replace(state, nominate=clusters)
        case on.NotPlaced(reason, message, why):
            return replace(state, waits=(reason, message), why=why)
        case on.GrowthPlaced(admission):
            return replace(state, grown=admission, growth_waits=("", ""))
        case on.GrowthNotPlaced(reason, message):
            return replace(state, growth_waits=(reason, message))
        case on.GrowthLost():
            return replace(state, growing=None)
        case on.Evict(reason, message, cause):
            return _evict(state, Eviction(reason, message, cause))
        case on.QueuesSeen(queues):
            return replace(state, queues=queues)
        case on.PrioritySeen(name):
            return replace(state, priority_class=name)
        case on.CannotStart(message):
            return replace(state, busy=False, cannot_start=message)
        case on.CannotMove(cluster, message):
            barred = Refusal(cluster, Reason.MOVED, message, 1, now + LOOK_AGAIN_S)
            return replace(state, busy=False, barred=barred)
        case on.QueueMoved():
            return replace(state, queued=False)
        case on.QueueProblem(message, reason):
            return replace(state, queue_problem=message, queue_reason=reason)
        case on.PodsSeen(attempt, text):
            return _pods_seen(state, attempt, text, now)
        case on.LetGo():
            return replace(state, keep=False)
        case on.Done():
            return replace(state, busy=False, failures=0)
        case on.Failed(after):
            return _failed(state, now + after)
        case on.OfferRefused(cluster, reason, message):
            return _offer_refused(state, cluster, reason, message, now)
        case on.ClusterReplaced(cluster):
            return _cluster_replaced(state, cluster)
        case on.ClusterStood(standing):
            return _cluster_stood(state, standing)
        case on.CannotReach(standing):
            return _cluster_stood(replace(state, busy=False), standing)
        case on.BindLost():
            return replace(state, busy=False, admission=None, choice=None, queued=False)
    return state  # Tick only asks for a plan


def _evict(state: JobState, eviction: Eviction) -> JobState:
    """Only what holds quota, and does not give it back already, can be asked for it."""
    if state.holds is None or state.evicting:
        return state
    return replace(state, eviction=eviction)


def _void(state: JobState) -> JobState:
    """A decision holds quota only for a job that can still be bound, or is being bound."""
    local, record = state.local, state.record
    if (
        state.choice is None
        or state.being_granted
        or (
            local
            and record
            and record.active
            and not (local.terminating or local.finished or local.problem or record.finished)
        )
    ):
        return state
    return replace(state, admission=None, choice=None)


def _tied(state: JobState) -> tuple[object, ...]:
    """What binds a waiting job to some clusters: it is queued anew when that changes."""
    copy = returning.retakable(state) if state.remotes else None
    ordered = (state.record.move_to, state.record.nomination.clusters) if state.record else ("", ())
    return *ordered, copy.cluster if copy else ""


def _elsewhere(state: JobState) -> JobState:
    """Clusters that a job has nothing to do with any more are not remembered."""
    if not state.standings or state.standings.keys() <= (places := state.places):
        return state
    kept = {name: said for name, said in state.standings.items() if name in places}
    return replace(state, standings=kept)


def _failed(state: JobState, retry_at: float) -> JobState:
    """It may have been the Enqueue or the status that failed; to do it again changes nothing."""
    failures = state.failures + 1
    state = replace(state, busy=False, failures=failures, retry_at=retry_at)
    growing = state.growing
    if growing is not None and state.grown is None:
        growing = Growing(NO_PODS, 0)  # put again, or taken out
    return replace(state, queued=False, shown=None, growing=growing)


def _local_seen(state: JobState, local: LocalJob | None) -> JobState:
    known = state.local
    if known and local and local.version < known.version:
        return state
    moved = known and local and _queue_view(known) != _queue_view(local)
    state = replace(state, local=local, queued=state.queued and not moved)
    return _note_running(_asked_anew(state) if moved else state)


def _pods_seen(state: JobState, attempt: int, text: str, now: float) -> JobState:
    """A trouble counts from when there was none: it may be told in other words meanwhile."""
    known = state.pods
    goes_on = known is not None and known.attempt == attempt and bool(known.text) == bool(text)
    since = known.since if known is not None and goes_on else now
    return replace(state, pods=PodTrouble(attempt, text, since))


def _queue_view(local: LocalJob) -> object:
    wishes = local.wishes
    about = (wishes.placement, wishes.policy, wishes.rerun_after is None)
    return (local.queue, local.priority_class, local.pod_sets, *about)


def _record_seen(state: JobState, record: Record | None, now: float) -> JobState:
    known = state.record
    if known and record and (record.version < known.version):
        return state
    state = replace(state, record=record)
    if known and record and record.active and not known.active:
        state = _asked_anew(state)
    if record is None or record.binding is None:
        if known and known.binding:  # it left a cluster: what belonged to that attempt is void
            state = replace(
                state,
                admission=None,
                choice=None,
                was_running=False,
                shown=None,
                queued=False,
                deadline=None,
                eviction=None,
                cannot_start="",
                barred=None,
            )
            state = _remember(state, known, record, now)
    else:
        state = replace(state, admission=None, choice=None, waits=("", ""), why=None, queued=False)
    if record is not None and record.life.evicted:
        state = replace(state, eviction=None)
    return _note_running(state)


def _remember(state: JobState, left: Record, record: Record | None, now: float) -> JobState:
    """A cluster that evicted the job by itself, or gave no answer, is not asked again at once; nor
    is one where it was killed for its lease.
    """
    reason = Reason.EVICTED_ON_WORKER_CLUSTER
    if left.binding is None:
        return state
    if left.life.evicted == reason:
        copy = state.remotes.get(left.binding.cluster)
        least = copy.retry_after if copy is not None and copy.attempt == left.attempt else None
        return _refuse(state, left.binding.cluster, reason, left.evicted_message, now, least)
    reason = Reason.WITHDRAWN_FROM_WORKER_CLUSTER
    if record is not None and record.reason == reason:
        return _refuse(state, left.binding.cluster, reason, "it gave no answer", now)
    copy = state.remotes.get(left.binding.cluster)
    if copy is not None and copy.attempt == left.attempt and doubt.doubted(state, copy):
        text = f"attempt {copy.attempt} failed there as its lease was ending or over"
        return _refuse(state, copy.cluster, Reason.CLUSTER_LOST, text, now)
    return state


def _note_running(state: JobState) -> JobState:
    """Remember that the local job was started in this attempt: a later suspension is a wish."""
    if state.record and state.record.admitted and state.local and not state.local.suspended:
        return replace(state, was_running=True)
    return state


def _remote_seen(state: JobState, remote: RemoteJob, now: float) -> JobState:
    known = state.remotes.get(remote.cluster)
    if known and remote.version < known.version:
        return state
    if remote.gone and (known is None or (known.uid and known.uid != remote.uid)):
        return state  # one of a job that was forgotten, or of an earlier attempt
    remote = _ending(remote, known if known and known.uid == remote.uid else None)
    if remote.gone and known and known.uid == remote.uid and known.finished == remote.finished:
        remote = replace(known, gone=True, version=remote.version)
    if known and known.uid == remote.uid:
        breaks = max(remote.breaks, known.breaks)
        remote = replace(remote, doubtful=known.doubtful, breaks=breaks)
    state = replace(state, remotes={**state.remotes, remote.cluster: remote})
    void = remote.refused_reason == Reason.WITHDRAWN_FROM_WORKER_CLUSTER  # our own word
    if remote.refused and not void and not (known and known.refused):
        why, least = remote.refused_reason, remote.retry_after
        state = _refuse(state, remote.cluster, why, remote.refused, now, least)
    if remote.growth.refused and not (known and known.growth.refused):
        reason, _, message = remote.growth.refused.partition(": ")
        state = _refuse(state, remote.cluster, reason, message, now)
    return state


def _ending(remote: RemoteJob, known: RemoteJob | None) -> RemoteJob:
    """What ended while it was being deleted was completed, or its pods were killed by that: then it
    has not failed. How it had ended before stays.
    """
    if not (remote.terminating or remote.gone):
        return remote
    if known is not None and known.finished:
        return replace(remote, finished=known.finished)
    failed = remote.terminating and remote.finished == "Failed"
    return replace(remote, finished="") if failed else remote


def _remote_absent(state: JobState, cluster: str, version: int) -> JobState:
    known = state.remotes.get(cluster)
    bound = state.bound
    if known is not None:
        if known.gone or known.version > version:
            return state
        absent = replace(known, gone=True)
    elif bound and bound.cluster == cluster:
        absent = nothing_there(bound, version)
    else:
        return state
    return replace(state, remotes={**state.remotes, cluster: absent})


def _cluster_replaced(state: JobState, cluster: str) -> JobState:
    """Its API server may count versions from the start again: what it says now is the truth."""
    copy = state.remotes.get(cluster)
    if copy is None:
        return state
    return replace(state, remotes={**state.remotes, cluster: replace(copy, version=0)}, shown=None)


def _cluster_stood(state: JobState, standing: Standing) -> JobState:
    """What could not be done there before may be possible now, or not be needed any more."""
    before = state.standings.get(standing.cluster)
    state = replace(state, standings={**state.standings, standing.cluster: standing})
    if before is not None and before.timeless != standing.timeless:
        state = replace(state, retry_at=None)
    return state


def _offer_refused(
    state: JobState, cluster: str, reason: str, message: str, now: float
) -> JobState:
    state = _refuse(replace(state, busy=False), cluster, reason, message, now)
    bound, record = state.bound, state.record
    if bound is None or bound.cluster != cluster or record is None or record.admitted:
        return state  # the no to an offer does not say that an admitted copy is gone
    return replace(state, remotes={**state.remotes, cluster: nothing_there(bound, 0, message)})


def _refuse(
    state: JobState,
    cluster: str,
    reason: str,
    message: str,
    now: float,
    least: float | None = None,
) -> JobState:
    """Remember the no, each time for twice as long: 1 s, 2 s, … 5 min; for `least` seconds where
    the cluster says so.
    """
    before = state.refusals.get(cluster)
    count = before.count + 1 if before else 1
    until = now + max(min(REFUSAL_FIRST_S * 2 ** (count - 1), REFUSAL_MOST_S), least or 0.0)
    refusal = Refusal(cluster, reason, message, count, until, final=least == FOR_GOOD_S)
    return replace(state, refusals={**state.refusals, cluster: refusal})


def _asked_anew(state: JobState) -> JobState:
    """Somebody wants the job to be tried again as it is now: what was refused for good is not."""
    kept = {name: no for name, no in state.refusals.items() if not no.final}
    return replace(state, refusals=kept) if len(kept) < len(state.refusals) else state
