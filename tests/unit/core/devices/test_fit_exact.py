"""`find` against all placements there are: it places a pod just when one is legal, and `check`
agrees with rules that are written down here once more, plainly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.devices.cards import (
    MIG,
    Allocation,
    Amount,
    Card,
    CardUse,
    Grant,
    Host,
    HostUse,
    Slice,
)
from federation.core.devices.host.card_order import TIGHTEST, CardOrder, order_of
from federation.core.devices.host.fit import find
from federation.core.devices.host.legality import check
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Role, Wishes
from tests.unit.core.devices.hosts import A30_PROFILES

ONES = tuple(Slice("1g.6gb", start, 1) for start in range(4))


@st.composite
def hosts(draw: st.DrawFn) -> HostUse:
    cards: list[Card] = []
    uses: dict[str, CardUse] = {}
    for number in range(draw(st.integers(1, 3))):
        is_mig = draw(st.integers(0, 3)) == 0
        shared = Card(
            f"GPU-{number}",
            "NVIDIA",
            "NVIDIA A30",
            24576 if is_mig else draw(st.sampled_from([10, 20])),
            slots=4 if is_mig else draw(st.integers(1, 3)),
            index=number,
            numa=draw(st.integers(0, 1)),
        )
        cards.append(replace(shared, mode=MIG, profiles=A30_PROFILES) if is_mig else shared)
        if is_mig:
            slices = tuple(one for one in ONES if draw(st.booleans()))
            amount = Amount(len(slices), 5952 * len(slices), 25 * len(slices))
            uses[f"GPU-{number}"] = CardUse(amount, slices)
        elif draw(st.booleans()):
            amount = Amount(
                draw(st.integers(1, 2)), draw(st.integers(0, 12)), draw(st.sampled_from([0, 50]))
            )
            uses[f"GPU-{number}"] = CardUse(amount)
    return HostUse(Host("n", tuple(cards)), uses)


ASKS = st.builds(
    lambda cards, memory, cores: CardWants("NVIDIA", cards, memory, 0 if memory else 100, cores),
    st.integers(1, 2),
    st.sampled_from([0, 4, 5, 9, 11, 6000]),
    st.sampled_from([0, 0, 30, 50, 100]),
)
CONTAINERS = st.lists(
    st.tuples(st.sampled_from([Role.INIT, Role.SIDECAR, Role.APP, Role.APP]), ASKS),
    min_size=1,
    max_size=3,
)
WISHES = st.builds(
    Wishes,
    numa_bind=st.booleans(),
    policy=st.sampled_from(
        [(), (), ("binpack",), ("spread", "numa"), ("mutex",), ("topology-aware",)]
    ),
)


@st.composite
def pods(draw: st.DrawFn) -> PodWants:
    drawn = draw(CONTAINERS)
    drawn.sort(key=lambda pair: pair[0] is Role.APP)
    containers = tuple(
        ContainerWants(f"c{number}", role, (asked,)) for number, (role, asked) in enumerate(drawn)
    )
    return PodWants(containers, draw(WISHES))


@dataclass
class Held:
    """What is used of one card."""

    slots: int
    memory: int
    cores: int
    places: tuple[Slice, ...]


def start(use: HostUse) -> dict[str, Held]:
    return {
        card.uuid: Held(*use.use(card.uuid).amount, use.use(card.uuid).slices)
        for card in use.host.cards
    }


def after(held: dict[str, Held], grants: tuple[Grant, ...]) -> dict[str, Held]:
    new = dict(held)
    for grant in grants:
        old = new[grant.uuid]
        places = (*old.places, grant.slice) if grant.slice else old.places
        memory, cores = old.memory + grant.memory_mib, old.cores + grant.cores
        new[grant.uuid] = Held(old.slots + 1, memory, cores, places)
    return new


def options(card: Card, asked: CardWants) -> list[Grant]:
    """Every grant of this card that would hold what is asked, were the card idle."""
    need = asked.memory_mib or card.memory_mib * asked.percent // 100
    if card.mode != MIG:
        return [Grant(card.uuid, "NVIDIA", need, asked.cores)]
    if not asked.memory_mib and asked.percent == 100:
        need = 24320
    return [
        Grant(card.uuid, "NVIDIA", profile.memory_mib, profile.cores, Slice(profile.name, *place))
        for profile in card.profiles
        if profile.memory_mib >= need
        for place in profile.placements
    ]


def allowed(card: Card, held: Held, grant: Grant, asked: CardWants, mutex: bool) -> bool:
    if held.slots >= card.slots or (mutex and held.slots):
        return False
    if asked.cores == 100 and held.slots:
        return False
    need = asked.memory_mib or grant.memory_mib
    if held.memory + need > card.memory_mib:
        return False
    if grant.slice is None:
        free = card.cores - held.cores
        return free >= asked.cores if asked.cores else free > 0
    mine = set(range(grant.slice.start, grant.slice.start + grant.slice.size))
    return not any(mine & set(range(p.start, p.start + p.size)) for p in held.places)


def ways(
    use: HostUse, held: dict[str, Held], asked: CardWants, wishes: Wishes
) -> Iterator[tuple[Grant, ...]]:
    """All legal sets of grants of one container."""
    everything = [grant for card in use.host.cards for grant in options(card, asked)]
    cards = {card.uuid: card for card in use.host.cards}
    for chosen in combinations(everything, asked.cards):
        shared = [grant.uuid for grant in chosen if grant.slice is None]
        if len(set(shared)) < len(shared):
            continue
        if wishes.numa_bind and len({cards[grant.uuid].numa for grant in chosen}) > 1:
            continue
        now = held
        for grant in chosen:
            if not allowed(cards[grant.uuid], now[grant.uuid], grant, asked, wishes.mutex):
                break
            now = after(now, (grant,))
        else:
            yield chosen


def possible(use: HostUse, wants: PodWants, held: dict[str, Held], number: int = 0) -> bool:
    if number == len(wants.containers):
        return True
    container = wants.containers[number]
    for chosen in ways(use, held, container.cards[0], wants.wishes):
        then = after(held, chosen)
        if container.role is Role.INIT:
            then = {uuid: replace(was, places=then[uuid].places) for uuid, was in held.items()}
        if possible(use, wants, then, number + 1):
            return True
    return False


@settings(max_examples=400, deadline=None)
@given(hosts(), pods())
def test_a_pod_is_placed_just_when_a_placement_is_legal(use: HostUse, wants: PodWants) -> None:
    found = find(use, wants)
    if isinstance(found, Misfit):
        assert not found.given_up
        assert not possible(use, wants, start(use))
        assert str(found)
    else:
        assert legal(use, wants, found)
        assert check(use, wants, found) == ""


def legal(use: HostUse, wants: PodWants, allocation: Allocation) -> bool:
    held = start(use)
    for container, grants in zip(wants.containers, allocation, strict=True):
        known = {frozenset(way) for way in ways(use, held, container.cards[0], wants.wishes)}
        if frozenset(grants) not in known:
            return False
        then = after(held, grants)
        if container.role is Role.INIT:
            then = {uuid: replace(was, places=then[uuid].places) for uuid, was in held.items()}
        held = then
    return True


@settings(max_examples=200, deadline=None)
@given(hosts(), pods(), st.data())
def test_what_others_chose_is_checked_by_the_same_rules(
    use: HostUse, wants: PodWants, data: st.DataObject
) -> None:
    rows = []
    for container in wants.containers:
        asked = container.cards[0]
        every = [grant for card in use.host.cards for grant in options(card, asked)]
        row = data.draw(st.lists(st.sampled_from(every), min_size=0, max_size=2), label="grants")
        rows.append(tuple(row))
    allocation = tuple(rows)
    assert (check(use, wants, allocation) == "") == legal_in_order(use, wants, allocation)


def legal_in_order(use: HostUse, wants: PodWants, allocation: Allocation) -> bool:
    """As `legal`, the grants of a container taken in the order in which they stand."""
    cards = {card.uuid: card for card in use.host.cards}
    held = start(use)
    for container, grants in zip(wants.containers, allocation, strict=True):
        asked, then = container.cards[0], held
        shared = [grant.uuid for grant in grants if grant.slice is None]
        if len(grants) != asked.cards or len(set(shared)) < len(shared):
            return False
        if wants.wishes.numa_bind and len({cards[g.uuid].numa for g in grants}) > 1:
            return False
        for grant in grants:
            if not allowed(cards[grant.uuid], then[grant.uuid], grant, asked, wants.wishes.mutex):
                return False
            then = after(then, (grant,))
        if container.role is Role.INIT:
            then = {uuid: replace(was, places=then[uuid].places) for uuid, was in held.items()}
        held = then
    return True


def spread_key(card: Card, slots: int, mib: int, *_: int) -> object:
    return slots, mib


@given(
    hosts(), pods(), st.sampled_from([TIGHTEST, CardOrder(spread_key), CardOrder(spread_key, True)])
)
def test_an_order_changes_the_choice_and_never_the_verdict(
    use: HostUse, wants: PodWants, order: CardOrder
) -> None:
    assert isinstance(find(use, wants, order), Misfit) == isinstance(find(use, wants), Misfit)


@given(WISHES)
def test_annotations_win_over_the_default_order(wishes: Wishes) -> None:
    assert (order_of(wishes) is TIGHTEST) == (wishes.policy == ())


def test_the_rules_written_here_do_decide() -> None:
    """The oracle itself: of 2 x 2 simple cases it allows some and not others."""
    at = Host("n", (Card("GPU-0", "NVIDIA", "NVIDIA A30", 10),))
    verdicts = [
        possible(
            HostUse(at, {"GPU-0": CardUse(Amount(1, taken, 0))}),
            PodWants((ContainerWants("c", Role.APP, (CardWants("NVIDIA", 1, asked),)),)),
            start(HostUse(at, {"GPU-0": CardUse(Amount(1, taken, 0))})),
        )
        for taken, asked in product((0, 5), (5, 6))
    ]
    assert verdicts == [True, True, True, False]
