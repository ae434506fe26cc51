"""What a pod asks of cards, after aliases, defaults and units: exact, or it was refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

FULL: Final = 100
"""Per cent of the memory or the compute of a card that are all of it."""


class Role(StrEnum):
    """When a container holds its cards: before the others, all the time, or with the others."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class CardWants:
    """`cards` different cards of one vendor, each with so much memory and compute.

    Memory is `memory_mib` if that is not 0, else `percent` of the card that is chosen, rounded
    down. `cores` 0 reserves no compute; 100 is a card of its own. `profile` is a MIG profile that
    was asked for by name; then memory and cores are those of the profile.
    """

    vendor: str
    cards: int
    memory_mib: int = 0
    percent: int = 0
    cores: int = 0
    profile: str = ""


@dataclass(frozen=True, slots=True)
class ContainerWants:
    """One container; most ask for cards of one vendor or none."""

    name: str
    role: Role = Role.APP
    cards: tuple[CardWants, ...] = ()


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the annotations of a pod say about the choice of cards.

    Model words are matched without case (`federation.core.devices.host.matching`); None for
    `use_uuids` is no constraint. `policy` are HAMi's words in order (binpack, spread, mutex,
    numa, topology-aware), empty for the default; `weights` are of slot, core and memory.
    """

    use_models: tuple[str, ...] = ()
    avoid_models: tuple[str, ...] = ()
    use_uuids: frozenset[str] | None = None
    avoid_uuids: frozenset[str] = frozenset()
    modes: tuple[str, ...] = ()
    numa_bind: bool = False
    node_policy: str = ""
    policy: tuple[str, ...] = ()
    weights: tuple[int, int, int] = (1, 1, 1)

    @property
    def mutex(self) -> bool:
        """Whether it wants its cards for itself."""
        return "mutex" in self.policy


@dataclass(frozen=True, slots=True)
class PodWants:
    """All containers in the order of HAMi's annotations: init containers, then the others."""

    containers: tuple[ContainerWants, ...]
    wishes: Wishes = field(default_factory=Wishes)

    def __bool__(self) -> bool:
        """Whether it asks for any card."""
        return any(container.cards for container in self.containers)

    @property
    def roles(self) -> tuple[Role, ...]:
        """Of the containers, in their order."""
        return tuple([container.role for container in self.containers])
