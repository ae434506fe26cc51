"""Which of several cards is taken, by the words and weights of annotations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.devices.hosts import ask, card, cards_of, host, placed, pod, used

A = {0: (2, 30000, 60), 1: (1, 60000, 20)}
"""Of cards with 81920 MiB: by usage the first is fuller, by memory the second."""


@pytest.mark.parametrize(
    ("policy", "weights", "chosen"),
    [
        (("binpack",), (1, 1, 1), "0"),
        (("spread",), (1, 1, 1), "2"),
        (("binpack",), (1, 1, 3), "1"),
        (("spread",), (0, 0, 1), "2"),
        (("binpack",), (0, 1, 0), "0"),
        (("mutex",), (1, 1, 1), "2"),
        (("mutex", "binpack"), (1, 1, 1), "2"),
    ],
)
def test_words_and_weights(policy: Any, weights: Any, chosen: str) -> None:
    use = used(host(*(card(number, memory_mib=81920) for number in range(3))), A)
    wants = pod(ask(1, 4000), policy=policy, weights=weights)
    assert cards_of(placed(use, wants)) == [[chosen]]


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        (("numa", "binpack"), "3"),
        (("numa", "spread"), "2"),
        (("binpack", "numa"), "1"),
        (("spread", "numa"), "2"),
        (("binpack",), "1"),
    ],
)
def test_chains_and_the_higher_numa_node_of_equals(policy: Any, chosen: str) -> None:
    at = host(*(card(number, numa=number // 2) for number in range(4)))
    use = used(at, {1: (2, 9000, 0), 3: (1, 4000, 0)})
    assert cards_of(placed(use, pod(ask(1, 4000), policy=policy))) == [[chosen]]


def test_weights_do_not_move_the_numa_node() -> None:
    at = host(*(card(number, numa=number // 2) for number in range(4)))
    use = used(at, {0: (9, 30000, 90)})
    for weights in ((1, 1, 1), (0, 0, 9), (9, 0, 0)):
        wants = pod(ask(1, 4000), policy=("numa", "binpack"), weights=weights)
        assert cards_of(placed(use, wants)) == [["2"]]


def test_equal_pair_scores_leave_the_order_of_the_other_words() -> None:
    links = {(f"GPU-{a}", f"GPU-{b}"): 10 for a in range(3) for b in range(3) if a != b}
    use = used(host(*(card(number) for number in range(3)), links=links), {1: (1, 1, 0)})
    wants = pod(ask(1, 4000), policy=("topology-aware", "binpack"))
    assert cards_of(placed(use, wants)) == [["1"]]


@pytest.mark.parametrize("policy", [("binpack",), ("spread",), ("numa",), ()])
def test_cards_without_slots_cores_or_memory(policy: Any) -> None:
    use = used(host(card(0, slots=0, memory_mib=0, cores=0), card(1)))
    assert cards_of(placed(use, pod(ask(1, 4000), policy=policy))) == [["1"]]


def test_later_containers_see_what_earlier_ones_took() -> None:
    use = used(host(card(0), card(1), card(2)))
    wants = pod(ask(1, 4000), ask(1, 4000), ask(1, 4000), policy=("spread",))
    assert sorted(cards_of(placed(use, wants))) == [["0"], ["1"], ["2"]]
    wants = pod(ask(1, 4000), ask(1, 4000), ask(1, 4000), policy=("binpack",))
    assert cards_of(placed(use, wants)) == [["0"]] * 3
