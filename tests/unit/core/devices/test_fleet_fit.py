"""A fleet places a pod on a host just when the exact search does, and as legally."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.devices.cards import (
    INSTANCE,
    MIG,
    SLICE,
    WHOLE,
    Amount,
    Card,
    CardUse,
    Host,
    HostUse,
    MigProfile,
    Slice,
)
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.named import STRATEGIES, strategy
from federation.core.devices.fleet.types import Placement, Room, Shape
from federation.core.devices.host.fit import find
from federation.core.devices.host.legality import check
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Role, Wishes
from tests.unit.core.devices.hosts import A30_PROFILES

ROOM = Room({"cpu": 8000, "pods": 10})
INSTANCE_PROFILE = (MigProfile("1g.6gb", 5952, 25, 1, ()),)


def rarely(seldom: Any, *often: Any) -> st.SearchStrategy[Any]:
    """The first value once in ten times."""
    return st.integers(0, 9).flatmap(lambda n: st.sampled_from(often) if n else st.just(seldom))


@st.composite
def cards(draw: st.DrawFn, number: int) -> tuple[Card, CardUse]:
    """A card of any kind and what is used of it, within its size."""
    plain = Card(
        f"GPU-{number}",
        draw(rarely("DCU", "NVIDIA")),
        draw(st.sampled_from(["NVIDIA A30", "NVIDIA A100", "NVIDIA A10"])),
        draw(st.sampled_from([10, 20, 20, 0])),
        draw(rarely(200, 100)),
        draw(st.integers(1, 3)),
        index=number,
        numa=draw(st.integers(0, 1)),
        healthy=draw(rarely(False, True)),
        cordoned=draw(rarely(True, False)),
        sizes=draw(rarely((5, 10), ())),
    )
    mode = draw(st.sampled_from(["", "", "", "", "", WHOLE, SLICE, MIG, INSTANCE]))
    if mode == MIG:
        card = replace(plain, memory_mib=24576, slots=4, cores=100, mode=MIG, sizes=())
        card = replace(card, profiles=A30_PROFILES)
        slices = tuple(Slice("1g.6gb", start, 1) for start in range(4) if draw(st.booleans()))
        count = len(slices)
        return card, CardUse(Amount(count, 5952 * count, 25 * count), slices)
    if mode == INSTANCE:
        return replace(plain, mode=mode, slots=1, memory_mib=5952, profiles=INSTANCE_PROFILE), (
            CardUse()
        )
    card = replace(plain, mode=mode, sizes=(), slots=1) if mode else plain
    if draw(st.integers(0, 2)):
        return card, CardUse(closed=draw(rarely(True, False)))
    amount = Amount(
        draw(st.integers(1, card.slots)),
        draw(st.integers(0, card.memory_mib)),
        draw(rarely(card.cores, 0, 30)),
    )
    return card, CardUse(amount, fence=draw(rarely("odd", "")))


@st.composite
def uses(draw: st.DrawFn) -> HostUse:
    made = [draw(cards(number)) for number in range(draw(st.integers(1, 4)))]
    host = Host("n", tuple(card for card, _ in made))
    held = {card.uuid: use for card, use in made}
    return HostUse(host, held, draw(rarely("lost", "")))


ASKS = st.builds(
    CardWants,
    rarely("DCU", "NVIDIA"),
    st.sampled_from([1, 1, 1, 2, 2, 3]),
    rarely(6000, 0, 1, 5),
    st.sampled_from([4, 50, 50, 100]),
    st.sampled_from([0, 0, 0, 30, 70, 100]),
    rarely("1g.6gb", ""),
)
WISHES = st.just(Wishes()) | st.builds(
    Wishes,
    use_models=rarely(("a10",), (), ("A30", "A100")),
    avoid_models=rarely(("A100",), ()),
    use_uuids=rarely(frozenset({"GPU-0", "GPU-2"}), None),
    modes=rarely(("mig",), (), ("hami-core",)),
    numa_bind=rarely(True, False),
    node_policy=st.sampled_from(["", "", "binpack", "spread"]),
    policy=rarely(("mutex",), (), ("binpack",), ("topology-aware",)),
)


@st.composite
def pods(draw: st.DrawFn) -> PodWants:
    roles = [Role.APP, *draw(st.lists(st.sampled_from([Role.INIT, Role.APP]), max_size=2))]
    containers = []
    for number, role in enumerate(sorted(roles, key=lambda role: role is Role.APP)):
        asked = (draw(ASKS),) if number == 0 or draw(st.integers(0, 3)) == 0 else ()
        containers.append(ContainerWants(f"c{number}", role, asked))
    return PodWants(tuple(containers), draw(WISHES))


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=60, deadline=None)
@given(use=uses(), wants=pods())
def test_it_fits_just_when_the_exact_search_says_so(
    name: str, use: HostUse, wants: PodWants
) -> None:
    shape = Shape(wants, (("cpu", 1000),))
    fleet = Fleet(strategy(name, Mix.of([shape])))
    fleet.put("n", use, ROOM)

    place, found = fleet.place(shape), find(use, wants)

    assert isinstance(place, Placement) != isinstance(found, Misfit)
    if isinstance(place, Placement):
        assert check(use, wants, place.allocation) == ""


@settings(max_examples=100, deadline=None)
@given(use=uses(), wants=pods())
def test_what_is_taken_can_be_given_back(use: HostUse, wants: PodWants) -> None:
    shape = Shape(wants, (("cpu", 1000), ("pods", 1)))
    fleet = Fleet(strategy("default", Mix.of([shape])))
    fleet.put("n", use, ROOM)
    before = fleet.place(shape)
    if not isinstance(before, Placement):
        return

    fleet.take(before)
    fleet.give_back(before)

    now = fleet.use("n")
    assert now is not None
    assert {c.uuid: now.use(c.uuid) for c in use.host.cards} == {
        c.uuid: use.use(c.uuid) for c in use.host.cards
    }
    assert fleet.place(shape) == before
