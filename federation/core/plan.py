"""What is to be done about a job, from all its facts: the same facts give the same plan."""

from __future__ import annotations

from dataclasses import replace

from federation.core import effects as do
from federation.core import elastic, loss, returning, transit
from federation.core.bookkeeping import deactivated_by_queue, expires_at
from federation.core.bound import Plan, plan_bound, remove
from federation.core.facts import (
    Binding,
    JobState,
    LocalJob,
    Record,
    RemoteJob,
    nothing_there,
)
from federation.core.patience import give_up_at, giving_up
from federation.core.reasons import Reason
from federation.core.stay import Judgement, LifeRules, earlier, held_text, judge, other_checks
from federation.core.waiting import news_at


def plan(state: JobState, now: float, rules: LifeRules) -> Plan:
    """Derive the next effects; () means wait for a fact, or for the time `due`."""
    if state.due is not None:
        state = replace(state, due=None)
    if (ended := elastic.leaves_queue(state)) is not None:
        return ended
    local, record = state.local, state.record
    if local is None or local.terminating:
        return _leave(state, rules)
    strays = returning.strays(state)
    if record is not None:
        copy = returning.result(state, local, record)
        if copy is not None:
            return state, returning.take_over(local, copy)
    if removals := tuple(map(remove, returning.to_remove(state, strays))):
        return state, removals
    blocked = returning.blocking(state, strays, rules.timings)
    if record is None:
        return state, () if blocked or local.finished else (do.CreateWorkload(),)
    if state.queued and (record.finished or local.finished or local.problem):
        return replace(state, queued=False), (do.Dequeue(),)
    if record.finished:
        return _finished(state, local, record, now, rules)
    if local.finished:
        return state, (do.FinishWorkload(local.finished),)
    if record.binding is not None:
        return plan_bound(state, local, record, now, rules)
    return _waits(state, local, record, now, rules, blocked=blocked)


def _leave(state: JobState, rules: LifeRules) -> Plan:
    """The job is deleted on the management cluster: remove its copies, then forget it. One that
    cannot be reached and is certainly stopped holds nothing up, but is remembered.
    """
    live = [copy for copy in state.remotes.values() if not copy.gone]
    there = [copy for copy in live if loss.reached(state, copy.cluster)]
    removals = tuple(remove(copy) for copy in there if not copy.terminating)
    away = [copy for copy in live if copy not in there]
    if removals or there or returning.blocking(state, away, rules.timings):
        return state, removals
    if state.local is not None:
        return (replace(state, queued=False), (do.Dequeue(),)) if state.queued else (state, ())
    if state.record is not None:
        return state, (do.DeleteWorkload(),)
    return state, () if away else (do.Forget(),)


def _finished(
    state: JobState, local: LocalJob, record: Record, now: float, rules: LifeRules
) -> Plan:
    copy, until = state.remote, None
    if copy and not (copy.gone or copy.terminating) and loss.reached(state, copy.cluster):
        until = _kept_until(state, local, record, copy, rules)
        if until is None or now >= until:
            return state, (remove(copy),)
    if not local.finished:  # it could not be started: without its record it would begin anew
        shows_run = transit.shows_run(local, record) and not record.admitted
        return state, transit.take_back(local) if shows_run else ()
    at = expires_at(record.finished_at, None, rules.retention)
    state, effects = _expire(state, do.DeleteWorkload(), at, now)
    return (state, effects) if effects else (replace(state, due=earlier(state.due, until)), ())


def _kept_until(
    state: JobState, local: LocalJob, record: Record, copy: RemoteJob, rules: LifeRules
) -> float | None:
    """Until when a copy that has ended stays, for those who read its logs; None for not at all: it
    is not all over, or its cluster is to be empty.
    """
    over = copy.finished and local.finished and record.finished_at is not None
    if not over or not state.keep or rules.keep_finished_s <= 0:
        return None
    return (record.finished_at or 0.0) + rules.keep_finished_s


def _expire(state: JobState, effect: do.Effect, at: float | None, now: float) -> Plan:
    if at is not None and now >= at:
        return state, (effect,)
    return replace(state, due=at), ()


def _waiting(state: JobState, record: Record, waits: tuple[str, str], now: float) -> Plan:
    """Record why the job waits, unless that is what stands there."""
    at = news_at(waits, (record.reason, record.message), state.waits_written)
    if at is None or now < at:
        return replace(state, due=earlier(state.due, at)), ()
    why = state.why if waits == state.waits else None
    return replace(state, waits_written=now), (do.SetWaiting(*waits, why),)


def _waits(
    state: JobState, local: LocalJob, record: Record, now: float, rules: LifeRules, *, blocked: bool
) -> Plan:
    """Of a job without a binding. One that lost its cluster a moment ago is told nothing yet."""
    until = transit.until(state, local, record)
    if until is not None and now < until:
        if not blocked:
            state, effects = _unbound(state, local, record, now, rules, passing=True)
            if effects:
                return state, effects
        return replace(state, due=earlier(state.due, until)), ()
    if (local.problem or blocked) and transit.shows_run(local, record):
        return state, transit.take_back(local)
    if local.problem:
        return _waiting(state, record, (Reason.MISCONFIGURED, local.problem), now)
    if blocked:  # a copy of an earlier attempt may still run: nothing may start before
        return state, ()
    passing = until is not None and state.choice is not None
    return _unbound(state, local, record, now, rules, passing=passing)


def _unbound(
    state: JobState, local: LocalJob, record: Record, now: float, rules: LifeRules, *, passing: bool
) -> Plan:
    if state.eviction is not None:  # decided on, and not bound: nothing has to stop
        state = replace(state, eviction=None, admission=None, choice=None, queued=False)
    judged = judge(state, local, record, now, rules)
    if not record.active:
        return _held(state, local, record, now, judged, rules)
    if not passing and (not local.suspended or transit.shows_run(local, record)):
        return state, transit.take_back(local)  # nothing runs before a cluster admitted it
    if state.choice is not None:
        return _bind(state, state.choice.cluster)
    over = give_up_at(state, local, record)
    if over is not None and now >= over:
        return state, giving_up(state, local, record)
    state = replace(state, due=over)
    if state.queue_problem:
        if state.queued:
            return replace(state, queued=False), (do.Dequeue(),)
        return _waiting(state, record, (state.queue_reason, state.queue_problem), now)
    if judged.effects:
        return state, judged.effects
    if record.life.requeued or not record.life.requeue.over(now):
        state = replace(state, due=judged.wake_at)
        return (replace(state, queued=False), (do.Dequeue(),)) if state.queued else (state, ())
    if not state.queued:
        return replace(state, queued=True), (do.Enqueue(),)
    if state.nominate:
        wanted, state = state.nominate, replace(state, nominate=())
        if wanted != record.nomination.clusters:
            return state, (do.Nominate(wanted),)
    if passing:
        return state, ()
    return _waiting(state, record, state.waits, now)


def _bind(state: JobState, cluster: str) -> Plan:
    """The offer follows at once, unless the checks of others come before it."""
    copy = returning.retakable(state)
    if copy is not None and copy.cluster == cluster:  # it goes on, and is adopted if need be
        return state, (do.Bind(cluster, copy.attempt),)
    attempt = state.attempt + 1
    bind = do.Bind(cluster, attempt)
    if not other_checks(state):
        return state, (bind, do.Offer(cluster, attempt))
    known = state.remotes.get(cluster)
    marker = nothing_there(Binding(cluster, attempt, 0, ""), known.version if known else 0)
    return replace(state, remotes={**state.remotes, cluster: marker}), (bind,)


def _held(
    state: JobState,
    local: LocalJob,
    record: Record,
    now: float,
    judged: Judgement,
    rules: LifeRules,
) -> Plan:
    if transit.shows_run(local, record):  # nobody has unsuspended it
        return state, transit.take_back(local)
    if not local.suspended:  # people resume a held job by unsuspending it
        return state, (do.SetSuspend(True), do.SetActive(True))
    if state.queued:
        return replace(state, queued=False), (do.Dequeue(),)
    if judged.effects:
        return state, judged.effects
    by_queue = deactivated_by_queue(record.active, record.life.evicted)
    at = expires_at(None, record.evicted_at if by_queue else None, rules.retention)
    if at is not None and now >= at:
        return state, (do.DeleteJob(),)
    return _waiting(replace(state, due=at), record, (Reason.DEACTIVATED, held_text(record)), now)
