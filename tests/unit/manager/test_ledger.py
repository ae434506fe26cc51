"""The ledger: a report and our own offers, each counted once."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.report_placement import placement_to_wire
from federation.core.devices.fleet.buckets import Classes
from federation.core.devices.fleet.types import NoPlace, Room
from federation.core.dispatch import Choice
from federation.core.types import FlavorResource
from manager.ledger import Judge, Ledger
from tests.unit.core.devices.fleets import host, shape
from tests.unit.core.devices.reports import LIMIT, buckets_of

GPU = FlavorResource("f", "gpu")
CHOICE = Choice("a", "q", {GPU: 2})


def report(counted: int, available: int = 8, **queue: Any) -> dict[str, Any]:
    """A WorkerReport that counts Jobs up to a version."""
    resources = [
        {
            "flavor": "f",
            "resource": "gpu",
            "nominal": "8",
            "used": str(8 - available),
            "available": str(available),
        }
    ]
    return {
        "metadata": {"name": "a"},
        "status": {
            "countedResourceVersion": str(counted),
            "localQueues": [{"namespace": "n", "name": "lq", "clusterQueue": "q"}],
            "clusterQueues": [{"name": "q", "resources": resources, **queue}],
        },
    }


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger("a")
    found.report(report(100))
    return found


def free(ledger: Ledger) -> int:
    return ledger.view("").free("q", GPU)


def test_cards_that_a_cluster_counts_and_has_none_of_now() -> None:
    told = report(100)
    told["status"] |= {"placement": placement_to_wire(Classes()), "cardVendors": ["NVIDIA"]}
    ledger = Ledger("a")
    ledger.report(told)
    cards = ledger.view("").cards
    assert cards is not None
    assert cards.vendors == {"NVIDIA"}


def test_the_report(ledger: Ledger) -> None:
    """As published, and the problem is passed on."""
    assert not Ledger("a").reported
    view = ledger.view("a problem")
    assert (view.name, view.problem) == ("a", "a problem")
    assert view.local_queues == {("n", "lq"): "q"}
    assert view.queues["q"].amounts[GPU] == (view.queues["q"].amounts[GPU])
    assert (view.queues["q"].amounts[GPU].nominal, free(ledger)) == (8, 8)
    assert view.queues["q"].active
    ledger.report(report(101, active=False))
    assert not ledger.view("").queues["q"].active


def test_an_offer_counts_until_the_report_has_it(ledger: Ledger) -> None:
    """From the decision on; the report that counts its version takes over."""
    ledger.offer("u", CHOICE)
    assert free(ledger) == 6
    ledger.created("u", 110)
    assert free(ledger) == 6
    ledger.report(report(109))
    assert free(ledger) == 6
    ledger.report(report(110, 6))
    assert free(ledger) == 6


def test_a_report_before_the_answer(ledger: Ledger) -> None:
    """The report can be faster than the answer to our own create."""
    ledger.offer("u", CHOICE)
    ledger.report(report(110, 6))
    assert free(ledger) == 4, "not known yet that it is in there: rather too little"
    ledger.created("u", 110)
    assert free(ledger) == 6


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Ended, and neither is counted: the copy never mattered.
        ([], [], 8),
        # Created is counted, the end is not: added back.
        ([(110, 6)], [], 8),
        # Both are counted.
        ([(110, 6)], [(120, 8)], 8),
        ([], [(120, 8)], 8),
    ],
)
def test_ended(
    ledger: Ledger, first: list[tuple[int, int]], second: list[tuple[int, int]], expected: int
) -> None:
    """Before or after the report that counts it, in any order."""
    ledger.offer("u", CHOICE)
    ledger.created("u", 110)
    for counted, available in first:
        ledger.report(report(counted, available))
    ledger.ended("u", 120)
    for counted, available in second:
        ledger.report(report(counted, available))
    assert free(ledger) == expected
    ledger.ended("u", 121)
    ledger.ended("u", 121)
    assert free(ledger) == expected


def test_an_end_that_is_counted_already(ledger: Ledger) -> None:
    """The report is ahead of the watch of the copies."""
    ledger.offer("u", CHOICE)
    ledger.created("u", 110)
    ledger.report(report(130, 8))
    ledger.ended("u", 120)
    assert free(ledger) == 8


def test_an_offer_that_was_never_made(ledger: Ledger) -> None:
    """Refused or given up before the create: as if it had not been."""
    ledger.offer("u", CHOICE)
    ledger.ended("u", 0)
    assert free(ledger) == 8


def test_unknown_copies_are_in_the_report(ledger: Ledger) -> None:
    """After a restart the ledger knows no offers; the report has them."""
    ledger.created("u", 110)
    ledger.ended("u", 120)
    assert free(ledger) == 8


def test_an_offer_made_again(ledger: Ledger) -> None:
    """A later attempt on the same cluster replaces the earlier one."""
    ledger.offer("u", CHOICE)
    ledger.created("u", 110)
    ledger.ended("u", 115)
    ledger.offer("u", Choice("a", "q", {GPU: 3}))
    assert free(ledger) == 5


def test_two_offers_add_up(ledger: Ledger) -> None:
    """And so do those of several resources."""
    ledger.offer("u", CHOICE)
    ledger.offer("v", Choice("a", "q", {GPU: 1, FlavorResource("f", "cpu"): 9}))
    assert free(ledger) == 5
    assert ledger.view("").pending["q"][FlavorResource("f", "cpu")] == 9


# Cards


def cards_report(counted: int, used: int = 0) -> dict[str, Any]:
    """One card with 40960 MiB, so much of it used."""
    found = report(counted)
    use = host("h", 1, {0: (1, used, 0)} if used else None)
    classes = buckets_of([(use, Room({"cpu": 64_000}))]).classes(LIMIT)
    found["status"]["placement"] = placement_to_wire(classes)
    return found


def seat(ledger: Ledger, mib: int = 30_000) -> Choice | None:
    """A choice for a pod with so much memory, if its cards are there."""
    cards = ledger.view("").cards
    assert cards is not None
    gang = [(shape(1, mib), 1)]
    places = cards.place(gang)
    return None if isinstance(places, NoPlace) else Choice("a", "q", {GPU: 1}, gang, places)


def test_cards_of_an_offer_count_until_the_report_has_them() -> None:
    ledger = Ledger("a")
    ledger.report(report(99))
    assert ledger.view("").cards is None
    ledger.report(cards_report(100))
    choice = seat(ledger)
    assert choice is not None
    ledger.expect("u", choice)
    assert seat(ledger) is None
    ledger.forgo("u")
    assert seat(ledger) == choice

    ledger.offer("u", choice)
    ledger.created("u", 110)
    ledger.report(cards_report(109))
    assert seat(ledger) is None
    ledger.report(cards_report(110, 30_000))
    assert seat(ledger) is None
    assert seat(ledger, 10_960) is not None
    ledger.report(cards_report(111))  # it has ended there
    assert seat(ledger) is not None


def test_cards_of_an_offer_that_came_to_nothing_are_free_again() -> None:
    ledger = Ledger("a")
    ledger.report(cards_report(100))
    choice = seat(ledger)
    assert choice is not None
    ledger.offer("u", choice)
    ledger.created("u", 110)
    ledger.ended("u", 120)
    assert seat(ledger) is not None
    ledger.offer("v", choice)
    ledger.ended("v", 0)
    assert seat(ledger) is not None


def test_a_report_with_cards_that_cannot_be_read_says_so() -> None:
    ledger = Ledger("a")
    ledger.report(cards_report(100))
    odd = cards_report(101)
    odd["status"]["placement"]["classes"][0]["cards"] = "9"
    ledger.report(odd)
    assert "'9' tells of no card" in ledger.unreadable
    odd = cards_report(101)
    odd["status"]["placement"]["sites"] = [{"links": [0, 1, 600, 1]}]
    ledger.report(odd)
    assert "cannot be read" in ledger.unreadable
    ledger.report(cards_report(102))
    assert ledger.unreadable == ""
    assert seat(ledger) is not None


def test_the_judge_learns_each_workload_once() -> None:
    judge = Judge()
    chosen = judge.shared[0]
    for _ in range(100):
        judge.learn("u", [(shape(1, 4000), 1)])
    assert chosen.version == 0
    judge.learn("v", [(shape(1, 4000), 100)])
    assert chosen.version > 0
