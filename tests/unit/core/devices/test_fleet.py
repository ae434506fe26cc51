"""A fleet: which hosts are open to a pod, what is counted, and that nothing old is answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.named import strategy
from federation.core.devices.fleet.types import NoPlace, Placement, Room, Shape
from federation.core.devices.wants import PodWants, Wishes
from federation.core.types import Taint, Toleration
from tests.unit.core.devices.fleets import cards_of, fleet, host, placed, shape

ALONE = shape(cards=0)


@pytest.mark.parametrize(
    ("room", "asks", "fits"),
    [
        ({"cpu": 1000}, {}, True),
        ({"cpu": 999}, {}, False),
        ({"memory": 5}, {}, False),
        ({"cpu": 1000, "pods": 0}, {"requests": (("cpu", 1000), ("pods", 1))}, False),
        ({"cpu": 1000}, {"requests": (("cpu", 1000), ("odd.com/thing", 1))}, False),
        ({"cpu": 1000}, {"requests": (("cpu", 1000), ("odd.com/thing", 0))}, True),
    ],
)
def test_host_resources_must_be_there(
    room: dict[str, int], asks: dict[str, Any], fits: bool
) -> None:
    made = fleet()
    made.put("a", host("a"), Room(room))
    wanted = Shape(**{"wants": shape().wants, "requests": (("cpu", 1000),), **asks})

    assert isinstance(made.place(wanted), Placement) == fits


@pytest.mark.parametrize(
    ("room", "asks", "fits"),
    [
        (Room({}, {"zone": "a"}), {"node_selector": (("zone", "a"),)}, True),
        (Room({}, {"zone": "b"}), {"node_selector": (("zone", "a"),)}, False),
        (Room({}, {}), {"affinity": ((("zone", "Exists", ()),),)}, False),
        (
            Room({}, {"zone": "b"}),
            {"affinity": ((("zone", "In", ("a",)),), (("zone", "In", ("b",)),))},
            True,
        ),
        (Room({}, {}, (Taint("gpu"),)), {}, False),
        (Room({}, {}, (Taint("gpu", effect="PreferNoSchedule"),)), {}, True),
        (Room({}, {}, (Taint("gpu"),)), {"tolerations": (Toleration("gpu", "Exists"),)}, True),
        (Room({}, ready=False), {}, False),
    ],
)
def test_labels_taints_and_state_of_the_host(room: Room, asks: dict[str, Any], fits: bool) -> None:
    made = fleet()
    made.put("a", host("a"), room)

    assert isinstance(made.place(Shape(shape().wants, **asks)), Placement) == fits


def test_labels_that_change_are_seen() -> None:
    made = fleet()
    wanted = Shape(shape().wants, node_selector=(("zone", "a"),))
    made.put("a", host("a"), Room({}))
    assert isinstance(made.place(wanted), NoPlace)

    made.put("a", host("a"), Room({}, {"zone": "a"}))
    assert isinstance(made.place(wanted), Placement)

    made.put("a", host("a"), Room({}, {"zone": "a"}, ready=False))
    assert isinstance(made.place(wanted), NoPlace)


def test_equal_hosts_go_by_name_not_by_when_they_came() -> None:
    made = fleet(host("c"), host("b"), host("d"))
    assert placed(made, shape()).host == "b"

    made.put("a", host("a"), Room({"cpu": 64_000}))
    assert placed(made, shape()).host == "a"

    made.drop("a")
    made.drop("unknown")
    assert placed(made, shape()).host == "b"


def test_a_question_changes_nothing_and_taking_does() -> None:
    made = fleet(host("a", cards=1))
    first = placed(made, shape(mib=30_000))
    assert placed(made, shape(mib=30_000)) == first

    made.take(first)
    assert isinstance(made.place(shape(mib=30_000)), NoPlace)
    assert isinstance(made.place(shape(mib=10_000)), Placement)

    made.give_back(first)
    assert placed(made, shape(mib=30_000)) == first


def test_a_mutex_pod_keeps_others_off_until_it_leaves() -> None:
    made = fleet(host("a", cards=1))
    alone = placed(made, shape(mib=100, wishes=Wishes(policy=("mutex",))))
    made.take(alone)
    assert isinstance(made.place(shape(mib=100)), NoPlace)

    made.give_back(alone)
    assert isinstance(made.place(shape(mib=100)), Placement)


def test_why_there_is_no_place_is_counted_by_host() -> None:
    made = fleet(host("a", cards=1), host("b", cards=1, used={0: (1, 1, 0)}))
    made.put("c", host("c"), Room({"cpu": 500}))
    made.put("d", host("d"), Room({"cpu": 9000}, ready=False))
    made.put("e", host("e"), Room({"cpu": 9000}))
    made.drop("e")

    why = made.place(shape(cards=2))

    assert isinstance(why, NoPlace)
    assert (why.closed, why.room, why.cards) == (1, 1, 2)
    assert "2 hosts without cards that fit" in str(why)
    assert str(fleet().place(ALONE)) == "there are no hosts"


def test_a_pod_without_cards_is_placed_by_its_cpu() -> None:
    made = fleet(host("a"), cpu=500)
    assert isinstance(made.place(ALONE), NoPlace)

    made.put("plain", host("plain", cards=0), Room({"cpu": 2000}))
    place = placed(made, ALONE)
    assert (place.host, place.allocation) == ("plain", ((),))
    assert placed(made, Shape(PodWants(()))).allocation == ()


def test_scores_of_fleets_that_share_strategy_and_kinds_compare() -> None:
    full, idle = host("full", used={0: (1, 30_960, 0)}), host("idle")
    known, kinds = strategy("default", Mix.of([shape(mib=10_000)] * 9 + [shape(cards=2)])), Kinds()
    apart = [Fleet(known, kinds), Fleet(known, kinds)]
    for one, use in zip(apart, (full, idle), strict=True):
        one.put(use.host.name, use, Room({"cpu": 64_000}))
    together = fleet(full, idle, mix=Mix.of([shape(mib=10_000)] * 9 + [shape(cards=2)]))

    scores = {
        place.host: place.score for one in apart for place in [placed(one, shape(mib=10_000))]
    }
    best = placed(together, shape(mib=10_000))

    assert best.host == min(scores, key=lambda name: (scores[name], name)) == "full"
    assert best.score == scores["full"]


def test_kinds_change_only_with_what_there_is() -> None:
    kinds = Kinds()
    cards = host("a").host.cards
    kinds.count((), cards)
    first = kinds.version
    assert (kinds.supply, kinds.version) == ([2], first)

    kinds.count(cards, ())
    kinds.count((), host("b").host.cards)
    assert kinds.version == first

    kinds.count((), host("c", 1, model="NVIDIA A30").host.cards)
    assert (kinds.supply, kinds.version) == ([2, 1], first + 1)


SHAPES = [
    shape(cards=0),
    shape(mib=10_000),
    shape(mib=25_000, cores=40),
    shape(cores=100),
    shape(cards=2, mib=20_480),
    shape(mib=15_000, wishes=Wishes(policy=("spread",))),
    shape(mib=15_000, wishes=Wishes(node_policy="binpack")),
]


class Incremental(RuleBasedStateMachine):
    """Whatever happened, a fleet answers as one that is made anew of the same hosts."""

    placements = Bundle("placements")

    def __init__(self) -> None:
        super().__init__()
        self.fleet = fleet()
        self.rooms: dict[str, int] = {}

    @rule(name=st.sampled_from("abcd"), cards=st.integers(0, 3), cpu=st.integers(0, 4))
    def put(self, name: str, cards: int, cpu: int) -> None:
        model = "NVIDIA A30" if cards == 3 else "NVIDIA A100"
        self.fleet.put(name, host(name, cards, model=model), Room({"cpu": cpu * 1000}))
        self.rooms[name] = cpu * 1000

    @rule(name=st.sampled_from("abcd"))
    def drop(self, name: str) -> None:
        self.fleet.drop(name)
        self.rooms.pop(name, None)

    @rule(target=placements, wanted=st.sampled_from(SHAPES))
    def take(self, wanted: Shape) -> Placement | NoPlace:
        place = self.fleet.place(wanted)
        if isinstance(place, Placement):
            self.fleet.take(place)
            self.rooms[place.host] -= wanted.cpu_milli
        return place

    @rule(place=consumes(placements))
    def give_back(self, place: Placement | NoPlace) -> None:
        held = isinstance(place, Placement) and self.fleet.use(place.host)
        if isinstance(place, Placement) and held and self._holds(place):
            self.fleet.give_back(place)
            self.rooms[place.host] += place.shape.cpu_milli

    def _holds(self, place: Placement) -> bool:
        """Not if the host was registered anew since."""
        use = self.fleet.use(place.host)
        assert use is not None
        amounts = [(use.use(g.uuid).amount, g) for grants in place.allocation for g in grants]
        return all(a.slots > 0 and a.memory_mib >= g.memory_mib for a, g in amounts)

    @invariant()
    def answers_as_a_new_one(self) -> None:
        fresh = fleet()
        for name, cpu in self.rooms.items():
            use = self.fleet.use(name)
            assert use is not None
            fresh.put(name, use, Room({"cpu": cpu}))
        for wanted in SHAPES:
            mine, new = self.fleet.place(wanted), fresh.place(wanted)
            assert type(mine) is type(new)
            if isinstance(mine, Placement) and isinstance(new, Placement):
                assert (mine.host, mine.score) == (new.host, pytest.approx(new.score))
                assert cards_of(mine) == cards_of(new)


Incremental.TestCase.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
TestIncremental = Incremental.TestCase
