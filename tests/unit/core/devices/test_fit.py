"""The rules of one host, one by one: HAMi's behaviour, and where it is knowingly another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.devices.cards import (
    INSTANCE,
    WHOLE,
    Amount,
    Card,
    CardUse,
    Grant,
    Host,
    HostUse,
    MigProfile,
)
from federation.core.devices.host.fit import MOST_CARDS, find
from federation.core.devices.host.legality import check
from federation.core.devices.host.misfit import Code, Misfit
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Role
from tests.unit.core.devices.hosts import ask, card, cards_of, host, placed, pod, refused, used

INIT, SIDECAR, APP = Role.INIT, Role.SIDECAR, Role.APP


ONE_CARD = [
    ("idle", (0, 0, 0), {}, ask(1, 4000), ""),
    ("just enough memory", (1, 30000, 0), {}, ask(1, 10960), ""),
    ("one MiB short", (1, 30000, 0), {}, ask(1, 10961), Code.MEMORY),
    ("the last slot", (9, 0, 0), {}, ask(1, 1), ""),
    ("no slot left", (10, 0, 0), {}, ask(1, 1), Code.SLOTS),
    ("just enough compute", (1, 0, 70), {}, ask(1, 1, cores=30), ""),
    ("short of compute", (1, 0, 71), {}, ask(1, 1, cores=30), Code.CORES),
    ("no compute asked, some left", (1, 0, 99), {}, ask(1, 1), ""),
    ("no compute asked, none left", (1, 0, 100), {}, ask(1, 1), Code.NO_CORES_LEFT),
    ("compute asked, none left", (1, 0, 100), {}, ask(1, 1, cores=1), Code.CORES),
    ("a card of its own, idle", (0, 0, 0), {}, ask(1, 1, cores=100), ""),
    ("a card of its own, shared", (1, 0, 0), {}, ask(1, 1, cores=100), Code.EXCLUSIVE),
    ("all compute of a scaled card twice", (1, 0, 100), {"cores": 200}, ask(1, 1, cores=100), ""),
    ("scaled down below what is asked", (0, 0, 0), {"cores": 50}, ask(1, 1, cores=60), Code.CORES),
    ("half, rounded down", (1, 20480, 0), {}, ask(1, percent=50), ""),
    ("a bit more than a third", (2, 27852, 0), {}, ask(1, percent=34), Code.MEMORY),
    ("a bit less than a third", (2, 27032, 0), {}, ask(1, percent=33), ""),
    ("rounded down to nothing", (0, 0, 0), {"memory_mib": 50}, ask(1, percent=1), Code.MEMORY),
    ("more used than there is", (1, 50000, 0), {}, ask(1, 1), Code.MEMORY),
    ("unhealthy", (0, 0, 0), {"healthy": False}, ask(1, 1), Code.UNHEALTHY),
    ("cordoned", (0, 0, 0), {"cordoned": True}, ask(1, 1), Code.CORDONED),
    ("a MIG profile of a shared card", (0, 0, 0), {}, ask(1, profile="1g.5gb"), Code.MODE),
]


@pytest.mark.parametrize(
    ("amount", "given", "asked", "code"),
    [case[1:] for case in ONE_CARD],
    ids=[case[0] for case in ONE_CARD],
)
def test_one_card(amount: Any, given: Any, asked: CardWants, code: str) -> None:
    use = used(host(card(**given)), {0: amount})
    if code:
        assert refused(use, pod(asked)) == {code: 1}
    else:
        assert check(use, pod(asked), placed(use, pod(asked))) == ""


WISHES: list[tuple[str, dict[str, Any], str]] = [
    ("model", {"use_models": ("A100",)}, ""),
    ("one of two models", {"use_models": ("t4", "a100")}, ""),
    ("another model", {"use_models": ("H100",)}, Code.MODEL),
    ("not this model", {"avoid_models": ("a100",)}, Code.MODEL),
    ("avoided wins", {"use_models": ("A100",), "avoid_models": ("NVIDIA",)}, Code.MODEL),
    ("the card", {"use_uuids": frozenset({"GPU-0", "GPU-absent"})}, ""),
    ("another card", {"use_uuids": frozenset({"GPU-absent"})}, Code.UUID),
    ("not the card", {"avoid_uuids": frozenset({"GPU-0"})}, Code.UUID),
    ("not, over the card", {"use_uuids": {"GPU-0"}, "avoid_uuids": {"GPU-0"}}, Code.UUID),
    ("mode", {"modes": ("hami-core",)}, ""),
    ("other mode", {"modes": ("mig",)}, Code.MODE),
]


@pytest.mark.parametrize(
    ("wishes", "code"), [case[1:] for case in WISHES], ids=[case[0] for case in WISHES]
)
def test_wishes(wishes: dict[str, Any], code: str) -> None:
    use, wants = used(host(card())), pod(ask(1, 4000), **wishes)
    if code:
        assert refused(use, wants) == {code: 1}
    else:
        assert check(use, wants, placed(use, wants)) == ""


def test_exclusive_is_asked_at_arrival_and_kept_by_what_is_left() -> None:
    held = used(host(card()), {0: (1, 4000, 100)})
    assert refused(held, pod(ask(1, 1, cores=10))) == {Code.CORES: 1}
    assert refused(held, pod(ask(1, 1))) == {Code.NO_CORES_LEFT: 1}


def test_a_card_whose_holder_wants_it_alone_is_closed() -> None:
    use = used(host(card()), c0=CardUse(closed=True))
    assert refused(use, pod(ask(1, 1))) == {Code.EXCLUSIVE: 1}


def test_mutex_wants_idle_cards_for_each_container() -> None:
    use = used(host(card(0), card(1), card(2)), {0: (1, 1, 0)})
    assert cards_of(placed(use, pod(ask(1, 1), ask(1, 1), policy=("mutex",)))) == [["1"], ["2"]]
    assert refused(use, pod(*[ask(1, 1)] * 3, policy=("mutex",)))


def test_fences() -> None:
    at = host(card(0), card(1))
    one = HostUse(at, {"GPU-0": CardUse(fence="an annotation cannot be read")})
    assert cards_of(placed(one, pod(ask(1, 1)))) == [["1"]]
    assert refused(one, pod(ask(2, 1))) == {Code.FENCED: 1, Code.TOO_FEW: 1}
    whole = HostUse(at, {}, fence="an annotation cannot be read")
    found = find(whole, pod(ask(1, 1)))
    assert isinstance(found, Misfit)
    assert str(found) == "n takes nothing new: an annotation cannot be read"
    assert "cannot be read" in check(whole, pod(ask(1, 1)), placed(HostUse(at), pod(ask(1, 1))))
    assert placed(whole, pod(None)) == ((),)


def test_cards_are_different_ones() -> None:
    use = used(host(card(0), card(1)))
    assert sorted(cards_of(placed(use, pod(ask(2, 1))))[0]) == ["0", "1"]
    assert refused(use, pod(ask(3, 1))) == {Code.NO_DEVICES: 2}


def test_some_cards_are_too_few() -> None:
    use = used(host(card(0), card(1), card(2)), {0: (1, 40960, 0), 1: (10, 0, 0)})
    codes = {Code.MEMORY: 1, Code.SLOTS: 1, Code.TOO_FEW: 1}
    assert refused(use, pod(ask(2, 1))) == codes


def test_a_vendor_has_its_own_cards() -> None:
    use = used(host(replace(card(), vendor="DCU")))
    assert refused(use, pod(ask(1, 1))) == {Code.NO_DEVICES: 0}


def test_a_share_is_of_the_card_that_is_chosen() -> None:
    small, large = card(0, memory_mib=24564), card(1)
    (grants,) = placed(used(host(small, large)), pod(ask(2, percent=50)))
    assert {grant.uuid: grant.memory_mib for grant in grants} == {"GPU-0": 12282, "GPU-1": 20480}


NUMA = [
    ("one node has two", [0, 1, 1], [["1", "2"]]),
    ("each has one", [0, 1], None),
    ("the first node has two", [1, 1, 0], [["0", "1"]]),
]


@pytest.mark.parametrize(("nodes", "cards"), [c[1:] for c in NUMA], ids=[c[0] for c in NUMA])
@pytest.mark.parametrize("policy", [(), ("topology-aware",), ("binpack", "numa")])
def test_cards_of_one_numa_node(nodes: list[int], cards: Any, policy: tuple[str, ...]) -> None:
    use = used(host(*(card(number, numa=node) for number, node in enumerate(nodes))))
    wants = pod(ask(2, 1), numa_bind=True, policy=policy)
    if cards is None:
        assert refused(use, wants) == {Code.NUMA: 2}
    else:
        assert sorted(cards_of(placed(use, wants))[0]) == cards[0]


def test_containers_add_up_and_init_containers_do_not() -> None:
    use = used(host(card(memory_mib=24000)))
    assert refused(use, pod(ask(1, 12001), ask(1, 12000))) == {Code.MEMORY: 1}
    placed(use, pod((INIT, ask(1, 20000)), (INIT, ask(1, 24000)), ask(1, 12000), ask(1, 12000)))
    assert refused(use, pod((INIT, ask(1, 24001)), ask(1, 1))) == {Code.MEMORY: 1}


def test_a_sidecar_adds_to_later_init_containers_and_to_apps() -> None:
    use = used(host(card(memory_mib=24576)))
    init, side, app = (INIT, ask(1, 20480)), (SIDECAR, ask(1, 4096)), ask(1, 10240)
    placed(use, pod(side, init, app))
    placed(use, pod((INIT, ask(1, 24576)), side, app))
    assert refused(use, pod(side, (INIT, ask(1, 20481)), app)) == {Code.MEMORY: 1}
    assert refused(use, pod(side, side, ask(1, 16385))) == {Code.MEMORY: 1}


def test_a_slot_for_each_container() -> None:
    use = used(host(card(slots=2)))
    placed(use, pod(ask(1, 1), ask(1, 1)))
    assert refused(use, pod(ask(1, 1), ask(1, 1), ask(1, 1))) == {Code.SLOTS: 1}


def test_a_container_in_front_leaves_the_card_that_another_needs() -> None:
    use = used(host(card(0), card(1)), {1: (1, 20480, 0)})
    assert cards_of(placed(use, pod(ask(1, 4000), ask(1, cores=100)))) == [["1"], ["0"]]
    idle = used(host(card(0), card(1)))
    spread = pod(ask(1, 4000), ask(1, 4000), ask(1, cores=100), policy=("spread",))
    assert cards_of(placed(idle, spread)) == [["0"], ["0"], ["1"]]


def test_a_sidecar_leaves_room_for_an_init_container() -> None:
    use = used(host(card(0, memory_mib=10), card(1, memory_mib=20)), {0: (1, 1, 0)})
    wants = pod((SIDECAR, ask(1, 5)), (INIT, ask(1, 16)), policy=("spread",))
    assert cards_of(placed(use, wants)) == [["0"], ["1"]]


def test_init_containers_use_the_cards_of_the_apps() -> None:
    use = used(host(*(card(number) for number in range(4))), {0: (1, 30000, 0)})
    wants = pod((INIT, ask(2, 8000)), (INIT, ask(1, 20000)), ask(2, 20000), policy=("spread",))
    first, second, apps = cards_of(placed(use, wants))
    assert set(first) == set(apps)
    assert set(second) < set(apps)


def test_init_containers_share_what_they_need_beyond_the_apps() -> None:
    use = used(host(*(card(number) for number in range(4))))
    wants = pod((INIT, ask(2, 8000)), (INIT, ask(2, 9000)), ask(1, 100))
    first, second, apps = cards_of(placed(use, wants))
    assert set(first) == set(second) > set(apps)


def test_vendors_beside_each_other() -> None:
    dcu = Card("DCU-0", "DCU", "K100-AI", 65520, slots=4)
    asked = ContainerWants("c", APP, (ask(1, 1000), CardWants("DCU", 1, 2000)))
    use, wants = HostUse(Host("n", (card(), dcu))), PodWants((asked,))
    (grants,) = placed(use, wants)
    assert [(grant.vendor, grant.memory_mib) for grant in grants] == [
        ("NVIDIA", 1000),
        ("DCU", 2000),
    ]
    assert check(use, wants, (tuple(reversed(grants)),)) == ""
    assert "1 are asked for" in check(use, wants, (grants[:1],))


def test_whole_cards_and_instances_of_a_device_plugin() -> None:
    whole = card(0, mode=WHOLE, slots=1)
    profile = MigProfile("1g.5gb", 4864, 14, 1, ())
    instance = card(1, mode=INSTANCE, slots=1, memory_mib=4864, cores=14, profiles=(profile,))
    use = used(host(whole, instance))
    assert cards_of(placed(use, pod(ask(1)))) == [["0"]]
    assert refused(use, pod(ask(1, 4000))) == {Code.MODE: 2}
    ((grant,),) = placed(use, pod(ask(1, profile="1g.5gb")))
    assert (grant.uuid, grant.memory_mib, grant.cores, grant.slice) == ("GPU-1", 4864, 14, None)
    taken = used(host(whole, instance), {1: (1, 4864, 14)})
    assert refused(taken, pod(ask(1, profile="1g.5gb"))) == {Code.MODE: 1, Code.SLOTS: 1}


def test_sizes_that_a_card_is_cut_to() -> None:
    use = used(host(card(memory_mib=65536, sizes=(16384, 32768, 65536))))
    ((grant,),) = placed(use, pod(ask(1, 20000)))
    assert grant.memory_mib == 32768
    half_full = used(use.host, {0: (1, 32769, 0)})
    assert refused(half_full, pod(ask(1, 20000))) == {Code.MEMORY: 1}


def test_shares_of_one_size_where_the_vendor_wants_that() -> None:
    xpu = Card("X-0", "XPU", "P800-OAM", 98304, sizes=(24576, 49152, 98304))
    use = HostUse(Host("n", (xpu,)), {"X-0": CardUse(Amount(1, 24576, 0))})
    one = ContainerWants("c", APP, (CardWants("XPU", 1, 20000),))
    two = ContainerWants("c", APP, (CardWants("XPU", 1, 40000),))
    placed(use, PodWants((one,)))
    assert refused(use, PodWants((two,))) == {Code.SIZE: 1}


@pytest.mark.parametrize(
    ("links", "policy", "count", "cards"),
    [
        ("pairs", ("topology-aware",), 2, ["2", "3"]),
        ("pairs", (), 2, ["2", "3"]),
        ("pairs", ("topology-aware",), 1, ["0"]),
        ("pairs", ("topology-aware",), 4, ["0", "1", "2", "3"]),
        ("none", ("topology-aware",), 2, ["0", "1"]),
    ],
)
def test_connected_cards(links: str, policy: Any, count: int, cards: list[str]) -> None:
    """Cards 2 and 3 have NVLink; card 0 is connected worst."""
    scores = {frozenset({2, 3}): 600, frozenset({0, 1}): 10}
    pairs = {
        (f"GPU-{a}", f"GPU-{b}"): scores.get(frozenset({a, b}), 20)
        for a in range(4)
        for b in range(4)
        if a != b
    }
    pairs = pairs if links == "pairs" else {}
    use = used(host(*(card(number) for number in range(4)), links=pairs))
    assert sorted(cards_of(placed(use, pod(ask(count, 4000), policy=policy)))[0]) == cards


def test_connected_cards_among_many() -> None:
    """More sets than are compared one by one: the island of eight is found all the same."""
    island = {1, 2, 4, 7, 8, 11, 13, 14}
    pairs = {
        (f"GPU-{a}", f"GPU-{b}"): 600 if {a, b} <= island else 10
        for a in range(16)
        for b in range(16)
        if a != b
    }
    use = used(host(*(card(number) for number in range(16)), links=pairs))
    (chosen,) = cards_of(placed(use, pod(ask(8, 4000))))
    assert {int(number) for number in chosen} == island


def test_without_scores_cards_of_one_numa_node_are_preferred() -> None:
    nodes = [0, 1, 0, 1, 1, 0]
    use = used(
        host(*(card(number, numa=node) for number, node in enumerate(nodes))), {0: (1, 1, 0)}
    )
    (chosen,) = cards_of(placed(use, pod(ask(2, 40960))))
    assert chosen == ["2", "5"]


def test_the_tightest_used_card_by_default() -> None:
    use = used(host(*(card(number) for number in range(4))), {1: (1, 8000, 0), 2: (1, 30000, 0)})
    assert cards_of(placed(use, pod(ask(1, 4000)))) == [["2"]]
    assert cards_of(placed(use, pod(ask(1, 20000)))) == [["1"]]
    assert cards_of(placed(use, pod(ask(1, 40000)))) == [["0"]]


def test_the_smallest_card_that_does() -> None:
    use = used(host(card(0), card(1, memory_mib=24564)))
    assert cards_of(placed(use, pod(ask(1, 20000)))) == [["1"]]


def test_a_long_way_is_not_gone_and_that_is_said() -> None:
    taken = {n: (1, mib, 0) for n, mib in enumerate((183, 120, 138, 140, 121))}
    use = used(host(*(card(n, memory_mib=1000 + 7 * n) for n in range(5))), taken)
    sizes = (351, 413, 470, 288, 309, 412, 288, 472, 383, 349, 439)
    found = find(use, pod(*(ask(1, mib) for mib in sizes)), budget=300)
    assert isinstance(found, Misfit)
    assert found.given_up
    assert "within the limit of the search" in str(found)


def test_largest_first_when_the_order_of_containers_is_a_long_way() -> None:
    """In their own order this takes more than a hundred times as long."""
    use = used(host(*(card(n, memory_mib=100) for n in range(6))), {n: (1, n, 0) for n in range(6)})
    wants = pod(*(ask(1, 19) for _ in range(6)), *(ask(1, 75 - n) for n in range(6)))
    assert isinstance(find(use, wants, budget=20), tuple)
    assert check(use, wants, placed(use, wants)) == ""


@pytest.mark.parametrize("asked", [ask(MOST_CARDS + 1, 1), ask(2**31 - 1, 1)])
def test_more_cards_than_there_are(asked: CardWants) -> None:
    assert refused(used(host(card(slots=200))), pod(asked)) == {Code.NO_DEVICES: 1}


def test_very_many_containers() -> None:
    use = used(host(*(card(number, slots=100) for number in range(4))))
    placed(use, pod(*[ask(1, 10)] * MOST_CARDS))
    assert refused(use, pod(*[ask(1, 10)] * (MOST_CARDS + 1))) == {Code.SEARCH: 1}


MISFITS = [
    (
        pod(ask(1, 10961)),
        "n: container c0 asks for 1 card with 10961 MiB: 1 of 2 cards short of memory; "
        "1 of 2 cards unhealthy (largest free slice 10960 MiB on GPU-0)",
    ),
    (
        pod(ask(1, 6000), ask(1, 6000, cores=20)),
        "n: container c1 asks for 1 card with 6000 MiB and 20% of compute beside the other "
        "containers: 1 of 2 cards short of memory; 1 of 2 cards unhealthy "
        "(largest free slice 4960 MiB on GPU-0)",
    ),
    (
        pod(ask(3, percent=50)),
        "n has 2 cards of this kind, container c0 asks for 3 cards with 50% of the memory",
    ),
]


@pytest.mark.parametrize(("wants", "sentence"), MISFITS)
def test_the_sentence(wants: PodWants, sentence: str) -> None:
    use = used(host(card(0), card(1, healthy=False)), {0: (1, 30000, 0)})
    assert str(find(use, wants)) == sentence


ILLEGAL: list[tuple[str, PodWants, Any, str]] = [
    ("card twice", pod(ask(2, 1)), [[(0, 1, 0), (0, 1, 0)]], "given twice"),
    ("too few", pod(ask(2, 1)), [[(0, 1, 0)]], "1 cards are given, 2 are asked for"),
    ("too many", pod(ask(1, 1)), [[(0, 1, 0), (1, 1, 0)]], "2 cards are given"),
    ("less memory", pod(ask(1, 5)), [[(0, 4, 0)]], "4 MiB and 0% are given, 5 MiB and 0%"),
    ("other compute", pod(ask(1, 5, cores=7)), [[(0, 5, 0)]], "5 MiB and 7%"),
    ("no such card", pod(ask(1, 5)), [[(9, 5, 0)]], "there is no card GPU-9"),
    ("containers missing", pod(ask(1, 5), ask(1, 5)), [[(0, 5, 0)]], "the pod has 2"),
    ("none asked", pod(None, ask(1, 5)), [[(0, 5, 0)], [(0, 5, 0)]], "beyond what it asks for"),
    ("several nodes", pod(ask(2, 1), numa_bind=True), [[(0, 1, 0), (1, 1, 0)]], "NUMA"),
    ("together too much", pod(ask(1, 30000), ask(1, 30000)), [[(0, 30000, 0)]] * 2, Code.MEMORY),
]


@pytest.mark.parametrize(
    ("wants", "rows", "why"), [case[1:] for case in ILLEGAL], ids=[case[0] for case in ILLEGAL]
)
def test_what_others_chose_is_refused(wants: PodWants, rows: Any, why: str) -> None:
    allocation = tuple(
        tuple(Grant(f"GPU-{number}", "NVIDIA", mib, cores) for number, mib, cores in row)
        for row in rows
    )
    assert why in check(used(host(card(0), card(1, numa=1))), wants, allocation)
