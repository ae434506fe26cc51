"""What ends the stay of a workload besides preemption: rules, switches and clocks.

`control` judges one workload by what is known of it and says the one next thing to do; after that
is done and seen, it is asked again. It is asked when a fact changes and at the time it names.

Order (the admission specification, sections 2.2 and 2.3): deactivation, checks, stopped LocalQueue,
stopped ClusterQueue, unready pods, execution time. What is being evicted already is not evicted
for another reason, but may still be deactivated. All times are in seconds since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from federation.core.backoff import RequeueState, after_unready_pods
from federation.core.checks import AdmissionCheckState, CheckState, described, retry_at
from federation.core.policies import PodsReady, StopPolicy
from federation.core.reasons import Reason, deactivated_due_to


class Why(NamedTuple):
    """Reason and message of a condition."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of a workload that waits or holds quota, and has not finished.

    `target` is its DeactivationTarget, if that is set. `evicted` is the reason of Evicted=True and
    `requeued` that of Requeued=False, '' if the condition is not so. A queue's stop policy is None
    when the queue is missing or being deleted. `checks` are those it needs (`checks.synced`).
    `pods_were_ready` is whether its pods, unready now, were ready in this admission (PodsReady
    waits for recovery). A time is None if it is not known; no limit passes by an unknown time.
    """

    active: bool = True
    target: Why | None = None
    reserved: bool = False
    admitted: bool = False
    admitted_at: float | None = None
    evicted: str = ""
    requeued: str = ""
    requeue: RequeueState = field(default_factory=RequeueState)
    local_queue: StopPolicy | None = StopPolicy.NONE
    cluster_queue: StopPolicy | None = StopPolicy.NONE
    checks: tuple[AdmissionCheckState, ...] = ()
    pods_ready: bool = False
    pods_were_ready: bool = False
    pods_ready_changed_at: float | None = None
    max_execution_s: int | None = None
    accumulated_past_s: int = 0
    idle_s: float = 0.0
    """For how long it stood still since it was admitted: that is no execution."""
    unsure: bool = False
    """Whether it stands still, or may: its time is not over before that is known."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing is to be done before `wake_at`, if no fact changes; None is for ever."""

    wake_at: float | None = None


@dataclass(frozen=True, slots=True)
class Evict:
    """Set Evicted, reset checks and nomination, and stop the job; its quota is held until then.

    `cause` is what is behind the reason, for counters. `requeue` is what requeueState becomes.
    """

    reason: str
    message: str
    requeue: RequeueState
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Deactivate:
    """Set DeactivationTarget, then spec.active to false; eviction follows from that."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Release:
    """Give back quota that was reserved but not used: nothing runs, so nothing is evicted."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Readmit:
    """Set Requeued and drop the time to requeue at: the workload may be in its queue again."""

    reason: str
    message: str


Verdict = Nothing | Evict | Deactivate | Release | Readmit


def control(life: Life, pods_rules: PodsReady | None, now: float, random: float = 0.0) -> Verdict:
    """The next thing to do about a workload.

    `pods_rules` is None without waitForPodsReady. `random` in [0, 1) spreads times to requeue at.
    """
    if not life.active:
        return _inactive(life)
    if life.target is not None:
        return Deactivate(*life.target)
    if not life.reserved:
        return _waiting(life, now)
    if not life.evicted:
        verdict = _checks(life) or _stopped(life)
        if verdict is not None:
            return verdict
    unready_at, cause = (None, "") if life.evicted else _unready_at(life, pods_rules)
    if unready_at is not None and pods_rules is not None and now >= unready_at:
        return _unready(life, pods_rules, cause, now, random)
    over_at = _execution_over_at(life)
    if over_at is not None and now >= over_at:
        text = f"exceeding the maximum execution time of {life.max_execution_s} s"
        return Deactivate(Reason.MAXIMUM_EXECUTION_TIME_EXCEEDED, text)
    return Nothing(min((t for t in (unready_at, over_at) if t is not None), default=None))


def _inactive(life: Life) -> Verdict:
    if _deactivated(life.evicted):
        return Nothing()
    text, cause = "The workload is deactivated", ""
    if life.target is not None:
        text, cause = f"{text} due to {life.target.message}", life.target.reason
    return Evict(deactivated_due_to(cause), text, RequeueState(), cause)


def _deactivated(reason: str) -> bool:
    return reason.startswith(Reason.DEACTIVATED)


class _Queue(NamedTuple):
    kind: str
    stop: StopPolicy | None
    stopped: Reason
    restarted: Reason


def _queues(life: Life) -> tuple[_Queue, _Queue]:
    """Both queues of a workload, the one that decides first in front."""
    return (
        _Queue(
            "LocalQueue",
            life.local_queue,
            Reason.LOCAL_QUEUE_STOPPED,
            Reason.LOCAL_QUEUE_RESTARTED,
        ),
        _Queue(
            "ClusterQueue",
            life.cluster_queue,
            Reason.CLUSTER_QUEUE_STOPPED,
            Reason.CLUSTER_QUEUE_RESTARTED,
        ),
    )


def _waiting(life: Life, now: float) -> Verdict:
    if not life.requeue.over(now):
        return Nothing(life.requeue.at)
    if not life.requeued:
        return Nothing()
    if _deactivated(life.requeued):
        return Readmit(Reason.REACTIVATED, "The workload was reactivated")
    for queue in _queues(life):
        if life.requeued == queue.stopped:
            if queue.stop is not StopPolicy.NONE:
                return Nothing()
            text = f"The {queue.kind} was restarted after being stopped"
            return Readmit(queue.restarted, text)
    return Readmit(Reason.BACKOFF_FINISHED, "The workload backoff was finished")


def _checks(life: Life) -> Verdict | None:
    states = {check.state for check in life.checks}
    if CheckState.REJECTED in states:
        return Deactivate(Reason.ADMISSION_CHECK, described(life.checks, CheckState.REJECTED))
    if CheckState.RETRY in states:
        requeue = RequeueState(life.requeue.count, retry_at(life.checks, life.requeue.at))
        text = f"Evicted due to {described(life.checks, CheckState.RETRY)}"
        return Evict(Reason.ADMISSION_CHECK, text, requeue)
    return None


def _stopped(life: Life) -> Verdict | None:
    """HoldAndDrain evicts what runs; any stop, or the loss of the queue, releases the rest."""
    for queue in _queues(life):
        if life.admitted:
            if queue.stop is StopPolicy.HOLD_AND_DRAIN:
                return Evict(queue.stopped, f"The {queue.kind} is stopped", life.requeue)
        elif queue.stop is None:
            return Release(Reason.MISCONFIGURED, f"The {queue.kind} is terminating or missing")
        elif queue.stop is not StopPolicy.NONE:
            return Release(Reason.SUSPENDED, f"The {queue.kind} is stopped")
    return None


def _unready_at(life: Life, rules: PodsReady | None) -> tuple[float | None, str]:
    """When the pods will have been unready for too long, and what they are waited for to do."""
    if rules is None or not life.admitted or life.pods_ready or life.admitted_at is None:
        return None, ""
    changed = life.pods_ready_changed_at
    if life.pods_were_ready and changed is not None and changed >= life.admitted_at:
        if rules.recovery_timeout_s is None:
            return None, ""
        return changed + rules.recovery_timeout_s, Reason.WAIT_FOR_RECOVERY
    return life.admitted_at + rules.timeout_s, Reason.WAIT_FOR_START


def _unready(life: Life, rules: PodsReady, cause: str, now: float, random: float) -> Verdict:
    requeue = after_unready_pods(life.requeue, rules, now, random)
    if requeue is None:
        text = (
            "exceeding the maximum number of re-queuing retries "
            f"({rules.backoff_limit}); its pods were not ready in time once more"
        )
        return Deactivate(Reason.REQUEUING_LIMIT_EXCEEDED, text)
    if cause == Reason.WAIT_FOR_START:
        text = (
            f"Exceeded the PodsReady timeout: not all pods were ready within {rules.timeout_s:g} s"
        )
    else:
        text = (
            "Exceeded the PodsReady timeout: pods that had been ready were not so again "
            f"within {rules.recovery_timeout_s:g} s"
        )
    return Evict(Reason.PODS_READY_TIMEOUT, text, requeue, cause)


def _execution_over_at(life: Life) -> float | None:
    """When its time is up; None also while it stops for a deactivation: one is enough."""
    if not life.admitted or life.unsure or _deactivated(life.evicted):
        return None
    if life.max_execution_s is None or life.admitted_at is None:
        return None
    return life.admitted_at + life.max_execution_s - life.accumulated_past_s + life.idle_s
