"""Who holds cards: a decision to be counted, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from federation.core.devices.cards import Allocation, Amount, Slice
from federation.core.devices.ledger.charge import charge, occupied
from federation.core.devices.wants import PodWants, Role


class Replica(NamedTuple):
    """A seat of a Job: the place of a pod that may not be there yet. `job` is a UID."""

    job: str
    number: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.number} of job {self.job}"


Owner = str | Replica
"""The UID of a pod (or of another object that holds cards), or a seat."""


class State(IntEnum):
    """How far a holder has come. What is released is not in the ledger any more."""

    RESERVED = 0
    BOUND = 1
    RUNNING = 2


@dataclass(frozen=True, slots=True)
class Reservation:
    """A decision: these cards of this host for one pod, until it is bound or `deadline` (Unix
    seconds) passes.
    """

    owner: Owner
    namespace: str
    host: str
    wants: PodWants
    allocation: Allocation
    deadline: float

    def holding(self) -> Holding:
        """As it is counted."""
        wants = self.wants
        return Holding(
            self.owner,
            self.namespace,
            self.host,
            wants.roles,
            self.allocation,
            deadline=self.deadline,
            mutex=wants.wishes.mutex,
        )


@dataclass(frozen=True, slots=True)
class Holding:
    """What one owner has on one host. `deadline` is None once it is bound; `mutex` says that it
    wants its cards for itself.
    """

    owner: Owner
    namespace: str
    host: str
    roles: tuple[Role, ...]
    allocation: Allocation
    state: State = State.RESERVED
    deadline: float | None = None
    mutex: bool = False
    init_done: bool = False

    def charge(self) -> dict[str, Amount]:
        """What it is charged now, by UUID."""
        return charge(self.roles, self.allocation, init_done=self.init_done)

    def occupied(self) -> dict[str, tuple[Slice, ...]]:
        """Its places on MIG cards now, by UUID."""
        return occupied(self.allocation)
