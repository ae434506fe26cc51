"""Admission checks of one workload: which it needs, what they say together, what they add.

Source: the admission specification, sections 2.2 (required checks, reset) and 2.3 (retry times).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from federation.core.backoff import later
from federation.core.pod_updates import PodSetUpdate
from federation.core.policies import AdmissionCheck
from federation.core.types import Admission, ClusterQueue


class CheckState(StrEnum):
    """States of one admission check in a Workload.

    Pending = not decided; Ready = counts for Admitted; Retry = evict and start over;
    Rejected = deactivate, final.
    """

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


_GRAVITY = (CheckState.REJECTED, CheckState.RETRY, CheckState.PENDING)


@dataclass(frozen=True, slots=True)
class AdmissionCheckState:
    """What one check says of a workload.

    `changed_at` is when it came into its state (seconds since the epoch), `requeue_after_s` how
    long after that a Retry wants to be tried again, `retry_count` how often it was. None is not
    said.
    """

    name: str
    state: CheckState = CheckState.PENDING
    message: str = ""
    changed_at: float | None = None
    requeue_after_s: float | None = None
    retry_count: int | None = None
    updates: tuple[PodSetUpdate, ...] = ()


def required(queue: ClusterQueue, admission: Admission | None) -> tuple[str, ...]:
    """Names of the checks a workload needs, sorted.

    With an admission: those for one of its flavors. Before: those that every flavor of the queue
    needs; which of the others apply is not known yet.
    """
    if admission is None:
        flavors = queue.flavor_names
        names = (c.name for c in queue.checks if not c.flavors or c.flavors.issuperset(flavors))
    else:
        used = {name for pods in admission.pod_sets for name in pods.flavors.values()}
        names = (c.name for c in queue.checks if _applies(c, used))
    return tuple(sorted(set(names)))


def _applies(check: AdmissionCheck, used: set[str]) -> bool:
    return not check.flavors or not check.flavors.isdisjoint(used)


def synced(
    states: Iterable[AdmissionCheckState], names: Sequence[str], now: float
) -> tuple[AdmissionCheckState, ...]:
    """The states of exactly the required checks, sorted by name; new ones are Pending."""
    known = {state.name: state for state in states}
    return tuple(
        known.get(name) or AdmissionCheckState(name, changed_at=now) for name in sorted(set(names))
    )


def standing(states: Iterable[AdmissionCheckState], names: Iterable[str]) -> CheckState:
    """What the required checks say together: the gravest of their states, Ready if all are.

    Rejected is graver than Retry, that than Pending. One that has said nothing is Pending; what
    others say does not count.
    """
    by_name = {state.name: state.state for state in states}
    said = {by_name.get(name, CheckState.PENDING) for name in names}
    return next((state for state in _GRAVITY if state in said), CheckState.READY)


def retry_at(states: Iterable[AdmissionCheckState], current: float | None) -> float | None:
    """When a workload may queue again for its checks in state Retry, no earlier than `current`."""
    at = current
    for state in states:
        if state.state is CheckState.RETRY and None not in (
            state.changed_at,
            state.requeue_after_s,
        ):
            at = later(at, (state.changed_at or 0.0) + max(state.requeue_after_s or 0.0, 0.0))
    return at


def reset(states: Iterable[AdmissionCheckState], now: float) -> tuple[AdmissionCheckState, ...]:
    """The checks after an eviction: all start over; only a Retry keeps its count, and adds one."""
    return tuple(
        state
        if state.state is CheckState.PENDING
        else replace(
            state,
            state=CheckState.PENDING,
            message=f"reset to Pending by the eviction of the workload; it was {state.state}",
            changed_at=now,
            retry_count=(state.retry_count or 0) + 1 if state.state is CheckState.RETRY else None,
            updates=(),
        )
        for state in states
    )


def delayed(queue: ClusterQueue, admission: Admission, by: Collection[str]) -> bool:
    """Whether places in a topology are sought only when the checks are Ready: one that the
    admission needs is among those that make nodes.
    """
    return bool(by) and not set(by).isdisjoint(required(queue, admission))


def unready(states: Iterable[AdmissionCheckState]) -> str:
    """The checks that are waited for, with what they say; '' if there are none."""
    waits = [state for state in states if state.state is CheckState.PENDING]
    return described(waits, CheckState.PENDING) if waits else ""


def described(states: Iterable[AdmissionCheckState], state: CheckState) -> str:
    """The checks in a state with what they say, for a condition."""
    found = sorted((s for s in states if s.state is state), key=lambda s: s.name)
    texts = [f'"{s.name}" ({s.message})' if s.message else f'"{s.name}"' for s in found]
    noun = "AdmissionChecks" if len(found) > 1 else "AdmissionCheck"
    return f"{noun} in {state} state: {'; '.join(texts)}"
