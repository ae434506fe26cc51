"""Admission checks: which apply, what they say together, retry times, reset at eviction."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.checks import (
    AdmissionCheckState,
    CheckState,
    delayed,
    described,
    required,
    reset,
    retry_at,
    standing,
    synced,
)
from federation.core.pod_updates import PodSetUpdate
from federation.core.policies import AdmissionCheck
from federation.core.types import Admission, ClusterQueue, PodSetAssignment
from tests.unit.core.build import FEW, cq, group, quota

PENDING, READY, RETRY, REJECTED = CheckState
NOW = 1_800_000_000.0


def check(name: str, *flavors: str) -> AdmissionCheck:
    return AdmissionCheck(name, frozenset(flavors))


def queue(*checks: AdmissionCheck) -> ClusterQueue:
    """Flavors spot and on-demand for cpu, and card for gpu."""
    cpu = group("cpu", **{"spot": (quota(1),), "on-demand": (quota(1),)})
    return cq("q", cpu, group("gpu", card=(quota(1),)), checks=checks)


def admitted_on(*flavors: dict[str, str]) -> Admission:
    sets = tuple(PodSetAssignment(f"p{i}", 1, f, {}) for i, f in enumerate(flavors))
    return Admission("q", sets)


def said(name: str, state: CheckState, **more: object) -> AdmissionCheckState:
    return replace(AdmissionCheckState(name, state), **more)


ALL = check("all")
SPOT = check("spot-only", "spot")
CARD = check("card-only", "card")
EVERY = check("every-flavor", "spot", "on-demand", "card")


@pytest.mark.parametrize(
    ("admission", "expected"),
    [
        (None, ("all", "every-flavor")),
        (admitted_on({"cpu": "spot"}), ("all", "every-flavor", "spot-only")),
        (admitted_on({"cpu": "on-demand"}), ("all", "every-flavor")),
        (
            admitted_on({"cpu": "on-demand"}, {"gpu": "card"}),
            ("all", "card-only", "every-flavor"),
        ),
        (admitted_on({"cpu": "gone"}), ("all",)),
        (admitted_on({}), ("all",)),
    ],
)
def test_required_checks(admission: Admission | None, expected: tuple[str, ...]) -> None:
    assert required(queue(SPOT, ALL, EVERY, CARD), admission) == expected


def test_a_queue_without_checks_requires_none() -> None:
    assert required(queue(), None) == ()
    assert required(queue(), admitted_on({"cpu": "spot"})) == ()


def test_states_are_kept_added_and_dropped_as_required() -> None:
    kept = said("b", READY, message="provisioned")

    states = synced([said("old", REJECTED), kept], ("b", "a", "b"), NOW)

    assert states == (AdmissionCheckState("a", PENDING, changed_at=NOW), kept)


@pytest.mark.parametrize(
    ("states", "names", "expected"),
    [
        ([], [], READY),
        ([], ["a"], PENDING),
        ([said("a", READY)], ["a"], READY),
        ([said("a", READY)], ["a", "b"], PENDING),
        ([said("a", READY), said("b", PENDING)], ["a", "b"], PENDING),
        ([said("a", READY), said("b", RETRY)], ["a", "b", "c"], RETRY),
        ([said("a", RETRY), said("b", REJECTED)], ["a", "b"], REJECTED),
        ([said("a", READY), said("other", REJECTED)], ["a"], READY),
        ([said("other", PENDING)], [], READY),
    ],
)
def test_what_checks_say_together(
    states: list[AdmissionCheckState], names: list[str], expected: CheckState
) -> None:
    assert standing(states, names) is expected


@given(st.lists(st.sampled_from(list(CheckState)), max_size=4))
@FEW
def test_the_order_of_checks_does_not_matter(found: list[CheckState]) -> None:
    states = [said(f"c{i}", state) for i, state in enumerate(found)]
    names = [state.name for state in states]

    answers = {standing(order, names) for order in permutations(states)}

    assert len(answers) == 1
    assert (answers == {READY}) == all(state is READY for state in found)


def retrying(changed: float | None, after: float | None) -> AdmissionCheckState:
    return AdmissionCheckState("c", RETRY, changed_at=changed, requeue_after_s=after)


@pytest.mark.parametrize(
    ("states", "current", "expected"),
    [
        ([], None, None),
        ([], 7.0, 7.0),
        ([retrying(100, 60)], None, 160),
        ([retrying(100, 60), retrying(110, 60), retrying(120, 1)], None, 170),
        ([retrying(100, 60)], 150.0, 160),
        ([retrying(100, 60)], 160.0, 160),
        ([retrying(100, 60)], 200.0, 200),
        ([retrying(100, None)], None, None),
        ([retrying(None, 60)], None, None),
        ([retrying(100, 0)], None, 100),
        ([retrying(100, -5)], None, 100),
        ([replace(retrying(100, 60), state=READY)], None, None),
        ([replace(retrying(100, 60), state=PENDING)], 3.0, 3.0),
    ],
)
def test_retry_time_is_the_latest_and_never_earlier_than_announced(
    states: list[AdmissionCheckState], current: float | None, expected: float | None
) -> None:
    assert retry_at(states, current) == expected


UPDATE = PodSetUpdate("main", labels={"a": "b"})


@pytest.mark.parametrize(
    ("before", "count"),
    [
        (said("c", RETRY), 1),
        (said("c", RETRY, retry_count=4), 5),
        (said("c", READY, retry_count=4), None),
        (said("c", REJECTED, retry_count=4), None),
    ],
)
def test_eviction_resets_a_check(before: AdmissionCheckState, count: int | None) -> None:
    full = replace(before, changed_at=1.0, requeue_after_s=60.0, updates=(UPDATE,))

    (after,) = reset([full], NOW)

    assert (after.state, after.changed_at, after.updates) == (PENDING, NOW, ())
    assert (after.retry_count, after.requeue_after_s) == (count, 60.0)
    assert before.state in after.message


def test_eviction_leaves_a_pending_check_alone() -> None:
    pending = said("c", PENDING, retry_count=2, changed_at=1.0, message="looking")
    assert reset([pending], NOW) == (pending,)


def test_checks_are_described_by_name_with_what_they_say() -> None:
    states = [said("b", RETRY), said("x", READY), said("a", RETRY, message="no room")]
    assert described(states, RETRY) == 'AdmissionChecks in Retry state: "a" (no room); "b"'
    assert described(states, READY) == 'AdmissionCheck in Ready state: "x"'


@pytest.mark.parametrize(
    ("by", "flavor", "later"),
    [("", "f", False), ("p", "f", True), ("q", "f", False), ("q", "g", True), ("p q", "g", True)],
)
def test_places_come_later_where_a_needed_check_makes_nodes(
    by: str, flavor: str, later: bool
) -> None:
    """`p` is for all flavors, `q` for g only."""
    checks = (AdmissionCheck("p"), AdmissionCheck("q", frozenset({"g"})))
    assigned = PodSetAssignment("main", 1, {"gpu": flavor}, {"gpu": 1})
    queue = ClusterQueue("cq", checks=checks)
    assert delayed(queue, Admission("cq", (assigned,)), by.split()) is later
