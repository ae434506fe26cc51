"""Cards as people and programs see them: what they are, what is used, and by whom."""

from __future__ import annotations

from dataclasses import dataclass, field

from federation.core.devices.cards import Card, CardUse


@dataclass(frozen=True, slots=True, order=True)
class InstanceView:
    """A place on a MIG card: profile, first memory slice, how many."""

    profile: str
    start: int
    size: int


@dataclass(frozen=True, slots=True, order=True)
class HolderView:
    """Something that holds a part of a card. `kind` is Pod, Claim, or Seat: the place of a pod
    that its Job has yet to start. `state` is reserved, bound or running; `instances` are its
    places on a MIG card.
    """

    kind: str
    namespace: str
    name: str
    job: str
    state: str
    memory_mib: int
    cores: int
    slots: int
    instances: list[InstanceView] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CardView:
    """A card. `state` is open, unhealthy, cordoned, fenced or held alone, `why` says more. Memory
    is in MiB, cores in per cent. `slices` are the memory slices of a MIG card, else 0.
    """

    uuid: str
    vendor: str
    model: str
    index: int
    numa: int
    mode: str
    state: str
    why: str
    memory_mib: int
    used_memory_mib: int
    cores: int
    used_cores: int
    slots: int
    used_slots: int
    slices: int
    holders: list[HolderView]


@dataclass(frozen=True, slots=True, order=True)
class NamelessView:
    """A pod with so many whole cards (MIG instances, if there is a `profile`) of its node, of which
    the kubelet chose which they are and told nobody. Any that are free are counted as used.
    """

    namespace: str
    name: str
    job: str
    vendor: str
    profile: str
    cards: int


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with cards. `fence` says why nothing new may go there ('' if it may)."""

    cluster: str
    name: str
    ready: bool
    fence: str
    problems: list[str]
    cards: list[CardView]
    nameless: list[NamelessView] = field(default_factory=list)


def state_of(card: Card, use: CardUse) -> tuple[str, str]:
    """State of a card, and why."""
    if not card.healthy:
        return "unhealthy", "its device plugin says so, or does not answer"
    if use.fence:
        return "fenced", use.fence
    if card.cordoned:
        return "cordoned", "annotation hami.io/device-cordon of the node names it"
    return ("held alone", "its holder wants it for itself") if use.closed else ("open", "")
