"""How a worker cluster stands: what is known of it, what follows, and when; and the brake over all.

Level-triggered: `judge` looks at everything that is known and says what holds now and what to do.
Only the Lease moves jobs. That the manager cannot reach the API server of a cluster, or that its
kubeconfig is of no use, keeps new work away and is shown; it is no sign of death (failover.md
section 2). Times are seconds on the manager's own clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from federation.core.confirming import Confirm, Ordered, Settled, answer
from federation.core.failover import Standing, Timings
from federation.core.lease import Cause, LeaseSeen, Watch


class Phase(StrEnum):
    """Where a cluster stands (`status.fedq.phase`)."""

    UNKNOWN = "Unknown"
    """No agent has renewed its Lease yet."""
    READY = "Ready"
    UNUSABLE = "Unusable"
    """Its agent is well, but the manager cannot work with the cluster."""
    RECOVERING = "Recovering"
    """It was silent twice in a short time: it gets new work once it has renewed for a while."""
    SUSPECT = "Suspect"
    """No renewal for a while: no new work. Nothing is written."""
    FENCED = "Fenced"
    """Its epoch is over; its jobs may still be stopping."""
    LOST = "Lost"
    """Its jobs are stopped for certain and run elsewhere."""
    RETURNING = "Returning"
    """Its agent is back in a new epoch and lists what it has."""
    LEAVING = "Leaving"
    """Its MultiKueueCluster was deleted, and jobs are bound there."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a cluster beside its Lease.

    `missing_since` is when its MultiKueueCluster was found to be deleted (None: it exists), `bound`
    the highest epoch in which a job is bound there (0: none is). `unusable` says why the manager
    cannot work with it (its API server, the kubeconfig, the report; '' if it can), `listed` whether
    the copies there have been listed, `inventory_epoch` for which epoch its agent reports all it
    has. `order` is one that confirms a fence. `identity` is that of the physical cluster which
    answers under the name ('': not known). `contact` is whether its API server answers, as far as
    the manager could ask it: all that is known of one without an agent.
    """

    missing_since: float | None = None
    bound: int = 0
    unusable: str = ""
    listed: bool = True
    inventory_epoch: int = 0
    order: Ordered | None = None
    identity: str = ""
    contact: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Make the Lease; `fenced` if there may be an agent that goes by an earlier one."""

    epoch: int
    fenced: bool


@dataclass(frozen=True, slots=True)
class Fence:
    """Replace the Lease, if it still is at `version`, by a fenced one of `epoch`; from that on it
    is of the physical cluster `identity`, where that is another one than before.
    """

    epoch: int
    cause: Cause
    version: int
    identity: str = ""


Action = Create | Fence | Confirm


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next if nothing changes, and at what time (inf: time alone changes nothing)."""

    what: str
    at: float = math.inf


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a cluster stands. `cause` says why in a sentence, `since` is from when on; '' and None
    where there is nothing to say. `order` says what becomes of an order that confirms a fence, if
    it does not stay as it is.
    """

    phase: Phase
    standing: Standing
    cause: str = ""
    since: float | None = None
    next: Step | None = None
    action: Action | None = None
    order: Settled | None = None


@dataclass(frozen=True, slots=True)
class Brake:
    """Whether jobs are held where they are, whatever their cluster does. `reason` says why ('':
    they are not), `since` is when that changed last: it is let go as of when the reason was gone.
    That is `calm_since`, while it is still held because the reason may come back (None: it is
    there, or the brake is not set).
    """

    reason: str = ""
    since: float = -math.inf
    calm_since: float | None = None

    def free_at(self, timings: Timings) -> float:
        """From when on clusters may be given up. Those that were cut off with all others get a
        while to come back after it was let go.
        """
        return math.inf if self.reason else self.since + timings.suspect


def brake(
    old: Brake, silent: int, members: int, blind: str, now: float, hold: float = 0.0
) -> Brake:
    """Set or let go the brake: while `blind` says why the manager's own view cannot be trusted, or
    while more than half of the members, and three at least, are silent at once, or all of two.

    One cluster of one or two may be lost. Those that are fenced already do not count. Once set, it
    is let go when there was no reason for it for `hold` seconds on end.
    """
    reason = blind
    most = silent >= 3 and 2 * silent > members
    if not reason and (most or silent == members == 2):
        reason = f"{silent} of {members} clusters are silent at once"
    if reason:
        return Brake(reason, old.since if old.reason else now)
    if not old.reason:
        return old
    calm = now if old.calm_since is None else old.calm_since
    return Brake("", calm) if now - calm >= hold else replace(old, calm_since=calm)


def counts(watch: Watch, facts: Facts, now: float, timings: Timings) -> tuple[int, int]:
    """What a cluster adds to the silent ones and to the members of `brake`."""
    if watch.seen is None or not watch.seen.held or not _concerns(facts):
        return 0, 0
    away = _is_silent(watch, facts, now, timings) or facts.missing_since is not None
    return int(away), 1


def settle(watch: Watch, now: float, timings: Timings, held: Brake) -> Watch:
    """Note that all below the epoch is stopped once that is so and the brake is free."""
    due = max(watch.gone_at, held.free_at(timings))
    if watch.seen is None or watch.stopped_below >= watch.seen.epoch or now < due:
        return watch
    return replace(watch, stopped_below=watch.seen.epoch)


def judge(
    name: str, watch: Watch, facts: Facts, now: float, timings: Timings, held: Brake
) -> Verdict:
    """How a cluster stands at `now`; its Watch has been through `settle` at that time."""
    seen, floor = watch.seen, max(watch.highest, facts.bound, facts.inventory_epoch)
    if seen is None:
        create = Create(floor + 1 if floor else 1, fenced=floor > 0) if _concerns(facts) else None
        draft = _Draft(Phase.UNKNOWN, "it has no Lease", action=create)
    elif seen.fenced:
        draft = _given_up(watch, timings, held)
    elif _is_silent(watch, facts, now, timings):
        draft = _suspect(watch, facts, now, timings, held)
    elif watch.renewed_at is None:
        draft = _Draft(Phase.UNKNOWN, "no agent has renewed its Lease yet")
    elif facts.missing_since is not None:
        draft = _leaving(watch, facts, now, timings, held)
    else:
        draft = _well(watch, facts, timings)
    if seen is not None and seen.epoch < floor:
        draft = replace(draft, action=Fence(floor + 1, Cause.EPOCH_LOST, seen.version))
    elif seen is not None and replaced(seen, facts.identity) and not seen.fenced:
        fence = Fence(floor + 1, Cause.REPLACED, seen.version, facts.identity)
        draft = replace(draft, action=fence)
    order = answer(facts.order, watch, silent=draft.phase is Phase.SUSPECT)
    if isinstance(order, Confirm) and draft.action is None:
        draft = replace(draft, action=order)
    standing = _standing(name, watch, facts, now, draft.phase, now >= held.free_at(timings))
    standing = _with_lapses(standing, watch, now, timings)
    settled = order if isinstance(order, Settled) else None
    next_, action = draft.next, draft.action
    return Verdict(draft.phase, standing, draft.cause, draft.since, next_, action, settled)


def _with_lapses(standing: Standing, watch: Watch, now: float, timings: Timings) -> Standing:
    """What its lease may have done to what runs there."""
    lapsed = watch.lapsed(now, timings)
    return replace(
        standing,
        lapsed=lapsed,
        unrenewed=watch.unrenewed(now) if lapsed else 0.0,
        lately=watch.lately(timings),
        breaks=watch.seen.breaks if watch.seen is not None else 0,
        unheard=watch.unheard,
        kill=watch.kill_s(timings),
    )


def replaced(seen: LeaseSeen, identity: str) -> bool:
    """Whether another physical cluster answers under the name than the Lease is of."""
    return "" not in (seen.identity, identity) and seen.identity != identity


def identity_note(seen: LeaseSeen, identity: str) -> tuple[str, int]:
    """Of which physical cluster the Lease should say that it is, and since which epoch. If another
    one has the name now, an epoch is ended first; nothing was bound in one that is fenced.
    """
    if not seen.identity and identity:
        return identity, 0
    if seen.fenced and replaced(seen, identity):
        return identity, seen.epoch
    return seen.identity, seen.own_since


@dataclass(frozen=True, slots=True)
class _Draft:
    phase: Phase
    cause: str = ""
    since: float | None = None
    next: Step | None = None
    action: Action | None = None


def _concerns(facts: Facts) -> bool:
    """Whether anything depends on the cluster."""
    return facts.missing_since is None or facts.bound > 0


def _is_silent(watch: Watch, facts: Facts, now: float, timings: Timings) -> bool:
    """A cluster that nobody ever spoke for is not silent, unless something is bound there."""
    expected = watch.renewed_at is not None or facts.bound > 0
    return expected and watch.silent(now) >= watch.suspect_s(timings)


_GIVEN_UP: dict[str, str] = {
    Cause.SILENT: "no renewal of its Lease was seen",
    Cause.LEFT: "its MultiKueueCluster was deleted while jobs were bound there",
    Cause.CONFIRMED: "somebody confirmed that nothing runs there",
    Cause.EPOCH_LOST: "its Lease was deleted, or its epoch lowered",
    Cause.REPLACED: "another physical cluster has its name now",
}


def _given_up(watch: Watch, timings: Timings, held: Brake) -> _Draft:
    seen = watch.seen
    assert seen is not None
    text = _GIVEN_UP.get(seen.cause, "its Lease was fenced")
    since = watch.renewed_at if seen.cause == Cause.SILENT else None
    if watch.stopped_below >= seen.epoch:
        back = Step("its agent takes the new epoch over when it is back")
        return _Draft(Phase.LOST, text, since, back)
    stopped = Step("its jobs are stopped and run elsewhere", watch.gone_at)
    return _Draft(Phase.FENCED, text, since, _unless(held, stopped, timings))


def _unless(held: Brake, step: Step, timings: Timings) -> Step:
    """The step, as late as the brake lets it."""
    if held.reason:
        return Step(f"nothing while {held.reason}")
    return replace(step, at=max(step.at, held.free_at(timings)))


def _suspect(watch: Watch, facts: Facts, now: float, timings: Timings, held: Brake) -> _Draft:
    seen = watch.seen
    assert seen is not None
    fence = Step("it is fenced", watch.counted_from + watch.fence_s(timings))
    cause, step = Cause.SILENT, _unless(held, fence, timings)
    if facts.order == Ordered(seen.epoch + 1, fresh=True):  # an order stands above the brake
        cause, step = Cause.CONFIRMED, Step("it is fenced", now)
    action = Fence(max(watch.highest, facts.bound) + 1, cause, seen.version)
    return _Draft(
        Phase.SUSPECT,
        "no renewal of its Lease was seen",
        watch.renewed_at,
        step,
        action if now >= step.at else None,
    )


def _leaving(watch: Watch, facts: Facts, now: float, timings: Timings, held: Brake) -> _Draft:
    seen, since = watch.seen, facts.missing_since
    assert seen is not None
    assert since is not None
    text = "its MultiKueueCluster was deleted while jobs are bound there"
    if facts.bound < seen.epoch:  # fenced once; its agent is back, but nobody adopts what it has
        step = Step("its jobs are stopped and run elsewhere", watch.gone_at)
        return _Draft(Phase.LEAVING, text, since, _unless(held, step, timings))
    step = _unless(held, Step("it is fenced", since + watch.suspect_s(timings)), timings)
    fence = Fence(max(watch.highest, facts.bound) + 1, Cause.LEFT, seen.version)
    return _Draft(Phase.LEAVING, text, since, step, fence if now >= step.at else None)


def _well(watch: Watch, facts: Facts, timings: Timings) -> _Draft:
    seen = watch.seen
    assert seen is not None
    assert watch.renewed_at is not None
    if facts.unusable:
        return _Draft(Phase.UNUSABLE, facts.unusable)
    if seen.epoch > 1 and not (facts.listed and facts.inventory_epoch >= seen.epoch):
        return _Draft(
            Phase.RETURNING, f"its agent has not reported all it has in epoch {seen.epoch}"
        )
    if watch.renewed_at < watch.well_at(timings):
        step = Step("it gets new work", watch.well_at(timings))
        text = "its Lease is renewed again, after it was lost twice in a short time"
        return _Draft(Phase.RECOVERING, text, watch.well_since, step)
    return _Draft(Phase.READY)


def _standing(
    name: str, watch: Watch, facts: Facts, now: float, phase: Phase, free: bool
) -> Standing:
    epoch = max(watch.highest, 1)
    left = phase is Phase.LEAVING and facts.bound < epoch  # its agent lives, but it was fenced
    away = free and (left or phase in (Phase.SUSPECT, Phase.FENCED))
    away = away or phase is Phase.LOST  # that was decided when the brake was free
    # What wrote to the Lease since the last renewal may have hidden one.
    silent = min(watch.silent(now), now - watch.counted_from)
    silent = max(silent, now - watch.over_at) if left else silent
    own_since = watch.seen.own_since if watch.seen is not None else 0
    confirmed = watch.seen.confirmed_below if watch.seen is not None else 0
    return Standing(
        name,
        epoch,
        present=phase in (Phase.READY, Phase.RECOVERING),
        suspect=away,
        silent=silent if away else 0.0,
        fenced_below=epoch,
        stopped_below=watch.stopped_below,
        # Of epochs to come nothing can be said: it must not hold when they have come.
        confirmed_below=confirmed if confirmed <= epoch else 0,
        own_since=own_since,
        since_replaced=max(0.0, now - watch.over_at) if own_since else 0.0,
    )
