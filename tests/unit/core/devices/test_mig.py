"""Instances on MIG cards: which profile, which place, and what is left for others."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.cards import Amount, CardUse, HostUse, MigProfile, Slice
from federation.core.devices.host.legality import check
from federation.core.devices.host.mig_table import table_of, taken
from federation.core.devices.host.misfit import Code
from federation.core.devices.wants import CardWants, Role
from tests.unit.core.devices.hosts import (
    A30_PROFILES,
    A100_PROFILES,
    ask,
    card,
    cards_of,
    host,
    mig_card,
    mig_used,
    placed,
    pod,
    refused,
    used,
)

SIZES = {"1g": 4864, "2g": 9984, "3g": 20096, "7g": 40192}


def arrive(use: HostUse, *names: str) -> HostUse | None:
    """One pod after the other; None if one finds no place."""
    for name in names:
        wants = pod(ask(1, SIZES[name]))
        from federation.core.devices.host.fit import find

        found = find(use, wants)
        if not isinstance(found, tuple):
            return None
        ((grant,),) = found
        held = use.use(grant.uuid)
        assert grant.slice is not None
        more = CardUse(
            held.amount.plus(Amount(1, grant.memory_mib, grant.cores)),
            (*held.slices, grant.slice),
        )
        use = HostUse(use.host, {**use.uses, grant.uuid: more})
    return use


def test_the_smallest_profile_that_holds_what_is_asked_and_its_amounts() -> None:
    use = used(host(mig_card()))
    for asked, profile, cores in [
        (1, "1g.5gb", 15),
        (4864, "1g.5gb", 15),
        (4865, "2g.10gb", 29),
        (9985, "3g.20gb", 43),
        (20097, "7g.40gb", 100),
    ]:
        ((grant,),) = placed(use, pod(ask(1, asked)))
        assert grant.slice is not None
        assert (grant.slice.profile, grant.cores) == (profile, cores)
        assert grant.memory_mib == SIZES[profile[:2]]
    assert refused(use, pod(ask(1, 40193))) == {Code.MIG: 1}


def test_a_percentage_is_of_the_registered_memory() -> None:
    use = used(host(mig_card()))
    ((grant,),) = placed(use, pod(ask(1, percent=24)))
    assert grant.memory_mib == 9984
    ((grant,),) = placed(use, pod(ask(1, percent=25)))
    assert grant.memory_mib == 20096, "10240 MiB are more than a 2g has"


def test_the_next_profile_if_there_is_no_place_for_the_smallest() -> None:
    ones = tuple(Slice("1g.5gb", start, 1) for start in (0, 2, 4, 6))
    profiles = (A100_PROFILES[0], MigProfile("1g.10gb", 9728, 15, 1, ((5, 1),)))
    only_small = mig_used(*(Slice("1g.5gb", start, 1) for start in (0, 1, 2, 3, 4, 6)))
    use = used(host(mig_card(profiles=profiles)), c0=only_small)
    ((grant,),) = placed(use, pod(ask(1, 4000)))
    assert grant.slice == Slice("1g.5gb", 5, 1)
    free = tuple(start for start in range(7) if taken(ones) >> start & 1 == 0)
    assert free == (1, 3, 5)
    assert refused(used(host(mig_card()), c0=mig_used(*ones)), pod(ask(1, 9000))) == {Code.MIG: 1}


@pytest.mark.parametrize(
    "names",
    [
        ("1g", "1g", "1g", "1g", "3g"),
        ("1g", "1g", "2g", "3g"),
        ("1g", "3g", "2g", "1g"),
        ("2g", "1g", "1g", "3g"),
        ("3g", "1g", "1g", "1g", "1g"),
        ("2g", "2g", "2g", "1g"),
        ("3g", "3g"),
        ("1g",) * 7,
        ("7g",),
    ],
)
def test_places_keep_room_for_what_comes_next(names: tuple[str, ...]) -> None:
    assert arrive(used(host(mig_card())), *names) is not None


def test_most_orders_of_what_fits_together_are_served() -> None:
    """Of all orders of each full card; HAMi's order of places serves fewer."""
    full = [("1g",) * 4 + ("3g",), ("1g", "1g", "2g", "3g"), ("2g", "2g", "3g"), ("3g", "3g")]
    orders = [order for names in full for order in sorted(set(permutations(names)))]
    served = sum(arrive(used(host(mig_card())), *order) is not None for order in orders)
    assert served == len(orders)


def test_four_2g_are_too_many_and_a_1g_still_fits() -> None:
    use = arrive(used(host(mig_card())), "2g", "2g", "2g")
    assert use is not None
    assert refused(use, pod(ask(1, 9000))) == {Code.MIG: 1}
    ((grant,),) = placed(use, pod(ask(1, 4000)))
    assert grant.slice == Slice("1g.5gb", 6, 1)


def test_the_cores_of_profiles_are_no_limit() -> None:
    """Seven times 15 is more than 100, and there are seven places (defect d13)."""
    use = arrive(used(host(mig_card())), *["1g"] * 6)
    assert use is not None
    placed(use, pod(ask(1, 4000, cores=15)))
    placed(use, pod(ask(1, 4000)))


def test_the_whole_card_is_its_largest_profile() -> None:
    ((grant,),) = placed(used(host(mig_card())), pod(ask(1, cores=100)))
    assert (grant.memory_mib, grant.slice) == (40192, Slice("7g.40gb", 0, 8))
    partly = arrive(used(host(mig_card())), "1g")
    assert partly is not None
    assert refused(partly, pod(ask(1, cores=100))) == {Code.EXCLUSIVE: 1}
    assert refused(partly, pod(ask(1))) == {Code.MEMORY: 1}


def test_several_instances_of_one_container_on_one_card() -> None:
    use = used(host(mig_card()))
    (grants,) = placed(use, pod(ask(2, 4000)))
    assert {grant.uuid for grant in grants} == {"GPU-0"}
    assert len({grant.slice for grant in grants}) == 2
    (grants,) = placed(use, pod(ask(7, 4000)))
    assert sorted(grant.slice.start for grant in grants if grant.slice) == list(range(7))
    assert refused(use, pod(ask(4, 9000))) == {Code.TOO_FEW: 1}
    assert refused(use, pod(ask(8, 4000))) == {Code.NO_DEVICES: 1}


def test_exclusive_and_mutex_instances_are_on_cards_of_their_own() -> None:
    use = used(host(mig_card(0), mig_card(1)))
    assert sorted(cards_of(placed(use, pod(ask(2, 4000, cores=100))))[0]) == ["0", "1"]
    wants = pod(ask(2, 4000), policy=("mutex",))
    assert sorted(cards_of(placed(use, wants))[0]) == ["0", "1"]


def test_slots_count_instances() -> None:
    use = used(host(mig_card(slots=2)))
    assert refused(use, pod(ask(1, 1), ask(1, 1), ask(1, 1))) == {Code.SLOTS: 1}


def test_a_container_with_shared_cards_and_instances() -> None:
    use = used(host(card(0), mig_card(1)))
    (grants,) = placed(use, pod(ask(8, 4000)))
    assert sorted(grant.uuid for grant in grants) == ["GPU-0", *["GPU-1"] * 7]
    assert cards_of(placed(use, pod(ask(2, 4000), modes=("mig",)))) == [["1", "1"]]
    assert cards_of(placed(use, pod(ask(1, 4000), modes=("hami-core",)))) == [["0"]]


def test_a_profile_by_name() -> None:
    use = used(host(card(0), mig_card(1)))
    ((grant,),) = placed(use, pod(ask(1, profile="3g.20gb")))
    assert (grant.uuid, grant.memory_mib, grant.cores) == ("GPU-1", 20096, 43)
    assert refused(use, pod(ask(1, profile="4g.20gb"))) == {Code.MIG: 1, Code.MODE: 1}


def test_instances_of_init_containers_are_there_with_those_of_apps() -> None:
    """Device plugins make all instances of a pod when it starts, and they stay until it ends."""
    use = used(host(mig_card()))
    wants = pod((Role.INIT, ask(1, 20000)), ask(1, 20000))
    init, app = placed(use, wants)
    assert {init[0].slice, app[0].slice} == {Slice("3g.20gb", 0, 4), Slice("3g.20gb", 4, 4)}
    wants = pod((Role.INIT, ask(1, 20000)), ask(1, 20000), ask(1, 20000))
    assert refused(use, wants) == {Code.MIG: 1}
    assert "no free place" not in check(
        use, pod((Role.INIT, ask(1, 20000)), ask(1, 20000)), (init, app)
    )
    assert check(use, pod((Role.INIT, ask(1, 20000)), ask(1, 20000)), (init, init)) != ""


def test_places_that_others_chose() -> None:
    use = used(host(mig_card()), c0=mig_used(Slice("2g.10gb", 2, 2), memory_mib=9984, cores=29))
    wants = pod(ask(1, 4000))
    ((own,),) = placed(use, wants)
    for place, why in [
        (Slice("1g.5gb", 5, 1), ""),
        (Slice("1g.5gb", 3, 1), "no free place"),
        (Slice("1g.5gb", 7, 1), "no free place"),
        (Slice("2g.10gb", 5, 2), "no free place"),
        (Slice("2g.10gb", 4, 2), "9984 MiB and 29% are asked for"),
        (None, "no free place"),
    ]:
        broken = check(use, wants, ((own._replace(slice=place),),))
        assert why in broken
        assert bool(why) == bool(broken)


@given(st.sampled_from([A30_PROFILES, A100_PROFILES]), st.integers(0, 255), st.data())
def test_moves_are_all_free_places_that_are_large_enough(
    profiles: tuple[MigProfile, ...], mask: int, data: st.DataObject
) -> None:
    need = data.draw(st.sampled_from([0, 1, 4864, 5000, 12000, 20096, 24320, 40192, 50000]))
    found = [move.slice for move in table_of(profiles).moves(mask, need)]
    wanted = {
        Slice(profile.name, start, size)
        for profile in profiles
        for start, size in profile.placements
        if profile.memory_mib >= need and all(not mask >> n & 1 for n in range(start, start + size))
    }
    assert set(found) == wanted
    assert len(found) == len(wanted)
    memory = [next(p.memory_mib for p in profiles if p.name == place.profile) for place in found]
    assert memory == sorted(memory)


@given(st.integers(0, 255), st.sampled_from([4000, 9000, 20000, 40000]))
def test_room_is_counted_exactly(mask: int, need: int) -> None:
    table = table_of(A100_PROFILES)

    def most(now: int) -> int:
        return max((1 + most(now | move.bits) for move in table.moves(now, need)), default=0)

    assert table.count(mask, need) == most(mask)


def test_a_card_with_many_slices_is_cut_from_below() -> None:
    one = MigProfile("1g", 10, 1, 1, tuple((start, 1) for start in reversed(range(16))))
    use = used(host(mig_card(profiles=(one,), memory_mib=160, slots=16)))
    ((grant,),) = placed(use, pod(ask(1, 10)))
    assert grant.slice is not None
    assert 0 <= grant.slice.start < 16


@pytest.mark.parametrize("profiles", [(), (MigProfile("1g", 10, 1, 1, ()),)])
def test_no_profiles_or_places(profiles: Any) -> None:
    use = used(host(mig_card(profiles=profiles)))
    wants: CardWants
    for wants in (ask(1, 5), ask(1), ask(1, profile="1g")):
        assert refused(use, pod(wants)) == {Code.MIG: 1}


def test_what_instances_take() -> None:
    """Slices that are told to overlap are counted once."""
    assert taken((Slice("2g", 2, 2), Slice("1g", 6, 1), Slice("1g", 3, 1))) == 0b1001100
    assert taken(()) == 0
