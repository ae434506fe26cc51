"""Why a job is where it is: one paragraph with numbers, from plain facts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from federation.api.names import Annotation, Label
from federation.core.bound import ANSWER_S
from federation.core.quantity import format_quantity, parse_quantity
from federation.core.reasons import Reason
from fedq.clusterview import ClusterView
from fedq.jobview import JobState, JobView
from fedq.output import age
from fedq.queueview import QueueView


@dataclass(frozen=True, slots=True)
class Facts:
    """What `why` has read.

    Attributes:
        requests: what all pods together ask for, by resource, as texts.
        shares: what each container asks of cards, as texts.
        holds: quota held, as `flavor/resource amount` texts.
        pods: ready, active, succeeded, failed and wanted pods of a Job; of other kinds `wanted`,
            and of pods what has become of them.
        incomplete: why a group of pods is no job yet; empty if it is one.
        queue_problem: why its LocalQueue leads nowhere; empty if it leads to `queue`.
        ahead: waiting workloads of the same ClusterQueue that come before it.
        waiting: all that wait there, this one included.
        checks: admission checks of others that are not Ready, as `name: state`.
        trouble: what is wrong with its pods; empty for nothing.
        lacks: why it runs fewer pods than it asks for; empty if it does not.
        why: status.fedq.waiting of its Workload, if it waits: reason, requeue, shortages, hint.
        cards: why no cards are free for it as things are, and who would have to leave; empty if it
            waits for something else.
        manager_problem: why the manager seems not to work; empty if nothing speaks for that.
        local: whether an agent decides, which counts no use of queues: this is a worker cluster, or
            the job runs on the management cluster itself.
    """

    view: JobView
    now: datetime
    requests: Mapping[str, str] = field(default_factory=dict)
    shares: Sequence[str] = ()
    holds: Sequence[str] = ()
    pods: Mapping[str, int] = field(default_factory=dict)
    incomplete: str = ""
    queue_problem: str = ""
    queue: QueueView | None = None
    ahead: int = 0
    waiting: int = 0
    checks: Sequence[str] = ()
    trouble: str = ""
    lacks: str = ""
    why: Mapping[str, Any] = field(default_factory=dict)
    cards: str = ""
    clusters: Sequence[ClusterView] = ()
    manager_problem: str = ""
    local: bool = False

    @property
    def troubled(self) -> list[ClusterView]:
        """Clusters that take no new work."""
        return [cluster for cluster in self.clusters if cluster.connected != "True"]


@dataclass(frozen=True, slots=True)
class Story:
    """What is the case, and what would change it."""

    text: str
    advice: str


def tell(facts: Facts) -> Story:
    """The story of one job."""
    return _TELLERS[facts.view.state](facts)


def _for(facts: Facts) -> str:
    passed = facts.now - datetime.fromisoformat(facts.view.since)
    return age(passed.total_seconds())


def _name(facts: Facts) -> str:
    return facts.view.title


def _where(facts: Facts) -> str:
    view = facts.view
    return f"cluster {view.cluster} (attempt {view.attempt})" if view.cluster else "this cluster"


def _not_queued(facts: Facts) -> Story:
    return Story(
        f"{_name(facts)} names no queue, so Fedq does not look at it.",
        f"Delete it, add the label {Label.QUEUE_NAME.value} with the name of a LocalQueue, and"
        " submit it again.",
    )


def _new(facts: Facts) -> Story:
    if facts.incomplete:
        return Story(
            f"{_name(facts)} is not queued: {facts.incomplete}.",
            f"Create the pods that are missing, or correct {Annotation.POD_GROUP_TOTAL_COUNT}.",
        )
    who = "agent" if facts.local else "manager"
    text = f"{_name(facts)} was submitted {_for(facts)} ago and the {who} has made no Workload"
    text += " for it yet."
    if facts.queue_problem:
        text += f" {facts.queue_problem}."
    if facts.manager_problem:
        return Story(f"{text} {facts.manager_problem}.", f"Start the {who}, or read its log.")
    return Story(text, f"The {who} makes it within a second while it runs: ask again.")


def _pending(facts: Facts) -> Story:
    view = facts.view
    queue = f"ClusterQueue {facts.queue.name}" if facts.queue else "no ClusterQueue"
    parts = [f"{_name(facts)} waits in {queue} (LocalQueue {view.queue}) for {_for(facts)}"]
    said = _without_hint(facts)
    parts[0] += f": {view.reason}: {said}." if view.reason else "; no reason is given yet."
    if facts.queue_problem and facts.queue_problem not in view.message:
        parts.append(f"{facts.queue_problem}.")
    if facts.queue:
        parts.append(_numbers(facts, facts.queue))
    if facts.cards:
        parts.append(facts.cards)
    parts += [f"{c.name} takes no new work: {c.reason}: {c.message}." for c in facts.troubled]
    if not facts.clusters and not facts.local:
        parts.append("No worker cluster is registered.")
    if facts.manager_problem:
        parts.append(f"{facts.manager_problem}.")
    return Story(" ".join(parts), _advice(facts))


def _hint(facts: Facts) -> str:
    """What the manager says would help; '' if it said nothing, or that of an earlier reason."""
    return str(facts.why.get("hint") or "") if facts.why.get("reason") == facts.view.reason else ""


def _without_hint(facts: Facts) -> str:
    """The message ends with the hint, which is the advice here."""
    return facts.view.message.removesuffix(_hint(facts)).rstrip(". ")


def _numbers(facts: Facts, queue: QueueView) -> str:
    asked = ", ".join(f"{name} {amount}" for name, amount in facts.requests.items()) or "nothing"
    used = ", ".join(f"{q.flavor}/{q.resource} {q.used} of {q.nominal}" for q in queue.usage)
    known = "" if facts.local else f"; in use there: {used or 'no quota at all'}"
    if facts.shares:
        asked += f" (each pod: {', '.join(facts.shares)})"
    others = "1 waits" if facts.waiting == 1 else f"{facts.waiting} wait"
    return (
        f"It asks for {asked}{known}. {others} there, {facts.ahead} of them before this one (its"
        f" priority is {facts.view.priority})."
    )


def _advice(facts: Facts) -> str:
    reason, queue = facts.view.reason, facts.queue.name if facts.queue else "NAME"
    if hint := _hint(facts):
        return f"{hint}."
    if facts.local:  # the agent's message ends with what would help
        return "It is looked at again by itself when that changes."
    if facts.queue_problem or reason in ("Inadmissible", "Misconfigured", "NoMatchingFlavor"):
        return "Correct what the message names; the job is then looked at again by itself."
    if reason == "ExceedsMaxQuota":
        return (
            f"It can never fit: lower its requests, or raise nominalQuota (`kubectl edit"
            f" clusterqueue {queue}`)."
        )
    if reason == "Suspended":
        return f"Set spec.stopPolicy of ClusterQueue {queue} to None."
    if "no worker cluster" in facts.view.message:
        return (
            "It starts when a worker cluster has room: when jobs there end, its queues get more"
            " quota, a cluster comes back, or what is said of one above is put right."
        )
    missing = _missing(facts)
    if missing:
        return (
            f"It starts when {missing} more is free: when running jobs of {queue} end, or when"
            f" its quota is raised (`kubectl edit clusterqueue {queue}`)."
        )
    return "It is offered to a cluster when those before it were looked at; ask again."


def _missing(facts: Facts) -> str:
    """Per resource what is short in the flavor that has most of it; empty if all is there."""
    found = []
    for resource, wanted in facts.requests.items():
        free = [
            parse_quantity(resource, quota.free)
            for quota in (facts.queue.usage if facts.queue else ())
            if quota.resource == resource
        ]
        short = parse_quantity(resource, wanted) - max(free, default=0)
        if free and short > 0:
            found.append(f"{resource} {format_quantity(resource, short)}")
    return " and ".join(found)


def _checking(facts: Facts) -> Story:
    then = f"is offered to {_where(facts)}" if facts.view.cluster else "starts"
    return Story(
        f"{_name(facts)} has quota since {_for(facts)}, {_holds(facts)}; it"
        f" {then} when its admission checks are Ready, and these are not:"
        f" {', '.join(facts.checks)}.",
        "Their controllers decide: see status.admissionChecks of its Workload."
        + _cluster_trouble(facts),
    )


def _leaving(facts: Facts) -> Story:
    view = facts.view
    parts = [f"{_name(facts)} leaves {_where(facts)} for {_for(facts)}: {view.reason}:"]
    parts.append(f"{view.message.rstrip('. ')}. {_holds(facts).capitalize()} until its pods stop.")
    if facts.manager_problem:
        parts.append(f"{facts.manager_problem}.")
    return Story(
        " ".join(parts) + _cluster_trouble(facts),
        "Its quota is free when its last pod is gone; it then queues again, or is held if it was"
        " deactivated.",
    )


def _offered(facts: Facts) -> Story:
    if facts.view.reason == Reason.UNSATISFIED_ADMISSION_CHECKS:
        return _checking_there(facts)
    text = f"{_name(facts)} is offered to {_where(facts)} for {_for(facts)}."
    advice = (
        f"Its agent answers within {ANSWER_S:.0f} s; a refusal or no answer brings the job back"
        " into the queue."
    )
    return Story(text + _cluster_trouble(facts), advice)


def _checking_there(facts: Facts) -> Story:
    """Its cluster has quota for it, and waits for admission checks of its own."""
    view = facts.view
    text = f"{_name(facts)} is offered to {_where(facts)} for {_for(facts)}:"
    return Story(
        f"{text} {view.message.rstrip('. ')}.{_cluster_trouble(facts)}",
        f"Their controllers on {view.cluster} decide: see status.admissionChecks of its Workload"
        " there. If they want it later, or not at all, or take too long, it queues again and may go"
        " elsewhere.",
    )


def _admitted(facts: Facts) -> Story:
    text = f"{_name(facts)} is admitted on {_where(facts)} for {_for(facts)}, {_holds(facts)};"
    name, there = facts.view.ref, f" on {facts.view.cluster}" if facts.view.cluster else ""
    lacks = f" {facts.lacks.rstrip('. ')}." if facts.lacks else ""
    return Story(
        f"{text} no pod is ready yet.{lacks}{_trouble(facts)}{_cluster_trouble(facts)}",
        f"Its pods{there} say more: `fedq events {name}`, `fedq logs {name}`.",
    )


def _trouble(facts: Facts) -> str:
    return f" Its pods: {facts.trouble}." if facts.trouble else ""


def _running(facts: Facts) -> Story:
    pods = facts.pods
    told = f"{pods.get('wanted', 0)} pods were asked for"
    if "ready" in pods:
        told = (
            f"{pods['ready']} of {pods.get('wanted', 0)} pods ready, {pods.get('succeeded', 0)}"
            f" succeeded, {pods.get('failed', 0)} failed"
        )
    text = f"{_name(facts)} runs on {_where(facts)} for {_for(facts)}: {told}; {_holds(facts)}."
    advice = "It waits for nothing but its own pods."
    if facts.lacks:
        text += f" {facts.lacks.rstrip('. ')}."
        advice = "It goes on as it is. Its other pods start when there is room for them there."
    return Story(text + _trouble(facts) + _cluster_trouble(facts), advice)


def _holds(facts: Facts) -> str:
    return f"it holds {', '.join(facts.holds)}" if facts.holds else "it holds no quota"


def _cluster_trouble(facts: Facts) -> str:
    bad = [c for c in facts.troubled if c.name == facts.view.cluster]
    return f" {bad[0].name} is in trouble: {bad[0].reason}: {bad[0].message}." if bad else ""


def _ended(facts: Facts) -> Story:
    view = facts.view
    where = f" on {_where(facts)}" if view.cluster or facts.local else ""
    why = f": {view.message}" if view.message else ""
    text = f"{_name(facts)} ended as {view.state}{where} {_for(facts)} ago{why}."
    again = "Delete it and submit it again to run it once more."
    return Story(text, again if view.state is JobState.FAILED else "Nothing more will happen.")


def _held(facts: Facts) -> Story:
    view = facts.view
    why = "its Workload is not active"
    if view.reason == "Deactivated":  # the manager has said why
        why = view.message.partition(": unsuspend the Job")[0].rstrip(". ")
    unsuspend = "Unsuspend the Job, or s" if view.ref == view.name else "S"
    return Story(
        f"{_name(facts)} is held for {_for(facts)}: {why}; it holds no quota.",
        f"{unsuspend}et spec.active of its Workload to true, to queue it again.",
    )


def _deleting(facts: Facts) -> Story:
    copy = f"; its copy on {_where(facts)} is removed first" if facts.view.cluster else ""
    return Story(
        f"{_name(facts)} is being deleted{copy}.",
        "Nothing to do." + _cluster_trouble(facts),
    )


_TELLERS: Mapping[JobState, Callable[[Facts], Story]] = {
    JobState.NOT_QUEUED: _not_queued,
    JobState.NEW: _new,
    JobState.PENDING: _pending,
    JobState.CHECKING: _checking,
    JobState.OFFERED: _offered,
    JobState.ADMITTED: _admitted,
    JobState.RUNNING: _running,
    JobState.LEAVING: _leaving,
    JobState.COMPLETE: _ended,
    JobState.FAILED: _ended,
    JobState.HELD: _held,
    JobState.DELETING: _deleting,
}
