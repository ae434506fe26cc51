"""A cluster as it would be when copies have left."""

from __future__ import annotations

from typing import cast

import pytest

from federation.core.devices.fleet.reported_fleet import ReportedFleet
from federation.core.dispatch import Amount, ClusterView, WorkerQueue
from federation.core.easing import eased, expected, reserved
from federation.core.types import FlavorResource, Usage
from tests.unit.core.build import GPU, holds

CARDS = cast("ReportedFleet", object())
NVIDIA = FlavorResource("f", "nvidia.com/gpu")


def view(cohort: str = "", other: str = "", pending: int = 0) -> ClusterView:
    """Queues `q` and `r`, in these cohorts."""
    amounts = {GPU: Amount(4, 0)}
    queues = {
        "q": WorkerQueue("q", True, amounts, cohort),
        "r": WorkerQueue("r", True, amounts, other),
    }
    return ClusterView("a", queues=queues, pending={"q": {GPU: pending}}, cards=CARDS)


@pytest.mark.parametrize(
    ("there", "queue", "free"),
    [
        (view(), "q", 3),
        (view(pending=2), "q", 1),
        (view(), "r", 0),
        (view("all", "all"), "r", 3),
        (view("all"), "r", 0),
        (view("east", "west"), "r", 3),  # they may be in one tree, which is not told
        (view("all", "all"), "gone", 0),
    ],
)
def test_what_copies_give_back(there: ClusterView, queue: str, free: int) -> None:
    """To their own ClusterQueue, and to others that they can lend to."""
    assert eased(there, "q", [(queue, {GPU: 3})]).free("q", GPU) == max(free, there.free("q", GPU))


@pytest.mark.parametrize(
    ("queue", "usage", "counted"),
    [
        ("q", {GPU: 3}, True),
        ("q", {NVIDIA: 0}, True),
        ("r", {NVIDIA: 1}, True),
        ("q", {NVIDIA: 1}, False),
    ],
)
def test_which_cards_come_free_is_not_told(queue: str, usage: Usage, counted: bool) -> None:
    """Then quota alone says whether there is room."""
    assert (eased(view(), "q", [(queue, usage)]).cards is CARDS) is counted


@pytest.mark.parametrize(("freed", "pending"), [(0, 2), (1, 1), (2, 0), (3, 0)])
def test_what_is_kept_beside_what_comes_free(freed: int, pending: int) -> None:
    """What victims leave is not free for others before they are gone."""
    there = reserved(view(), "q", {GPU: 2}, [("q", {GPU: freed})])
    assert there.pending["q"] == {GPU: pending}


def test_a_copy_that_another_manager_offered() -> None:
    """It uses the flavor of the same name, or the only one; what is not clear counts nothing."""
    spot, cpu = FlavorResource("spot", "gpu"), FlavorResource("spot", "cpu")
    amounts = {GPU: Amount(4, 0), spot: Amount(4, 0), cpu: Amount(4, 0)}
    there = ClusterView("a", queues={"q": WorkerQueue("q", True, amounts)})
    copy = holds("v", "q", {"f/gpu": 2, "other/cpu": 3, "f/memory": 1})
    assert expected(copy, "q", there) == {GPU: 2, cpu: 3}
    assert expected(holds("v", "q", {"other/gpu": 1}), "q", there) == {}
    assert expected(copy, "nowhere", there) == {}
