"""What the API server shows of a pod that has or asks for cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federation.core.devices.cards import Allocation
from federation.core.devices.ledger.cards import Unnamed
from federation.core.devices.ledger.holding import Holding, Replica, State
from federation.core.devices.wants import PodWants, Role

UNBOUND_FOR: Final = 300.0
"""Seconds that cards are kept for a pod that another scheduler has placed and not bound; as long
as HAMi lets a node lock stand."""

SKEW: Final = 60.0
"""Seconds that the clock of another scheduler may be ahead. What was placed later than that counts
only once it is bound."""


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One version of a pod.

    `version` is its resourceVersion as a number (0 if it is none: then it is taken as the newest).
    `node` is where it is bound, `placed_on` where its annotations say that its cards are, and
    `allocation` these cards by container, one entry per role; `trouble` says why the annotations
    cannot be read. `placed_at` (Unix seconds) is when it was placed. A pod that has `ended` holds
    nothing, one that is `gated` nothing of its own. `seat` is the seat that it has of its Job.
    `asks` is what it asks for, as whole cards.
    """

    uid: str
    namespace: str
    version: int = 0
    roles: tuple[Role, ...] = (Role.APP,)
    node: str = ""
    gated: bool = False
    started: bool = False
    init_done: bool = False
    ended: bool = False
    mutex: bool = False
    seat: Replica | None = None
    placed_on: str = ""
    placed_at: float = 0.0
    allocation: Allocation = ()
    trouble: str = ""
    asks: Unnamed = field(default_factory=dict)

    def checked(self) -> ObservedPod:
        """With its trouble, if the allocation is not of these containers."""
        given, own = len(self.allocation), len(self.roles)
        if not self.allocation or given == own:
            return self
        trouble = self.trouble or f"{given} containers are given cards, the pod has {own}"
        return replace(self, allocation=(), trouble=trouble)

    @property
    def state(self) -> State:
        """How far it has come."""
        if not self.node:
            return State.RESERVED
        return State.RUNNING if self.started else State.BOUND

    def noted(self) -> Holding | None:
        """What its annotations say that it holds, with the deadline that it has if it is not bound;
        None if they do not say.
        """
        if not self.placed_on or not any(self.allocation):
            return None
        return Holding(
            self.uid,
            self.namespace,
            self.placed_on,
            self.roles,
            self.allocation,
            self.state,
            self.placed_at + UNBOUND_FOR,
            self.mutex,
            self.init_done,
        )


def whole_cards(wants: PodWants) -> Unnamed:
    """The most cards that a pod has at one time, by vendor and MIG profile."""
    held: dict[tuple[str, str], int] = {}
    peak: dict[tuple[str, str], int] = {}
    for container in wants.containers:
        for cards in container.cards:
            key = (cards.vendor, cards.profile)
            if container.role is Role.INIT:
                peak[key] = max(peak.get(key, 0), held.get(key, 0) + cards.cards)
            else:
                held[key] = held.get(key, 0) + cards.cards
    return merged(held, peak)


def merged(one: Unnamed, other: Mapping[tuple[str, str], int]) -> Unnamed:
    """The larger of each."""
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in one.keys() | other.keys()}
