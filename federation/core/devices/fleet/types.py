"""What is asked of a fleet of hosts, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from federation.core.devices.cards import Allocation
from federation.core.devices.wants import PodWants
from federation.core.matching import selects
from federation.core.types import LabelSelector, Taint, Term, Toleration

_BLOCKING = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class Room:
    """What a host offers beside its cards.

    `free` are amounts as in `quantity` (cpu in milli-units, memory in bytes, pods, ...), what runs
    there already taken off; what is not listed is not there. A host that is not `ready` takes
    nothing new.
    """

    free: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Shape:
    """All that matters of a pod to its placement: pods of one shape share what was worked out.

    `requests` are the host's resources in order of name, without those that stand for cards.
    """

    wants: PodWants
    requests: tuple[tuple[str, int], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()

    @property
    def cpu_milli(self) -> int:
        """What it requests of the CPU."""
        return dict(self.requests).get("cpu", 0)

    def admitted_by(self, room: Room) -> bool:
        """Whether labels, taints and the state of the host let it there at all."""
        if not room.ready:
            return False
        for taint in room.taints:
            if taint.effect in _BLOCKING and not any(t.tolerates(taint) for t in self.tolerations):
                return False
        if not selects(LabelSelector(self.node_selector), room.labels):
            return False
        terms = self.affinity
        return not terms or any(selects(LabelSelector((), term), room.labels) for term in terms)


Gang = Sequence[tuple[Shape, int]]
"""Pods of each shape, and how many."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A place for a pod. `score` is the strategy's, lower is better; it depends on nothing but the
    host and the shape, so scores of different fleets can be compared.
    """

    shape: Shape
    host: str
    allocation: Allocation
    score: float


@dataclass(frozen=True, slots=True)
class NoPlace:
    """No host can take the pod; `pod` is its number in the gang. The counts say how many hosts
    failed at which step: not open to it, too little CPU or memory, cards that do not fit.
    """

    shape: Shape
    pod: int = 0
    closed: int = 0
    room: int = 0
    cards: int = 0

    def __str__(self) -> str:
        """In words, for people."""
        parts = (
            (self.closed, "not open to it (labels, taints, state)"),
            (self.room, "without enough CPU, memory or other resources"),
            (self.cards, "without cards that fit"),
        )
        return ", ".join(f"{n} hosts {why}" for n, why in parts if n) or "there are no hosts"
