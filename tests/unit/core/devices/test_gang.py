"""All pods of a gang find places, or none does."""

from __future__ import annotations

from collections import Counter

import pytest

from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.types import NoPlace, Placement, Shape
from federation.core.devices.wants import Wishes
from tests.unit.core.devices.fleets import cards_of, fleet, host, shape


def gang(made: Fleet, *pods: tuple[Shape, int]) -> list[Placement]:
    found = made.place_gang(pods)
    assert not isinstance(found, NoPlace), str(found)
    return found


def test_pods_stand_beside_each_other_and_nothing_is_kept() -> None:
    made = fleet(host("a"), host("b"))
    places = gang(made, (shape(), 4))

    assert Counter(place.host for place in places) == {"a": 2, "b": 2}
    assert len({uuid for place in places for uuid in cards_of(place)}) == 4
    assert gang(made, (shape(), 4)) == places


def test_placements_are_in_the_order_of_the_pods() -> None:
    pods = ((shape(mib=1000), 2), (shape(), 3))
    places = gang(fleet(host("a"), host("b")), *pods)
    assert [place.shape for place in places] == [shape(mib=1000)] * 2 + [shape()] * 3


def test_one_pod_too_many_and_there_is_no_place_for_any() -> None:
    made = fleet(host("a"), host("b"))
    found = made.place_gang([(shape(), 5)])

    assert isinstance(found, NoPlace)
    assert (found.pod, found.cards) == (4, 2)
    assert len(gang(made, (shape(), 4))) == 4


def test_a_gang_of_none_is_placed() -> None:
    assert gang(fleet()) == []


def test_the_largest_are_placed_first_if_need_be() -> None:
    """Small pods would take a part of both cards that the large ones need, as spread has it."""
    made = fleet(host("a", cards=3), name="spread")
    places = gang(made, (shape(mib=1000), 3), (shape(), 2))
    assert len({uuid for place in places[3:] for uuid in cards_of(place)}) == 2


@pytest.mark.parametrize("name", ["default", "binpack", "drain-aware"])
def test_equal_pods_with_parts_of_several_cards_find_room_whenever_there_is(name: str) -> None:
    """Cards with room for 2, 1 and 1: the pair of small ones must not go first."""
    used = {1: (1, 20_480, 0), 2: (1, 20_480, 0)}
    made = fleet(host("a", cards=3, used=used), name=name)
    places = gang(made, (shape(cards=2, mib=20_480), 2))
    assert Counter(uuid for place in places for uuid in cards_of(place))["a-0"] == 2


def test_a_pod_that_fits_nowhere_by_itself_ends_the_search() -> None:
    found = fleet(host("a")).place_gang([(shape(), 1), (shape(cards=3), 1)])
    assert isinstance(found, NoPlace)
    assert found.pod == 1


def test_wishes_count_in_a_gang() -> None:
    wish = Wishes(use_uuids=frozenset({"a-0", "b-1"}))
    places = gang(fleet(host("a"), host("b")), (shape(wishes=wish), 2))
    assert {uuid for place in places for uuid in cards_of(place)} == {"a-0", "b-1"}
