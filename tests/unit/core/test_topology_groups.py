"""A pod set and its leader, placed together."""

from __future__ import annotations

import pytest

from federation.core.types import Taint, Toleration, TopologyRequest
from tests.unit.core.topologies import (
    message,
    node,
    nodes,
    preferred,
    required,
    topology,
    unconstrained,
    where,
    workers,
)

Blocks = dict[str, dict[str, tuple[int, ...]]]

RULES: dict[str, tuple[Blocks, TopologyRequest, int, str, dict[str, int]]] = {
    "the leader needs room in the required rack too": (
        {"b": {"r1": (3,), "r2": (4,)}},
        required("rack"),
        3,
        "r2h1",
        {"r2h1": 3},
    ),
    "the tightest rack with the leader": (
        {"b": {"r1": (9,), "r2": (2, 2), "r3": (3,)}},
        required("rack"),
        3,
        "r2h1",
        {"r2h1": 1, "r2h2": 2},
    ),
    "the tightest host with the leader": (
        {"b": {"r1": (9, 4, 3)}},
        required("rack"),
        3,
        "r1h2",
        {"r1h2": 3},
    ),
    "preferred climbs for the leader's sake": (
        {"b": {"r1": (3,), "r2": (3,)}},
        preferred("rack"),
        3,
        "r1h1",
        {"r1h1": 2, "r2h1": 1},
    ),
    "the domain of the leader first, then the largest": (
        {"b1": {"r1": (4,)}, "b2": {"r2": (6,)}, "b3": {"r3": (5,)}},
        preferred("rack"),
        9,
        "r2h1",
        {"r2h1": 5, "r1h1": 4},
    ),
    "unconstrained: the smallest host that holds both": (
        {"b": {"r1": (3, 9), "r2": (4,)}},
        unconstrained(),
        3,
        "r2h1",
        {"r2h1": 3},
    ),
    "unconstrained: else the smallest first": (
        {"b": {"r1": (2, 3), "r2": (1,)}},
        unconstrained(),
        4,
        "r2h1",
        {"r1h1": 2, "r1h2": 2},
    ),
}


@pytest.mark.parametrize("leader_first", [False, True])
@pytest.mark.parametrize(
    ("blocks", "request_", "count", "leader", "expected"), RULES.values(), ids=RULES
)
def test_leader(
    blocks: Blocks,
    request_: TopologyRequest,
    count: int,
    leader: str,
    expected: dict[str, int],
    leader_first: bool,
) -> None:
    group = [(workers(request_), count), (workers(request_, "leader"), 1)]
    placed = topology(nodes(**blocks)).place(group[::-1] if leader_first else group)
    assert isinstance(placed, list), placed
    first, second = (where(assignment) for assignment in placed)
    if leader_first:
        first, second = second, first
    assert (first, second) == (expected, {leader: 1})


def test_the_leader_goes_where_it_costs_fewest_places_if_all_are_needed() -> None:
    # Beside the leader h1 holds five of its eight, more than h2, which still holds its four.
    given = topology(
        [
            node("b/r/h1", allocatable={"gpu": 8, "memory": 8, "pods": 9}),
            node("b/r/h2", allocatable={"gpu": 4, "memory": 9, "pods": 9}),
        ]
    )
    main = workers(required("rack"), requests={"gpu": 1, "memory": 1})
    leader = workers(required("rack"), "leader", requests={"memory": 3})
    placed = given.place([(main, 12), (leader, 1)])
    assert isinstance(placed, list), placed
    assert [where(assignment) for assignment in placed] == [{"h1": 8, "h2": 4}, {"h2": 1}]


def test_the_leader_has_a_selector_and_tolerations_of_its_own() -> None:
    taint = Taint("head", "", "NoSchedule")
    given = topology([node("b/r/h1", 5), node("b/r/h2", 5, {"head": "yes"}, taints=(taint,))])
    leader = workers(
        required("rack"),
        "leader",
        node_selector=(("head", "yes"),),
        tolerations=(Toleration("head", "Exists"),),
    )
    placed = given.place([(workers(required("rack")), 5), (leader, 1)])
    assert isinstance(placed, list), placed
    assert [where(assignment) for assignment in placed] == [{"h1": 5}, {"h2": 1}]


def test_leader_that_fits_nowhere() -> None:
    given = topology(nodes(b={"r1": (5,)}))
    leader = workers(required("rack"), "head", requests={"fpga": 1})
    text = message(given.place([(workers(required("rack")), 2), (leader, 1)]))
    expected = "doesn't allow to fit any of 2 pod(s), since their leader head fits nowhere"
    assert text == f'topology "T" {expected}'


def test_the_leader_counts_beside_assumed_usage() -> None:
    given = topology([node("b/r/h1", 6)])
    assumed = {("h1",): {"gpu": 2}}
    group = [(workers(required("rack")), 3), (workers(required("rack"), "leader"), 1)]
    assert isinstance(given.place(group, assumed), list)
    group[0] = (group[0][0], 4)
    assert "only 3 out of 4" in message(given.place(group, assumed))


def test_how_many_fit_beside_the_leader() -> None:
    given = topology(nodes(b={"r1": (2, 2), "r2": (3,)}))
    for request, fits in ((required("rack"), 3), (preferred("rack"), 6)):
        text = message(given.place([(workers(request), 7), (workers(request, "head"), 1)]))
        assert text == f'topology "T" allows to fit only {fits} out of 7 pod(s)'


def test_a_leader_without_workers_left_and_workers_without_leader() -> None:
    given = topology(nodes(b={"r1": (2,), "r2": (5,)}))
    for counts, expected in (((0, 1), [{}, {"r1h1": 1}]), ((2, 0), [{"r1h1": 2}, {}])):
        request = required("rack")
        group = zip((workers(request), workers(request, "head")), counts, strict=True)
        placed = given.place(list(group))
        assert isinstance(placed, list), placed
        assert [where(assignment) for assignment in placed] == expected
