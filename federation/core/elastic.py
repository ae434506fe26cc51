"""A job that is made larger or smaller while it runs (annotation elastic-job), in one record.

The record's spec says how many pods the job asks for, its admission how many it was given. More
pods wait in the queue beside what runs, as a workload of their own (`Pending.growth`); when there
is quota for them the admission grows in one write, and the worker's agent is asked to let the copy
grow. Only the agent gives a copy more pods, once it has charged them. All follows from the facts:
what the job asks for, what it was given, what the copy runs, and what the agent was asked for.
"""

from __future__ import annotations

from dataclasses import replace

from federation.core import effects as do
from federation.core.facts import JobState, LocalJob, Record, RemoteJob
from federation.core.loss import reached
from federation.core.reasons import Reason
from federation.core.requests import shrink
from federation.core.sizes import Counts, Growing, Size, exceeds, fewest, missing
from federation.core.stay import earlier, other_checks
from federation.core.types import Admission, PodSet, PodSetAssignment
from federation.core.waiting import news_at

MARK = "+"
NOTHING_WAITS = ("", "")
ANSWER_S = 150.0
"""An agent that lives has said yes or no by then: it gives victims that it needs 60 s to stop."""
Plan = tuple[JobState, tuple[do.Effect, ...]]


def growth_uid(job: str) -> str:
    """Under which the pods that a job is to have beside those that run wait, and hold quota."""
    return f"{job}{MARK}"


def applies(local: LocalJob, record: Record) -> bool:
    """Whether the number of pods of a bound job follows its edits without a restart."""
    if not (local.elastic and record.elastic):  # asked at every step of every job
        return False
    if record.admission is None or record.binding is None:
        return False
    return given(record).keys() == wanted(local).keys()


def follows(local: LocalJob, size: Size) -> bool:
    """Whether a copy can have the numbers that a job asks for: none makes no sense, and its pods
    come by as many at once as they run. Another step is for the next start.
    """
    return size.steps == local.steps and all(pods.count >= 0 for pods in local.pod_sets)


def wanted(local: LocalJob) -> Counts:
    """The pods that an elastic job asks for."""
    return {pods.name: pods.count for pods in local.pod_sets}


def given(record: Record) -> Counts:
    """The pods that it has quota for."""
    return counts(record.admission) if record.admission else {}


def counts(admission: Admission) -> Counts:
    """The pods that were admitted."""
    return {pods.name: pods.count for pods in admission.pod_sets}


def flavors(admission: Admission) -> dict[tuple[str, str], str]:
    """The flavor of each resource of each pod set, for more pods of the same."""
    return {
        (pods.name, resource): flavor
        for pods in admission.pod_sets
        for resource, flavor in pods.flavors.items()
    }


def grown(admission: Admission, more: Admission) -> Admission:
    """What is held with more pods, which are in the same flavors."""
    added = {pods.name: pods for pods in more.pod_sets}
    sets = (_sum(one, added[one.name]) if one.name in added else one for one in admission.pod_sets)
    return replace(admission, pod_sets=tuple(sets))


def _sum(one: PodSetAssignment, more: PodSetAssignment) -> PodSetAssignment:
    names = one.usage.keys() | more.usage.keys()
    usage = {name: one.usage.get(name, 0) + more.usage.get(name, 0) for name in sorted(names)}
    flavors = {**more.flavors, **one.flavors}
    return replace(one, count=one.count + more.count, usage=usage, flavors=flavors)


def shrunk(admission: Admission, left: Counts) -> Admission:
    """What is held with fewer pods."""
    sets = (shrink(pods, left.get(pods.name, 0)) for pods in admission.pod_sets)
    return replace(admission, pod_sets=tuple(sets))


def runs(state: JobState) -> RemoteJob | None:
    """The copy, if its number of pods can be changed now."""
    local, record, copy = state.local, state.record, state.remote
    if local is None or record is None or copy is None or not applies(local, record):
        return None
    if copy.gone or copy.terminating or copy.finished or copy.refused or copy.suspended:
        return None
    leaves = bool(record.life.evicted) or not record.active or state.eviction is not None
    over = record.finished or local.terminating or bool(local.finished)
    if leaves or over or not record.admitted or record.move_to or copy.size is None:
        return None
    if copy.size.runs.keys() != given(record).keys():  # its sets were edited there
        return None
    if not follows(local, copy.size):
        return None
    return copy if reached(state, copy.cluster) else None


def obstacle(state: JobState, local: LocalJob) -> str:
    """Why a job can have no more pods where it runs, however much quota there is; '' if it can."""
    if local.problem:
        return local.problem
    has = given(state.record) if state.record else {}
    for pods in local.pod_sets:
        if pods.count <= has.get(pods.name, 0):
            continue
        if pods.cards is not None:
            return "its pods ask for cards: more of them are seated only when it is started anew"
        if others := _repriced(state, pods):
            return (
                f"its pods ask for other amounts ({', '.join(others)}) than those that run: they"
                " are given only when it is started anew"
            )
    if checks := other_checks(state):
        return f"admission checks decide on whole workloads only ({', '.join(checks)})"
    return ""


def _repriced(state: JobState, pods: PodSet) -> list[str]:
    """The resources of which a pod asks for more or less now than when it was admitted: defaults
    and rules may have been changed. All pods of a set have one price.
    """
    sets = state.record.admission.pod_sets if state.record and state.record.admission else ()
    given = next(found for found in sets if found.name == pods.name)
    asked = {"pods": 1, **pods.requests}
    return [
        name
        for name, total in sorted(given.usage.items())
        if total != asked.get(name, 0) * given.count
    ]


def desired(state: JobState) -> Growing | None:
    """What has to wait in the queue now for a job that runs; None if nothing does.

    Nothing waits before the last that was granted is settled: the copy runs as many pods as the
    job was given, and the agent was asked for nothing.
    """
    local, record, copy = state.local, state.record, runs(state)
    if local is None or record is None or copy is None or copy.size is None:
        return None
    asks, has = wanted(local), given(record)
    more = missing(asks, has)
    if not more or exceeds(has, asks) or copy.size.runs != has or copy.growth.open:
        return None
    return None if obstacle(state, local) else Growing(more, record.priority)


def void(state: JobState) -> JobState:
    """More pods that were placed hold quota only while they are wanted as they were, or while that
    is being written.
    """
    if state.grown is None or state.being_granted or state.growing == desired(state):
        return state
    return replace(state, grown=None, growing=None)


def unsettled(state: JobState) -> bool:
    """Whether a larger size was decided on that the copy does not run yet."""
    if state.local is None or state.record is None or not applies(state.local, state.record):
        return False
    copy = state.remote
    size = copy.size if copy is not None else None
    more = size is not None and exceeds(given(state.record), size.runs)
    return more or state.grown is not None


def leaves_queue(state: JobState) -> Plan | None:
    """What takes pods out of the queue that nobody waits for any more; None if none are there."""
    if state.growing is None or state.grown is not None or desired(state) is not None:
        return None
    return replace(state, growing=None, growth_waits=NOTHING_WAITS), (do.DequeueGrowth(),)


def plan(state: JobState, local: LocalJob, record: Record, now: float) -> Plan:
    """The next that brings what a job was given, and what its copy runs, to what it asks for."""
    copy = runs(state)
    if copy is None or copy.size is None or record.admission is None:
        return state, ()
    asks, has, running = wanted(local), given(record), copy.size.runs
    if record.counts != asks:
        return state, (do.SetPodCounts(),)
    if exceeds(running, has):  # somebody gave the copy more
        return state, (do.Resize(copy.cluster, copy.uid, fewest(asks, has, running)),)
    fewer = fewest(has, running if copy.growth.refused else asks)
    if fewer != has and exceeds(copy.growth.pods, fewer) and not copy.growth.refused:
        return state, (do.WithdrawGrowth(copy.cluster, copy.uid),)  # before its quota goes
    if fewer != has:
        return state, (do.Regrant(shrunk(record.admission, fewer)),)
    if exceeds(has, running):
        if copy.growth.pods != has:
            return replace(state, growth_due=None), (do.AskForMore(copy.cluster, copy.uid, has),)
        return _await_answer(state, copy, now)
    if copy.growth.open:
        return state, (do.WithdrawGrowth(copy.cluster, copy.uid),)
    return _more(state, local, record, now)


def _await_answer(state: JobState, copy: RemoteJob, now: float) -> Plan:
    """Quota is not kept for ever for an agent that is away, or knows of no such request. If it
    grows the copy at this moment nothing is lost: then the copy runs what the job was given.
    """
    due = state.growth_due or now + ANSWER_S
    if now < due:
        return replace(state, growth_due=due, due=earlier(state.due, due)), ()
    text = f"NoAnswer: cluster {copy.cluster} has not answered for {ANSWER_S:.0f} s"
    return replace(state, growth_due=None), (do.WithdrawGrowth(copy.cluster, copy.uid, text),)


def _lacking(has: Counts, asks: Counts) -> str:
    """For people: the sets of which it has fewer, where there are several."""
    text = f"It runs {sum(has.values())} pods and asks for {sum(asks.values())}"
    if len(asks) == 1:
        return text
    sets = (f"{name}: {has.get(name, 0)} of {asks[name]}" for name in missing(asks, has))
    return f"{text} ({', '.join(sets)})"


def _more(state: JobState, local: LocalJob, record: Record, now: float) -> Plan:
    """What was given runs. Whether the job waits for more, and why it has not got it."""
    assert record.admission is not None
    if wanted(local) == given(record):
        settled = record.scaling == NOTHING_WAITS
        return state, () if settled else (do.SetScaling("", ""),)
    if state.grown is not None:
        return state, (do.Regrant(grown(record.admission, state.grown)),)
    said = state.growth_waits
    if text := obstacle(state, local):
        said = (Reason.MISCONFIGURED.value, text)
    elif (want := desired(state)) != state.growing and want is not None:
        waits = replace(state, growing=want, growth_waits=NOTHING_WAITS)
        return waits, (do.EnqueueGrowth(want.pods),)
    if said[0]:
        said = (said[0], f"{_lacking(given(record), wanted(local))}: {said[1]}")
    at = news_at(said, record.scaling, state.waits_written)
    if at is None or now < at:
        return replace(state, due=earlier(state.due, at)), ()
    return replace(state, waits_written=now), (do.SetScaling(*said),)
