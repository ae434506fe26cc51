from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from federation.core.devices.cards import Amount, Card, CardUse, HostUse, Slice
from federation.core.devices.fleet.bucket_labels import BUDGET
from federation.core.devices.fleet.bucket_steps import COARSEST
from federation.core.devices.fleet.bucket_text import CardState, decode, encode, state_of
from federation.core.devices.fleet.buckets import Buckets
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.named import STRATEGIES, strategy
from federation.core.devices.fleet.types import NoPlace, Placement, Room, Shape
from federation.core.topology import HOSTNAME
from federation.core.types import Taint
from tests.unit.core.devices.fleets import host, shape
from tests.unit.core.devices.hosts import A100_PROFILES, mig_card
from tests.unit.core.devices.reports import LIMIT, buckets_of, fleet_of, sent, size
from tests.unit.core.devices.test_fleet_fit import pods, uses

ROOM = Room({"cpu": 64_000, "memory": 2**38, "pods": 110})

rooms = st.builds(
    Room,
    st.fixed_dictionaries(
        {"cpu": st.sampled_from([-5, 0, 900, 1000, 7777, 64_000]), "pods": st.integers(0, 9)}
    ),
    st.sampled_from([{}, {"zone": "a"}, {"zone": "b", HOSTNAME: "n"}]),
    st.sampled_from([(), (), (Taint("gpu", "", "NoSchedule"),)]),
    st.sampled_from([True, True, False]),
)


def several(states: int) -> list[tuple[HostUse, Room]]:
    """Hosts of eight cards, none like another."""
    rng = random.Random(7)
    made = []
    for number in range(states):
        used = {
            card: (rng.randint(1, 9), rng.randrange(1, 40960), rng.randrange(100))
            for card in range(8)
        }
        numa = [0, 0, 0, 0, 1, 1, 1, 1]
        free = {"cpu": rng.randrange(192_000), "memory": rng.randrange(2**40), "pods": 100}
        labels = {HOSTNAME: f"n{number}", "pool": f"p{number % 3}"}
        made.append((host(f"h{number}", 8, used, numa=numa), Room(free, labels)))
    return made


# What is told is what there is


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=25, deadline=None)
@given(
    hosts=st.lists(st.tuples(uses(), rooms), max_size=4),
    wants=pods(),
    selector=st.sampled_from([(), (), (("zone", "a"),)]),
)
def test_any_pod_finds_the_same_score_in_the_report(
    name: str,
    hosts: list[tuple[HostUse, Room]],
    wants: object,
    selector: tuple[tuple[str, str], ...],
) -> None:
    asked = Shape(wants, (("cpu", 1000), ("pods", 1)), selector)
    plain = replace(
        asked,
        wants=replace(
            asked.wants,
            wishes=replace(asked.wants.wishes, use_uuids=None, avoid_uuids=frozenset()),
        ),
    )
    mix = Mix.of([plain, shape(1, 4000)])
    fleet = Fleet(strategy(name, mix))
    for number, (use, room) in enumerate(hosts):
        fleet.put(f"n{number:05d}", use, room)
    reported = fleet_of(buckets_of(hosts).classes(LIMIT), strategy(name, mix))

    here, there = fleet.place(plain), reported.place([(asked, 1)])

    if isinstance(here, NoPlace):
        assert isinstance(there, NoPlace)
        assert (there.closed, there.room, there.cards) == (here.closed, here.room, here.cards)
    else:
        assert not isinstance(there, NoPlace)
        assert there[0].score == pytest.approx(here.score)


def test_links_between_cards_are_told_by_their_order() -> None:
    links = {(0, 1): 100, (2, 3): 600}
    hosts = [(host("a", 4, {0: (1, 9, 9)}, links), ROOM), (host("b", 4, links=links), ROOM)]
    fleet = Fleet(strategy("topology-aware", Mix()))
    for number, (use, room) in enumerate(hosts):
        fleet.put(str(number), use, room)
    here = fleet.place(shape(2))
    told = fleet_of(buckets_of(hosts).classes(LIMIT), strategy("topology-aware", Mix()))
    there = told.place([(shape(2), 1)])

    assert isinstance(here, Placement)
    assert not isinstance(there, NoPlace)
    assert there[0].score == here.score
    assert [g.uuid for g in there[0].allocation[0]] == ["2", "3"]


@pytest.mark.parametrize(
    ("card", "use"),
    [
        (mig_card(), CardUse(Amount(1, 9984, 29), (Slice("2g.10gb", 2, 2),))),
        (mig_card(numa=1), CardUse(Amount(1, 4864, 15), (Slice("1g.5gb", 6, 1),), closed=True)),
        (mig_card(), CardUse(Amount(1, 4864, 15), (Slice("no such", 0, 1),))),
        (Card("u", "NVIDIA", "A10", 24564), CardUse(fence="odd")),
        (Card("u", "NVIDIA", "A10", 24564, healthy=False), CardUse()),
        (Card("u", "NVIDIA", "A10", 24564, cordoned=True), CardUse(Amount(1, 1, 0))),
        (Card("u", "NVIDIA", "A10", 24564, numa=-1), CardUse(Amount(12, 30000, 120))),
    ],
)
def test_the_text_of_a_card_is_read_back(card: Card, use: CardUse) -> None:
    state = state_of(card, 1, use, shut=False)
    kinds = [Card("", "X", "x", 1), card]

    text = encode([state] * 3, kinds)

    assert decode(text, kinds) == (state,) * 3
    assert " " not in text
    unsound = not card.healthy or card.cordoned or use.closed or bool(use.fence)
    unknown = any(s.profile == "no such" for s in use.slices)
    assert state.shut == (unsound or unknown)


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "x",
        "0:1/2",
        "0:99999/1/1",
        "0:1/101/1",
        "0[0.0.1]",
        "2000*0",
        "100*0 29*0",
        "-1",
        "0:1/1/1!!",
        "0\x00",
        "٣",
    ],
)
def test_a_text_that_tells_of_no_card_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"card|free|profile"):
        decode(text, [Card("", "NVIDIA", "A10", 24564)])


# Counting


def test_equal_hosts_are_one_class_and_changes_move_single_hosts() -> None:
    made = Buckets()
    for number in range(5):
        made.put(f"n{number}", host(f"n{number}"), replace(ROOM, labels={HOSTNAME: f"n{number}"}))
    assert [one.count for one in made.classes(LIMIT).classes] == [5]

    made.put("n3", host("n3", used={1: (1, 10_000, 30)}), ROOM)
    found = made.classes(LIMIT)

    assert sorted((one.count, one.cards) for one in found.classes) == [
        (1, "0 0:30960/70/9"),
        (4, "2*0"),
    ]
    assert found.omitted == (HOSTNAME,)
    made.drop("n3")
    made.drop("nobody")
    assert [one.count for one in made.classes(LIMIT).classes] == [4]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.none() | st.tuples(uses(), rooms)), max_size=12))
def test_what_is_counted_step_by_step_is_what_a_new_count_finds(
    steps: list[tuple[int, tuple[HostUse, Room] | None]],
) -> None:
    made, now = Buckets(), {}
    for number, change in steps:
        if change is None:
            made.drop(str(number))
            now.pop(number, None)
        else:
            made.put(str(number), *change)
            now[number] = change
        made.classes(LIMIT)

    known = strategy("default", Mix())
    ours, new = (
        fleet_of(buckets.classes(LIMIT), known) for buckets in (made, buckets_of(now.values()))
    )
    assert sorted(map(_plain, ours.uses())) == sorted(map(_plain, new.uses()))


def _plain(use: HostUse) -> str:
    return repr([(card, use.use(card.uuid)) for card in use.host.cards])


def test_a_node_with_absurdly_many_cards_is_left_out_and_counted() -> None:
    made = buckets_of([(host("a", 128), ROOM), (host("b", 129), ROOM)])
    found = made.classes(LIMIT)
    assert ([one.cards for one in found.classes], found.unlisted) == (["128*0"], 1)
    made.put("n00001", host("b", 2), ROOM)
    assert made.classes(LIMIT).unlisted == 0
    made.put("n00001", host("b", 129), ROOM)
    made.drop("n00001")
    assert made.classes(LIMIT).unlisted == 0


# Labels


def test_labels_that_each_node_has_its_own_of_go_last_and_those_of_flavors_first() -> None:
    hosts = [
        (
            host(f"n{n}"),
            replace(ROOM, labels={"id": f"{n:0200d}", "zone": f"z{n % 4}", HOSTNAME: str(n)}),
        )
        for n in range(400)
    ]
    assert BUDGET < 400 * 200
    found = buckets_of(hosts).classes(LIMIT)
    assert (found.omitted, len(found.sites)) == (("id", HOSTNAME), 4)
    assert [one.count for one in found.classes] == [100] * 4

    labels = {"zone": "z", "pool": "p" * 60}
    many = [
        (host(f"n{n}"), replace(ROOM, labels={**labels, f"feature-{n}-{m}": "x" * 50}))
        for n in range(20)
        for m in range(30)
    ]
    told = buckets_of(many).classes(LIMIT, needed=["feature-3-3", "zone"])
    assert {"zone", "pool", "feature-3-3"} <= {key for s in told.sites for key, _ in s.labels}


def test_what_the_report_does_not_tell_is_left_to_the_agent() -> None:
    hosts = [(host(n), Room({"cpu": 9000}, {HOSTNAME: n, "zone": "a"})) for n in ("a", "b")]
    found = fleet_of(buckets_of(hosts).classes(LIMIT), strategy("default", Mix()))
    asked = shape(1)
    there = replace(asked, node_selector=((HOSTNAME, "b"), ("zone", "a")))
    elsewhere = replace(asked, node_selector=((HOSTNAME, "b"), ("zone", "c")))
    term = ((HOSTNAME, "In", ("b",)), ("zone", "In", ("c",)))

    assert not isinstance(found.place([(there, 1)]), NoPlace)
    assert isinstance(found.place([(elsewhere, 1)]), NoPlace)
    assert isinstance(found.place([(replace(asked, affinity=(term,)), 1)]), NoPlace)
    assert not isinstance(found.place([(replace(asked, affinity=(term[:1],)), 1)]), NoPlace)


# Size


def test_a_thousand_nodes_in_all_different_states_stay_below_256_kib() -> None:
    made = buckets_of(several(1000))
    exact = made.classes(256 * 1024)
    assert size(exact) <= 256 * 1024
    assert (len(exact.classes), exact.unlisted) == (1000, 0)

    for limit in (150_000, 60_000, 9000, 1000, 0):
        assert size(made.classes(limit)) <= max(limit, 1000), limit


@pytest.mark.parametrize("limit", [4000, 2500, 1500])
def test_a_coarser_report_never_tells_of_more_than_there_is(limit: int) -> None:
    hosts = [*several(30), (mig := HostUse(host("m").host), ROOM), (mig, ROOM)]
    hosts.append((HostUse(replace(host("g").host, cards=(mig_card(),))), ROOM))
    made = buckets_of(hosts)
    exact, coarse = made.classes(LIMIT), made.classes(limit)
    assert size(coarse) <= limit < size(exact)
    fleet = Fleet(strategy("default", Mix()))
    for number, (use, room) in enumerate(hosts):
        fleet.put(str(number), use, room)

    reported = fleet_of(coarse, strategy("default", Mix()))

    seen = 0
    for cpu in (0, 50_000):
        for mib in (0, 100, 9000, 30_000):
            for cores in (0, 1, 30, 100):
                asked = shape(1, mib, cores, cpu)
                many = [
                    count
                    for count in (1, 4)
                    if not isinstance(reported.place([(asked, count)]), NoPlace)
                ]
                seen += len(many)
                for count in many:
                    assert not isinstance(fleet.place_gang([(asked, count)]), NoPlace)
    assert seen


def test_the_coarsest_report_still_tells_of_idle_cards() -> None:
    hosts = [*several(200), *((host(f"i{n}", 8), Room({"cpu": 96_001})) for n in range(50))]
    coarse = buckets_of(hosts).classes(3000)

    idle = [one for one in coarse.classes if one.cards == "8*0"]

    assert [(one.count, one.free[0]) for one in idle] == [(50, 96_001)]
    assert coarse.unlisted == 250 - sum(one.count for one in coarse.classes) > 0


def test_a_report_becomes_exact_again_when_it_is_short() -> None:
    hosts = several(200)
    made = buckets_of(hosts)
    assert made.classes(12_000).unlisted
    for number in range(3, 200):
        made.drop(f"n{number:05d}")
    for _ in range(COARSEST):
        made.classes(12_000)
    assert made.classes(12_000) == buckets_of(hosts[:3]).classes(12_000)


def test_a_change_of_one_of_a_thousand_hosts_is_quickly_told() -> None:
    hosts = several(1000)
    made = buckets_of(hosts)
    reported = fleet_of(made.classes(LIMIT), strategy("default", Mix()))
    start = time.perf_counter()
    for number in range(10):
        made.put(f"n{number:05d}", *hosts[number + 500])
        reported.report(made.classes(LIMIT))
    assert (time.perf_counter() - start) / 10 < 0.25


# Offers beside the report


def test_an_offer_counts_until_it_is_released_whatever_reports_come_between() -> None:
    made = buckets_of([(host("a", 1), ROOM)])
    found = fleet_of(made.classes(LIMIT), strategy("default", Mix()))
    gang = [(shape(1, 30_000), 1)]
    places = found.place(gang)
    assert not isinstance(places, NoPlace)
    found.offer("u", gang, places)
    assert isinstance(found.place(gang), NoPlace)

    made.put("n00000", host("a", 1, {0: (1, 5000, 10)}), ROOM)  # something else
    found.report(sent(made.classes(LIMIT)))
    assert isinstance(found.place(gang), NoPlace)

    made.put("n00000", host("a", 1, {0: (2, 35_000, 10)}), ROOM)  # both
    found.release("u")
    found.release("nobody")
    found.report(sent(made.classes(LIMIT)))
    assert not isinstance(found.place([(shape(1, 5960), 1)]), NoPlace)
    assert isinstance(found.place([(shape(1, 5961), 1)]), NoPlace)


def test_an_offer_without_a_place_in_a_new_report_counts_again_when_there_is_one() -> None:
    empty = Buckets().classes(LIMIT)
    made = buckets_of([(host("a", 1), ROOM)]).classes(LIMIT)
    found = fleet_of(made, strategy("default", Mix()))
    gang = [(shape(1), 1)]
    places = found.place(gang)
    assert not isinstance(places, NoPlace)
    found.offer("u", gang, places)
    found.report(empty)
    found.report(made)
    assert isinstance(found.place(gang), NoPlace)
    found.release("u")
    assert not isinstance(found.place(gang), NoPlace)


def test_a_report_that_cannot_be_true_changes_nothing() -> None:
    good = buckets_of([(host("a", 1), ROOM)]).classes(LIMIT)
    found = fleet_of(good, strategy("default", Mix()))
    (one,) = good.classes
    for odd in (
        replace(one, count=2**31 - 1),
        replace(one, site=1),
        replace(one, free=(1,)),
        replace(one, cards="7"),
        replace(one, count=40_000, cards="100*0"),
        replace(one, cards="129*0"),
    ):
        with pytest.raises(ValueError, match=r"nodes|class|card"):
            found.report(replace(good, classes=(odd,)))
        assert len(list(found.uses())) == 1
        assert not isinstance(found.place([(shape(1), 1)]), NoPlace)


def test_a_card_state_is_told_with_the_profiles_of_its_card() -> None:
    kinds = [Card("", "NVIDIA", "A100", 40960, slots=7, mode="mig", profiles=A100_PROFILES)]
    state = CardState(0, 0, Amount(2, 25_000, 58), (Slice("1g.5gb", 0, 1), Slice("3g.20gb", 4, 4)))
    assert encode([state], kinds) == "0:15960/42/5[0.0.1,2.4.4]"
