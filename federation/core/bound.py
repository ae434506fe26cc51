"""What is to be done about a job that is bound to a cluster: offer, admit, follow, stop, let go.

The quota is held until the copy has stopped, or the cluster is lost as `loss` says: nothing here
frees it by a timer. What is to be done on a cluster that cannot be reached waits for its news.
"""

from __future__ import annotations

from dataclasses import replace

from federation.core import doubt, edits, elastic, loss, moving, pod_note, returning, transit
from federation.core import effects as do
from federation.core.deleted_pods import torn
from federation.core.execution import stood_still
from federation.core.facts import Eviction, JobState, LocalJob, Record, RemoteJob
from federation.core.reasons import Reason
from federation.core.stay import (
    Judgement,
    LifeRules,
    checked,
    checks_differ,
    earlier,
    held_text,
    judge,
    readiness,
)

ANSWER_S = 10.0
"""How long an offer may stay unanswered before it is withdrawn."""

WAITS_THERE = "it has its quota on cluster"
"""How it begins what is told of a job that waits for admission checks of its cluster."""
NOTE_LENGTH = 2048
"""What is told is compared with what was told, so it is short enough to be told whole."""

LISTED_S = 60.0
"""A listing of a cluster that is well tells of an admitted copy long before that."""

Plan = tuple[JobState, tuple[do.Effect, ...]]
"""The state, and what is to be done; () is to wait for a fact, or for the time `due`."""


def remove(copy: RemoteJob) -> do.RemoveRemote:
    """Delete a copy; one that may have pods is deleted so that `gone` means stopped.

    One that may yet end, or be started by the agent, is deleted only as it was seen: if it has
    changed meanwhile the deletion fails and is planned again, so that no result is thrown away.
    """
    settled = copy.finished or copy.refused
    version = None if settled else copy.version
    return do.RemoveRemote(copy.cluster, copy.uid, version, wait=has_pods(copy))


def has_pods(copy: RemoteJob) -> bool:
    """Whether pods of a copy may run: one that was stopped may have some that stop, and one that is
    held had some, whatever its controller knows of them by now.
    """
    stopping = copy.busy or copy.status.get("active") or copy.status.get("terminating")
    return not copy.finished and (not copy.suspended or bool(stopping or copy.held))


def plan_bound(
    state: JobState, local: LocalJob, record: Record, now: float, rules: LifeRules
) -> Plan:
    """What is next for a job that is bound, whether it runs or not."""
    copy = state.remote
    if copy is not None and doubt.doubted(state, copy):
        return _failed_by_loss(state, local, record, copy, now, rules)
    if copy is not None and copy.finished:
        return _finish(state, local, record, copy, now, rules)
    if _wish(state, local, record, copy):
        return state, (do.SetActive(False),)
    judged = judge(state, local, record, now, rules)
    if judged.effects:
        return state, judged.effects
    state = replace(state, due=judged.wake_at)
    if loss.given_up(state, record, rules.timings):
        return _give_up(state, local, record, judged)
    leaves = bool(record.life.evicted) or judged.release is not None
    if not leaves and (record.move_to or record.note):
        state, ordered = moving.move(state, record, now)
        if ordered:
            return state, ordered
    if not leaves and (edited := _edited(state, local, record, copy)):
        return state, edited
    if copy is None:
        return _unknown(state, record, now, leaves)
    if copy.gone:
        return _gone(state, local, record, copy, judged)
    if copy.terminating:
        return state, ()
    if record.life.evicted or copy.refused:
        return _remove(state, copy)
    if record.admitted and torn(local, copy):
        return state, (_evicted_there(record, copy),)
    if effects := returning.adoption(state, record, copy):
        return state, effects
    if copy.suspended and not copy.held:
        return _suspended(state, record, copy, now, leaves=leaves)
    if not leaves and checks_differ(state, record):
        return state, (do.SyncChecks(),)
    if copy.held and not record.admitted:  # it counts as admitted from when it goes on
        return state, ()
    if not record.admitted and local.suspended and transit.shows_run(local, record):
        return state, transit.take_back(local)  # else its suspension would look like a wish
    state, effects = _running(state, local, record, copy, now, rules)
    return (state, effects) if effects or leaves else elastic.plan(state, local, record, now)


def _edited(
    state: JobState, local: LocalJob, record: Record, copy: RemoteJob | None
) -> tuple[do.Effect, ...]:
    """What people changed of the job since it was bound. A copy that ends is left as it is."""
    outgrown = edits.outgrown(state, local, record, copy)
    if outgrown is not None:
        return (outgrown,)
    if effects := edits.priority(state, record):
        return effects
    if copy is None or copy.gone or copy.terminating or copy.refused:
        return ()
    return edits.on_copy(state, local, record, copy)


def _suspended(
    state: JobState, record: Record, copy: RemoteJob, now: float, *, leaves: bool
) -> Plan:
    """The copy is not started, or was stopped there."""
    if record.admitted:
        return state, (_evicted_there(record, copy),)
    if leaves or copy.evicted:
        return _remove(state, copy)
    if checks_differ(state, record):
        return state, (do.SyncChecks(),)
    if copy.granted and checked(state, record):
        return _offer(state, record)  # what was offered first was the Workload
    if (told := waiting_there(record, copy)) is not None:
        return state, (do.SetNote(told),)
    return _await_answer(state, copy, now)


def waiting_there(record: Record, copy: RemoteJob) -> str | None:
    """What is to be told of what an offered job waits for on its cluster; None for nothing new. An
    order that cannot be followed has the note for itself.
    """
    if record.move_to or not copy.waits_for:
        return None
    text = f"{WAITS_THERE} {copy.cluster} and waits there: {copy.waits_for}"[:NOTE_LENGTH]
    return text if text != record.note else None


def _give_up(state: JobState, local: LocalJob, record: Record, judged: Judgement) -> Plan:
    """It leaves without its copy: that is removed when the cluster can be reached."""
    if not record.life.evicted:
        return state, (loss.eviction(state, local, record, judged.idle_s),)
    return _unbind(state, local, record, judged)


def _failed_by_loss(
    state: JobState,
    local: LocalJob,
    record: Record,
    copy: RemoteJob,
    now: float,
    rules: LifeRules,
) -> Plan:
    """Its failure is no result: nothing of it is shown, and it runs again when it may."""
    if not doubt.leaves(state, record, copy, rules.timings):
        return state, ()
    idle_s = stood_still(state, record, now, rules.timings)
    if not record.life.evicted:
        return state, (doubt.eviction(local, record, copy, idle_s),)
    return _unbind(state, local, record, Judgement(idle_s=idle_s))


def _remove(state: JobState, copy: RemoteJob) -> Plan:
    return state, (remove(copy),) if loss.reached(state, copy.cluster) else ()


def _wish(state: JobState, local: LocalJob, record: Record, copy: RemoteJob | None) -> bool:
    """Whether somebody suspended the job while it ran: it is to be held.

    What leaves already is suspended by ourselves.
    """
    started = record.admitted and (state.was_running or local.started)
    leaves = record.life.evicted or not record.active
    return local.suspended and started and not leaves and copy is not None


def _unknown(state: JobState, record: Record, now: float, leaves: bool) -> Plan:
    """Of an admitted copy a listing of the cluster will tell. An offer may have been made or not:
    to make it again is what tells.
    """
    if record.admitted:
        return _look_for_copy(state, record, now)
    if not (leaves or checked(state, record)):
        return state, ()
    if state.cannot_start and not leaves:
        return state, (do.FailToStart(state.cannot_start),)
    return _offer(state, record, void=leaves)


def _look_for_copy(state: JobState, record: Record, now: float) -> Plan:
    """If no listing tells of it, the record may have been changed by hand: an offer that nobody
    starts finds the copy, or that there is none.
    """
    assert record.binding is not None
    cluster = record.binding.cluster
    if not (loss.standing_of(state, cluster).present and loss.reached(state, cluster)):
        return replace(state, deadline=None), ()
    deadline = state.deadline or now + LISTED_S
    state = replace(state, deadline=deadline, due=earlier(state.due, deadline))
    return (state, ()) if now < deadline else _offer(state, record, void=True)


def _offer(state: JobState, record: Record, *, void: bool = False) -> Plan:
    """From now on there may be a copy, whatever was known before."""
    assert record.binding is not None
    bound = record.binding
    if not loss.reached(state, bound.cluster):
        return state, ()
    others = {name: copy for name, copy in state.remotes.items() if name != bound.cluster}
    offer = do.Offer(bound.cluster, bound.attempt, void)
    state = replace(state, remotes=others, deadline=None)
    return state, (*returning.renewal(state, record), offer)


def _gone(
    state: JobState, local: LocalJob, record: Record, copy: RemoteJob, judged: Judgement
) -> Plan:
    if record.life.evicted or judged.release is not None:
        return _unbind(state, local, record, judged)
    if record.admitted:
        return state, (_evicted_there(record, copy),)
    if copy.uid or copy.refused:
        return _unbind(state, local, record, judged)
    if checks_differ(state, record):
        return state, (do.SyncChecks(),)
    return _offer(state, record) if checked(state, record) else (state, ())


def _evicted_there(record: Record, copy: RemoteJob) -> do.Evict:
    """The worker stopped what ran there; its queue may have said why."""
    where = f"the copy on cluster {copy.cluster}, attempt {copy.attempt}"
    eviction = copy.evicted or Eviction("", "")
    text = f"{where} was stopped or deleted there"
    if eviction.reason:
        text = f"{where} was evicted there: {eviction.message}"
    reason = Reason.EVICTED_ON_WORKER_CLUSTER
    return do.Evict(reason, text, eviction.reason, record.life.requeue)


def _await_answer(state: JobState, copy: RemoteJob, now: float) -> Plan:
    deadline = max(state.deadline or now + ANSWER_S, copy.deciding_until)
    state = replace(state, deadline=deadline)
    if now < deadline:
        return replace(state, due=earlier(state.due, deadline)), ()
    if not loss.reached(state, copy.cluster):
        return state, ()
    return replace(state, deadline=None), (remove(copy),)


def _running(
    state: JobState,
    local: LocalJob,
    record: Record,
    copy: RemoteJob,
    now: float,
    rules: LifeRules,
) -> Plan:
    assert record.binding is not None
    effects: list[do.Effect] = []
    if not record.admitted:
        effects.append(do.Admit(record.binding.cluster))
    if local.suspended:
        effects.append(do.SetSuspend(False))
    if state.shown != copy.version and rules.behind(local, copy):
        effects.append(do.SyncStatus(record.binding.cluster))
        state = replace(state, shown=copy.version)
    ready, at = readiness(record, copy, now, rules)
    if ready and not copy.finished:
        effects.append(do.SetPodsReady(True))
    said, later = pod_note.note(state, record, copy, now)
    if said is not None and not copy.finished:  # what ended tells with its end
        effects.append(said)
        state = replace(state, pods_written=now)
    due = earlier(state.due, earlier(at, later))
    return replace(state, deadline=None, due=due), tuple(effects)


def _finish(
    state: JobState,
    local: LocalJob,
    record: Record,
    copy: RemoteJob,
    now: float,
    rules: LifeRules,
) -> Plan:
    """Result first, then the record, then the copy may go: a crash in between loses nothing."""
    state, effects = _running(state, local, record, copy, now, rules)
    return replace(state, due=None), (*effects, do.FinishWorkload(copy.finished, copy.cluster))


def _unbind(state: JobState, local: LocalJob, record: Record, judged: Judgement) -> Plan:
    """The Job shows that it runs nowhere before its record is free, but for one that shows its run
    on an earlier cluster and was not admitted since: if it were suspended and nothing followed, the
    next manager would take that for a wish.
    """
    effects: list[do.Effect] = []
    evicted = bool(record.life.evicted)
    passing = transit.shows_run(local, record) and not (evicted or record.admitted)
    if not passing and (not local.suspended or local.started):
        effects += transit.take_back(local)
    reason, message = _unbind_reason(state, record, judged)
    effects.append(do.Unbind(reason, message, evicted=evicted, idle_s=judged.idle_s))
    return state, tuple(effects)


def _unbind_reason(state: JobState, record: Record, judged: Judgement) -> tuple[str, str]:
    if record.life.evicted:
        if not record.active:
            return Reason.DEACTIVATED, held_text(record)
        return Reason.PENDING_EVALUATION, record.evicted_message
    if judged.release is not None:
        return judged.release
    copy = state.remote
    assert copy is not None  # it is gone
    refusal = state.refusals.get(copy.cluster)
    where = f"cluster {copy.cluster}, attempt {copy.attempt}"
    if copy.evicted is not None:
        return Reason.EVICTED_ON_WORKER_CLUSTER, f"{where}: {copy.evicted.message}"
    if refusal is not None or copy.refused:
        told = refusal.message if refusal is not None else copy.refused
        return Reason.REFUSED_BY_WORKER_CLUSTER, f"{where}: {told}"
    return Reason.WITHDRAWN_FROM_WORKER_CLUSTER, f"{where}: no answer within {ANSWER_S:.0f} s"
