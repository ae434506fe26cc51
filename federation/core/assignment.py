"""The outcome of looking for flavors: what was chosen, how good it is, and what was lacking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from federation.core.policies import FlavorFungibility, FlavorPreference, Fungibility
from federation.core.quantity import format_quantity
from federation.core.reasons import Reason
from federation.core.types import Admission, FlavorResource, Usage


class Mode(IntEnum):
    """What it takes to get quota, from worst to best.

    NO_CANDIDATES would need victims and has none; RECLAIM takes only what others borrowed.
    """

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class Grade(NamedTuple):
    """How good a flavor is: its mode, and how far up the tree it borrows (0: not at all)."""

    mode: Mode
    borrow: int


BEST = Grade(Mode.FIT, 0)
WORST = Grade(Mode.NO_FIT, 0)


def is_preferred(
    left: Grade,
    right: Grade,
    preference: FlavorPreference = FlavorPreference.BORROWING_OVER_PREEMPTION,
) -> bool:
    """Whether `left` is strictly better than `right` (Kueue's isPreferred)."""
    if left.mode is Mode.NO_FIT:
        return False
    if right.mode is Mode.NO_FIT:
        return True
    if (left.mode is Mode.NO_CANDIDATES) is not (right.mode is Mode.NO_CANDIDATES):
        return right.mode is Mode.NO_CANDIDATES
    by_mode, by_borrow = left.mode - right.mode, right.borrow - left.borrow
    if preference is FlavorPreference.PREEMPTION_OVER_BORROWING:
        return (by_borrow or by_mode) > 0
    return (by_mode or by_borrow) > 0


def tries_next(grade: Grade, rules: FlavorFungibility) -> bool:
    """Whether the search goes on behind a flavor of this grade."""
    if grade.mode <= Mode.NO_CANDIDATES:
        return True
    preempts = grade.mode in (Mode.PREEMPT, Mode.RECLAIM)
    if preempts and rules.when_can_preempt is Fungibility.TRY_NEXT_FLAVOR:
        return True
    return grade.borrow > 0 and rules.when_can_borrow is Fungibility.TRY_NEXT_FLAVOR


@dataclass(frozen=True, slots=True)
class Lack:
    """Why one flavor was no good, with the numbers behind it where it is about quota.

    `before` is what the workload's earlier pod sets take, `request` what this one asks for;
    `free` includes what can be borrowed now, `most` is all that could ever be had, `nominal` the
    queue's own quota and `own` what was free of that. `note` is the whole text where it is not
    about quota.
    """

    reason: Reason
    flavor: str
    note: str = ""
    resource: str = ""
    before: int = 0
    request: int = 0
    free: int = 0
    nominal: int = 0
    most: int = 0
    own: int = 0

    @property
    def needed(self) -> int:
        """Amount that must be free, earlier pod sets counted in."""
        return self.before + self.request

    @property
    def text(self) -> str:
        """Kueue's text; made when it is asked for, since most are never shown."""
        name = self.resource
        if self.note:
            return self.note
        if self.reason is Reason.WAITING_FOR_QUOTA:
            more = format_quantity(name, self.needed - self.free)
            return (
                f"insufficient unused quota for {name} in flavor {self.flavor}, {more} more needed"
            )
        x, y, z = (format_quantity(name, n) for n in (self.before, self.request, self.most))
        return (
            f"insufficient quota for {name} in flavor {self.flavor}, previously considered podsets"
            f" requests ({x}) + current podset request ({y}) > maximum capacity ({z})"
        )


_SEVERITY = {
    Reason.TOPOLOGY_PLACEMENT_FAILED: 0,
    Reason.WAITING_FOR_QUOTA: 1,
    Reason.EXCEEDS_MAX_QUOTA: 2,
    Reason.NO_MATCHING_FLAVOR: 3,
}


def most_severe(reasons: Iterable[Reason]) -> Reason | None:
    """The reason that is furthest from going away by itself; None of none."""
    return max(reasons, key=_SEVERITY.__getitem__, default=None)


def least_severe(reasons: Iterable[Reason]) -> Reason | None:
    """The reason that is nearest to going away by itself; None of none."""
    return min(reasons, key=_SEVERITY.__getitem__, default=None)


Tried = tuple[Mapping[str, int], ...]
"""Per pod set and resource the index of the flavor where the next search starts behind; -1 when
all have been looked at."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Flavors for a whole workload. `mode` is FIT, PREEMPT or NO_FIT; `admission` is incomplete
    when it is NO_FIT.

    `borrowing` is the highest level borrowed from, `preempting` the quotas that need victims,
    `lacks` what was wrong with the flavors that did not fit, each with the name of the pod set.
    """

    admission: Admission
    mode: Mode
    borrowing: int
    usage: Usage
    preempting: frozenset[FlavorResource] = frozenset()
    tried: Tried = ()
    lacks: tuple[tuple[str, Lack], ...] = ()
    reason: Reason = Reason.WAITING_FOR_QUOTA

    def explanation(self) -> str:
        """Kueue's sentence, with every flavor that was looked at."""
        texts: dict[str, set[str]] = {}
        for pod_set, lack in self.lacks:
            texts.setdefault(pod_set, set()).add(lack.text)
        return "; ".join(
            f"couldn't assign flavors to pod set {pod_set}: {', '.join(sorted(found))}"
            for pod_set, found in texts.items()
        )
