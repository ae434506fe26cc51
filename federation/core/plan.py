"""What is to be done about a job, from all its facts: the same facts give the same plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from federation.core import effects as do
from federation.core.facts import JobState, LocalJob, Record, RemoteJob
from federation.core.reasons import Reason

ANSWER_S = 10.0
"""How long an offer may stay unanswered before it is withdrawn."""

REWRITE_S = 10.0
"""The numbers in a waiting message are written again at most this often; a new reason at once."""

Plan = tuple[JobState, tuple[do.Effect, ...]]
Behind = Callable[[LocalJob, RemoteJob], bool]
"""Whether the local status has to be written to show the copy's."""


def plan(state: JobState, now: float, behind: Behind) -> Plan:
    """Derive the next effects; () means wait for a fact or a deadline."""
    local, record = state.local, state.record
    if local is None or local.terminating:
        return _leave(state)
    strays = _strays(state)
    removals = tuple(_remove(copy) for copy in strays if not copy.terminating)
    if removals:
        return state, removals
    if record is None:
        return state, () if strays or local.finished else (do.CreateWorkload(),)
    if record.finished:
        return _finished(state)
    if local.problem:
        return _waiting(state, record, (Reason.MISCONFIGURED, local.problem), now)
    if local.finished:
        return state, (do.FinishWorkload(local.finished),)
    if record.binding is not None:
        return _bound(state, local, record, now, behind)
    if strays:  # a copy of an earlier attempt is still stopping: nothing may start before
        return state, ()
    return _unbound(state, local, record, now)


def _strays(state: JobState) -> list[RemoteJob]:
    """Copies that exist and do not belong to the binding."""
    current = state.remote
    return [copy for copy in state.remotes.values() if not copy.gone and copy is not current]


def _remove(copy: RemoteJob) -> do.RemoveRemote:
    """Delete a copy; one that may have pods is deleted so that `gone` means stopped.

    A suspended one that the agent may yet start is deleted only as it was seen: if it has been
    started meanwhile, the deletion fails and is planned again, for a copy with pods.
    """
    stopping = copy.status.get("active") or copy.status.get("terminating")
    pods = not copy.finished and (not copy.suspended or bool(stopping))
    settled = pods or copy.finished or copy.refused
    return do.RemoveRemote(copy.cluster, copy.uid, None if settled else copy.version, wait=pods)


def _leave(state: JobState) -> Plan:
    """The job is deleted on the management cluster: remove its copies, then forget it."""
    live = [copy for copy in state.remotes.values() if not copy.gone]
    removals = tuple(_remove(copy) for copy in live if not copy.terminating)
    if removals or live:
        return state, removals
    if state.local is not None:
        return (replace(state, queued=False), (do.Dequeue(),)) if state.queued else (state, ())
    if state.record is not None:
        return state, (do.DeleteWorkload(),)
    return state, (do.Forget(),)


def _finished(state: JobState) -> Plan:
    copy = state.remote
    if copy and not copy.gone and not copy.terminating:
        return state, (_remove(copy),)
    return state, ()


def _waiting(state: JobState, record: Record, waits: tuple[str, str], now: float) -> Plan:
    """Record why the job waits, unless that is what stands there."""
    if waits == ("", "") or waits == (record.reason, record.message):
        return state, ()
    if waits[0] == record.reason and now - state.waits_written < REWRITE_S:
        return state, ()
    why = state.why if waits == state.waits else None
    return replace(state, waits_written=now), (do.SetWaiting(*waits, why),)


def _unbound(state: JobState, local: LocalJob, record: Record, now: float) -> Plan:
    if not record.active:
        return _held(state, local, record, now)
    if not local.suspended:  # nothing runs before a cluster admitted it
        return state, (do.SetSuspend(True), do.ResetStatus())
    if state.choice is not None:
        attempt, cluster = state.attempt + 1, state.choice.cluster
        return state, (do.Bind(cluster, attempt), do.Offer(cluster, attempt))
    if state.queue_problem:
        if state.queued:
            return replace(state, queued=False), (do.Dequeue(),)
        return _waiting(state, record, (Reason.INADMISSIBLE, state.queue_problem), now)
    if not state.queued:
        return replace(state, queued=True), (do.Enqueue(),)
    return _waiting(state, record, state.waits, now)


def _held(state: JobState, local: LocalJob, record: Record, now: float) -> Plan:
    if not local.suspended:  # people resume a held job by unsuspending it
        return state, (do.SetSuspend(True), do.SetActive(True))
    if state.queued:
        return replace(state, queued=False), (do.Dequeue(),)
    text = "held: unsuspend the Job, or set spec.active of the Workload to true, to queue it again"
    return _waiting(state, record, (Reason.DEACTIVATED, text), now)


def _bound(state: JobState, local: LocalJob, record: Record, now: float, behind: Behind) -> Plan:
    copy = state.remote
    hold = local.suspended and record.admitted and (state.was_running or local.started)
    if copy is None:
        # Of an admitted one a listing of the cluster will tell. An offer may have been made or not,
        # also for a job that is held by now: to make it again is what tells.
        return (state, ()) if record.admitted else _offer(state, record)
    if copy.finished:
        return _finish(state, local, record, copy, behind)
    if hold and record.active:
        return state, (do.SetActive(False),)
    if copy.gone:
        unused = not copy.uid and not copy.refused and not record.admitted and record.active
        return _offer(state, record) if unused else _unbind(state, local, record, copy)
    if copy.terminating:
        return state, ()
    if copy.refused or not record.active or (copy.suspended and record.admitted):
        return state, (_remove(copy),)
    if copy.suspended:
        return _await_answer(state, copy, now)
    return _running(state, local, record, copy, behind)


def _offer(state: JobState, record: Record) -> Plan:
    assert record.binding is not None
    bound = record.binding
    return state, (do.Offer(bound.cluster, bound.attempt),)


def _await_answer(state: JobState, copy: RemoteJob, now: float) -> Plan:
    deadline = max(state.deadline or now + ANSWER_S, copy.deciding_until)
    state = replace(state, deadline=deadline)
    if now < deadline:
        return state, ()
    return replace(state, deadline=None), (_remove(copy),)


def _running(
    state: JobState, local: LocalJob, record: Record, copy: RemoteJob, behind: Behind
) -> Plan:
    assert record.binding is not None
    effects: list[do.Effect] = []
    if not record.admitted:
        effects.append(do.Admit(record.binding.cluster))
    if local.suspended:
        effects.append(do.SetSuspend(False))
    if state.shown != copy.version and behind(local, copy):
        effects.append(do.SyncStatus(record.binding.cluster))
        state = replace(state, shown=copy.version)
    return replace(state, deadline=None), tuple(effects)


def _finish(
    state: JobState, local: LocalJob, record: Record, copy: RemoteJob, behind: Behind
) -> Plan:
    """Result first, then the record, then the copy may go: a crash in between loses nothing."""
    state, effects = _running(state, local, record, copy, behind)
    return state, (*effects, do.FinishWorkload(copy.finished))


def _unbind(state: JobState, local: LocalJob, record: Record, copy: RemoteJob) -> Plan:
    effects: list[do.Effect] = []
    if not local.suspended:
        effects.append(do.SetSuspend(True))
    if not local.suspended or local.started:
        effects.append(do.ResetStatus())
    effects.append(do.Unbind(*_unbind_reason(state, record, copy), evicted=record.admitted))
    return state, tuple(effects)


def _unbind_reason(state: JobState, record: Record, copy: RemoteJob) -> tuple[str, str]:
    refusal = state.refusals.get(copy.cluster)
    where = f"cluster {copy.cluster}, attempt {copy.attempt}"
    if not record.active:
        return Reason.DEACTIVATED, f"the Workload was deactivated; its copy on {where} is stopped"
    if record.admitted:
        return Reason.EVICTED_ON_WORKER_CLUSTER, f"the copy on {where} was stopped or deleted there"
    if refusal is not None:
        return Reason.REFUSED_BY_WORKER_CLUSTER, f"{where}: {refusal.message}"
    return Reason.WITHDRAWN_FROM_WORKER_CLUSTER, f"{where}: no answer within {ANSWER_S:.0f} s"
