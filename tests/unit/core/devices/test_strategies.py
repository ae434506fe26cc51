"""The strategies choose as they say; worked examples of the specification among them."""

from __future__ import annotations

import pytest

from federation.core.devices.cards import HostUse
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.strategies.named import STRATEGIES, strategy
from federation.core.devices.fleet.types import Room
from federation.core.devices.wants import Wishes
from tests.unit.core.devices.fleets import cards_of, fleet, host, placed, shape

HALF_FULL = host("node1", 8, dict.fromkeys(range(4), (1, 40960, 0)))
EXACT_FIT = host("node2", 4, {0: (1, 20_480, 25)})
"""Nodes of the specification (HAMi, section 2.3): a half card that just fits is on the second."""


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("binpack", "node1"),
        ("binpack-spread", "node1"),
        ("spread", "node2"),
        ("drain-aware", "node2"),
        ("fgd", "node2"),
        ("default", "node2"),
    ],
)
def test_where_half_a_card_goes(name: str, node: str) -> None:
    mix = Mix.of([shape(mib=20_480)] * 5 + [shape()] * 5)
    made = fleet(HALF_FULL, EXACT_FIT, name=name, mix=mix)
    assert placed(made, shape(mib=20_480, cores=25)).host == node


@pytest.mark.parametrize(
    ("name", "card"),
    [("binpack", 0), ("binpack-spread", 2), ("spread", 2), ("drain-aware", 1)],
)
def test_which_card_of_a_host(name: str, card: int) -> None:
    """One with much left, one that just fits, one idle; HAMi counts slots and compute as well."""
    used = {0: (5, 10_000, 60), 1: (1, 30_000, 0)}
    mix = Mix.of([shape(mib=10_000)] * 5 + [shape()] * 5)
    made = fleet(host("a", 3, used), name=name, mix=mix)
    assert cards_of(placed(made, shape(mib=10_000))) == [f"a-{card}"]


@pytest.mark.parametrize(
    ("wishes", "node"),
    [(Wishes(node_policy="spread"), "idle"), (Wishes(node_policy="binpack"), "used")],
)
def test_a_pod_may_ask_for_nodes_by_annotation(wishes: Wishes, node: str) -> None:
    made = fleet(host("idle"), host("used", used={0: (1, 5000, 0)}))
    assert placed(made, shape(mib=5000, wishes=wishes)).host == node


def test_a_pod_may_ask_for_cards_by_annotation() -> None:
    made = fleet(host("a", used={0: (1, 5000, 0)}))
    wishes = Wishes(policy=("spread",))
    assert cards_of(placed(made, shape(mib=5000, wishes=wishes))) == ["a-1"]


class TestDrainAware:
    """The order of its criteria."""

    @staticmethod
    def best(*hosts: HostUse, **asked: int) -> list[str]:
        return cards_of(placed(fleet(*hosts, name="drain-aware"), shape(**asked)))

    def test_an_empty_host_comes_last(self) -> None:
        full = host("b", 4, {0: (1, 1000, 0)})
        assert self.best(host("a", 1), full, mib=9000) == ["b-0"]

    def test_then_fewest_idle_cards(self) -> None:
        some = host("a", 4, {0: (1, 9000, 0)})
        few = host("b", 4, dict.fromkeys(range(3), (1, 1000, 0)))
        assert self.best(some, few, mib=9000) == ["b-0"]

    def test_then_the_fewest_cards_opened_and_the_least_left(self) -> None:
        opens = host("a", 2, {0: (1, 40_000, 0)})
        fits = host("b", 2, {0: (1, 20_000, 0)})
        tight = host("c", 2, {0: (1, 30_000, 0)})
        assert self.best(opens, fits, tight, mib=9000) == ["c-0"]

    def test_whole_cards_are_the_smallest_and_leave_few_idle(self) -> None:
        large = host("a", 1, memory_mib=81_920)
        many, few = host("b", 4), host("c", 2)
        assert self.best(large, many, few) == ["c-0"]


LINKS = {(0, 1): 600, (2, 3): 600, (0, 2): 10, (0, 3): 10, (1, 2): 10, (1, 3): 10}


class TestTopologyAware:
    """Cards a, b, c, d of the specification: ab and cd are linked by 600, the others by 10."""

    def test_several_cards_are_linked_best(self) -> None:
        use = host("a", 4, {0: (1, 5000, 0)}, LINKS)
        made = fleet(use, name="topology-aware")
        assert cards_of(placed(made, shape(cards=2))) == ["a-2", "a-3"]

    def test_one_card_is_the_one_that_others_miss_least(self) -> None:
        links = {pair: score for pair, score in LINKS.items() if pair != (2, 3)}
        made = fleet(host("a", 4, links=links), name="topology-aware")
        assert cards_of(placed(made, shape())) in (["a-2"], ["a-3"])

    def test_the_host_with_the_best_links_is_taken(self) -> None:
        poor = host("a", 2, links={(0, 1): 10})
        rich = host("b", 2, links={(0, 1): 600})
        made = fleet(poor, rich, name="topology-aware")
        assert placed(made, shape(cards=2)).host == "b"
        assert placed(made, shape()).host == "a"

    def test_without_scores_cards_of_one_numa_node_are_close(self) -> None:
        made = fleet(host("a", 4, numa=(0, 1, 0, 1), used={0: (1, 1, 0)}), name="topology-aware")
        assert cards_of(placed(made, shape(cards=2))) == ["a-1", "a-3"]

    def test_pods_without_cards_are_placed_too(self) -> None:
        assert placed(fleet(host("a"), name="topology-aware"), shape(cards=0)).host == "a"


class TestDefault:
    """What it charges for beside fragments."""

    def test_cards_are_not_left_without_cpu(self) -> None:
        """A pod with much CPU goes where CPU is plenty for the cards there are."""
        mix = Mix.of([shape(cpu=8000)] * 9 + [shape(cards=0, cpu=20_000)])
        made = fleet(name="default", mix=mix)
        scarce, plenty = host("a", 4), host("b", 1)
        for use in (scarce, plenty):
            made.put(use.host.name, use, Room({"cpu": 33_000}))
        assert placed(made, shape(cards=0, cpu=20_000)).host == "b"

    def test_scarce_models_are_kept_for_those_who_must_have_them(self) -> None:
        bound = shape(mib=20_480, wishes=Wishes(use_models=("T4",)))
        mix = Mix.of([bound] * 5 + [shape(mib=20_480)] * 5)
        made = fleet(host("a", model="T4"), host("b", model="A10", cards=2), mix=mix)
        assert placed(made, shape(mib=20_480)).host == "b"
        assert placed(made, bound).host == "a"


def test_unknown_strategies_are_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="'bin' is no strategy; there are default, fgd, binpack"):
        strategy("bin", Mix())
    assert set(STRATEGIES) >= {"default", "binpack", "spread", "topology-aware", "drain-aware"}
