"""How long a job may stay where it is: its life as the rules see it, and what they want done.

`judge` asks `controls.control` and turns the verdict into effects. What is being recorded first
(that pods are not ready any more, that somebody wants the job evicted) comes before the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from federation.core import effects as do
from federation.core import execution
from federation.core.backoff import spread
from federation.core.checks import CheckState, standing, synced
from federation.core.controls import Deactivate, Evict, Life, Readmit, Release, Why, control
from federation.core.facts import JobState, LocalJob, Record, RemoteJob
from federation.core.failover import DEFAULT, Timings
from federation.core.policies import PodsReady, Retention
from federation.core.reasons import Reason

READY_NOTE_S = 20.0
"""Pods that became ready are noted when the job has run for so long: short jobs end before that,
and the note is worth a write only to those who look, and to a manager that starts anew."""

Behind = Callable[[LocalJob, RemoteJob], bool]
"""Whether the local status has to be written to show the copy's."""


@dataclass(frozen=True, slots=True)
class LifeRules:
    """What the shell settles once. `behind` is the job kind's comparison of two statuses.

    `pods_ready` is None where nobody waits for pods to be ready. `timings` are those of the leases
    of clusters. A copy that ended is kept for `keep_finished_s` once its result is recorded.
    """

    behind: Behind
    pods_ready: PodsReady | None = None
    retention: Retention = field(default_factory=Retention)
    timings: Timings = DEFAULT
    nominated_by_others: bool = False
    """Whether another program chooses the clusters that jobs may be offered to."""
    keep_finished_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules want: effects at once, or to give back a reservation that is not used, or to
    look again at `wake_at`. `idle_s` is for how long it stood still in its admission.
    """

    effects: tuple[do.Effect, ...] = ()
    release: Why | None = None
    wake_at: float | None = None
    idle_s: float = 0.0


def judge(
    state: JobState, local: LocalJob, record: Record, now: float, rules: LifeRules
) -> Judgement:
    """What is to be done about how long the job stays."""
    deactivated = not record.active or record.life.target is not None  # that comes first
    if state.eviction is not None and not record.life.evicted and not deactivated:
        return Judgement((do.Evict(*state.eviction, record.life.requeue),))
    unready = _unready(state, record, rules)
    if unready:
        return Judgement(unready)
    idle_s = execution.stood_still(state, record, now, rules.timings)
    unsure = execution.unsure(state, record, rules.timings)
    life = replace(life_of(state, record), idle_s=idle_s, unsure=unsure)
    random = spread(local.uid, life.requeue.count)
    match control(life, rules.pods_ready, now, random):
        case Evict(reason, message, requeue, cause):
            return Judgement((do.Evict(reason, message, cause, requeue),))
        case Deactivate(reason, message):
            why = () if life.target is not None else (do.SetTarget(reason, message),)
            return Judgement((*why, do.SetActive(False)))
        case Release(reason, message):
            return Judgement(release=Why(reason, message))
        case Readmit(reason, message):
            return Judgement((do.Readmit(reason, message),))
        case nothing:
            gone = _not_nominated(state, record, rules)
            return Judgement(release=gone, wake_at=nothing.wake_at, idle_s=idle_s)


def _not_nominated(state: JobState, record: Record, rules: LifeRules) -> Why | None:
    """An external dispatcher has taken its nomination of a cluster back that has not started it."""
    bound, copy = record.binding, state.remote
    if not rules.nominated_by_others or bound is None or record.admitted or record.move_to:
        return None
    if bound.cluster in record.nomination.clusters or (copy is not None and copy.running):
        return None
    text = f"cluster {bound.cluster} is not nominated any more"
    return Why(Reason.WITHDRAWN_FROM_WORKER_CLUSTER, text)


def life_of(state: JobState, record: Record) -> Life:
    """The life of a job: what its record says, its queues, and the pods of its copy.

    Pods of a copy that has not been seen count as ready, and so do those of one that is held: no
    limit passes by what is not known, nor because a lease ended.
    """
    life, queues, copy = record.life, state.queues, state.remote
    unknown = copy is None or copy.gone or bool(copy.held)
    local_queue, cluster_queue = life.local_queue, life.cluster_queue
    if queues is not None:
        local_queue, cluster = queues.local, queues.cluster
        cluster_queue = None if cluster is None or cluster.terminating else cluster.stop
    return replace(
        life,
        reserved=record.binding is not None,
        checks=synced(life.checks, other_checks(state), 0.0),
        pods_ready=unknown or (copy is not None and copy.ready),
        local_queue=local_queue,
        cluster_queue=cluster_queue,
    )


def other_checks(state: JobState) -> tuple[str, ...]:
    """The checks that others decide, for the admission that the job holds or is about to."""
    if state.queues is None:
        return ()
    names = state.queues.checks(state.holds)
    return tuple(name for name in names if name != state.queues.own_check)


def checked(state: JobState, record: Record) -> bool:
    """Whether nothing but the answer of a cluster stands between the job and its start."""
    return standing(record.life.checks, other_checks(state)) is CheckState.READY


def checks_differ(state: JobState, record: Record) -> bool:
    """Whether the record lists other checks than those that the job needs."""
    if state.queues is None or state.queues.cluster is None:
        return False
    names = state.queues.checks(record.admission)
    return {check.name for check in record.life.checks} != set(names)


def _unready(state: JobState, record: Record, rules: LifeRules) -> tuple[do.Effect, ...]:
    """Lost readiness is written before it is judged: the clock of recovery starts with it."""
    copy = state.remote
    if rules.pods_ready is None or not (record.admitted and record.life.pods_ready):
        return ()
    lost = copy is not None and not (copy.gone or copy.ready or copy.held)
    return (do.SetPodsReady(False),) if lost else ()


def readiness(
    record: Record, copy: RemoteJob, now: float, rules: LifeRules
) -> tuple[bool, float | None]:
    """Whether it is to be noted that the pods are ready; if not now, when (None: not at all)."""
    life = record.life
    if rules.pods_ready is None or not record.admitted or not copy.ready or life.pods_ready:
        return False, None
    if life.pods_were_ready or life.admitted_at is None:
        return True, None
    at = life.admitted_at + READY_NOTE_S
    return (True, None) if now >= at else (False, at)


def earlier(first: float | None, second: float | None) -> float | None:
    """The earlier of two times; None is never."""
    if first is None or second is None:
        return first if second is None else second
    return min(first, second)


def held_text(record: Record) -> str:
    """Why a job that is deactivated waits, and for what."""
    why = record.evicted_message or "The workload is deactivated"
    return (
        f"{why}: unsuspend the Job, or set spec.active of the Workload to true, to queue it again"
    )
