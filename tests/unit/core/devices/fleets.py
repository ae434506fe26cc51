"""Small fleets and pods for tests of placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from federation.core.devices.cards import Amount, Card, CardUse, Host, HostUse
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.named import strategy
from federation.core.devices.fleet.types import Placement, Room, Shape
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Wishes

CARD_MIB = 40960


def host(
    name: str,
    cards: int = 2,
    used: Mapping[int, tuple[int, int, int]] | None = None,
    links: Mapping[tuple[int, int], int] | None = None,
    memory_mib: int = CARD_MIB,
    model: str = "NVIDIA A100",
    numa: Sequence[int] = (),
) -> HostUse:
    """Cards all alike; `used` (slots, MiB, cores) and `links` by number of the card."""
    made = tuple(
        Card(
            f"{name}-{n}",
            "NVIDIA",
            model,
            memory_mib,
            index=n,
            numa=numa[n] if numa else 0,
        )
        for n in range(cards)
    )
    pairs = {
        pair: score
        for (a, b), score in (links or {}).items()
        for pair in ((f"{name}-{a}", f"{name}-{b}"), (f"{name}-{b}", f"{name}-{a}"))
    }
    uses = {f"{name}-{n}": CardUse(Amount(*amount)) for n, amount in (used or {}).items()}
    return HostUse(Host(name, made, pairs), uses)


def shape(
    cards: int = 1, mib: int = 0, cores: int = 0, cpu: int = 1000, wishes: Wishes | None = None
) -> Shape:
    """A pod with one container; without memory it asks for all of a card, 0 cards for none."""
    asked = (CardWants("NVIDIA", cards, mib, 0 if mib else 100, cores),) if cards else ()
    wants = PodWants((ContainerWants("main", cards=asked),), wishes or Wishes())
    return Shape(wants, (("cpu", cpu),))


def fleet(
    *uses: HostUse, name: str = "default", mix: Mix | None = None, cpu: int = 64_000
) -> Fleet:
    """Hosts with so much CPU each."""
    made = Fleet(strategy(name, mix or Mix()))
    for use in uses:
        made.put(use.host.name, use, Room({"cpu": cpu}))
    return made


def placed(fleet: Fleet, wanted: Shape) -> Placement:
    """Where it goes; fails if nowhere."""
    place = fleet.place(wanted)
    assert isinstance(place, Placement), str(place)
    return place


def cards_of(place: Placement) -> list[str]:
    """The cards of all containers."""
    return [grant.uuid for grants in place.allocation for grant in grants]
