"""Where pods are placed: the worked examples of the specification and its rules, one by one."""

from __future__ import annotations

import pytest

from federation.core.topology import HOSTNAME, FlavorTopology
from federation.core.types import TopologyRequest
from tests.unit.core.topologies import (
    nodes,
    preferred,
    put,
    refuse,
    required,
    topology,
    unconstrained,
    where,
    workers,
)


@pytest.fixture
def example() -> FlavorTopology:
    """The block of the specification."""
    return topology(nodes(block={"r1": (4, 2), "r2": (3, 3)}))


def test_required_rack_that_holds_all(example: FlavorTopology) -> None:
    assert put(example, required("rack"), 6) == {"r1h1": 4, "r1h2": 2}


def test_required_rack_with_one_pod_too_many(example: FlavorTopology) -> None:
    text = refuse(example, required("rack"), 7)
    assert text == 'topology "T" allows to fit only 6 out of 7 pod(s)'


def test_preferred_rack_climbs_to_the_block(example: FlavorTopology) -> None:
    assert put(example, preferred("rack"), 7) == {"r1h1": 4, "r2h1": 3}


def test_unconstrained_takes_the_least_free_host_that_fits(example: FlavorTopology) -> None:
    assert put(example, unconstrained(), 2) == {"r1h2": 2}


BEST_FIT = {
    "the tightest rack that holds all": (
        {"b": {"r1": (8,), "r2": (5,), "r3": (6,)}},
        required("rack"),
        {5: {"r2h1": 5}, 6: {"r3h1": 6}, 7: {"r1h1": 7}},
    ),
    "equal racks in the order of their names": (
        {"b": {"r2": (2, 2), "r1": (1, 3)}},
        required("rack"),
        {4: {"r1h1": 1, "r1h2": 3}},
    ),
    "the largest hosts first, the last piece in the tightest": (
        {"b": {"r1": (5, 3, 4, 2)}},
        required("rack"),
        {8: {"r1h1": 5, "r1h2": 3}, 7: {"r1h1": 5, "r1h4": 2}, 6: {"r1h1": 5, "r1h4": 1}},
    ),
    "one host rather than many small ones": (
        {"b": {"r1": (1, 1, 1, 9)}},
        required("rack"),
        {3: {"r1h4": 3}, 10: {"r1h4": 9, "r1h1": 1}},
    ),
    "hosts are packed over all chosen racks, not rack by rack": (
        {"b": {"r1": (5, 1), "r2": (4, 1)}},
        required("block"),
        {9: {"r1h1": 5, "r2h1": 4}},
    ),
    "only racks that the level above needs are packed": (
        {"b": {"r1": (2, 2, 2), "r2": (5,)}},
        required("block"),
        {6: {"r1h1": 2, "r1h2": 2, "r1h3": 2}},
    ),
    "preferred stays at the level that holds all": (
        {"b1": {"r1": (2,), "r2": (3,)}},
        preferred("rack"),
        {3: {"r2h1": 3}, 2: {"r1h1": 2}},
    ),
    "preferred climbs to the tightest block": (
        {"b1": {"r1": (2,), "r2": (2,)}, "b2": {"r3": (2,), "r4": (3,)}},
        preferred("rack"),
        {4: {"r1h1": 2, "r2h1": 2}},
    ),
    "preferred spreads over blocks when none holds all": (
        {"b1": {"r1": (2, 1)}, "b2": {"r2": (4,)}, "b3": {"r3": (2,)}},
        preferred("rack"),
        {6: {"r2h1": 4, "r3h1": 2}, 9: {"r1h1": 2, "r1h2": 1, "r2h1": 4, "r3h1": 2}},
    ),
    "required at the hostname": (
        {"b": {"r1": (2, 4), "r2": (3,)}},
        required(HOSTNAME),
        {3: {"r2h1": 3}, 4: {"r1h2": 4}},
    ),
}

LEAST_FREE = {
    "the smallest host that holds all": (
        {"b": {"r1": (9, 3), "r2": (4,)}},
        unconstrained(),
        {4: {"r2h1": 4}, 1: {"r1h2": 1}},
    ),
    "else the smallest first, without those that hold nothing": (
        {"b": {"r1": (3, 1), "r2": (2, 0)}},
        unconstrained(),
        {4: {"r1h2": 1, "r2h1": 2, "r1h1": 1}},
    ),
    "without a request it is implied": (
        {"b": {"r1": (9, 3), "r2": (4,)}},
        None,
        {4: {"r2h1": 4}},
    ),
    "slices alone begin at the highest level": (
        {"b1": {"r1": (4,), "r2": (2,)}, "b2": {"r3": (2,), "r4": (2,)}},
        unconstrained(("rack", 2)),
        {4: {"r3h1": 2, "r4h1": 2}, 6: {"r1h1": 4, "r2h1": 2}},
    ),
    "further down smallest-first again, even if one rack held all": (
        {"b1": {"r1": (4,), "r2": (2,)}},
        unconstrained(("rack", 2)),
        {4: {"r1h1": 2, "r2h1": 2}},
    ),
}

SLICES = {
    "what is less than a slice does not count": (
        {"b": {"r1": (3, 3), "r2": (4,)}},
        required("block", (HOSTNAME, 2)),
        {4: {"r2h1": 4}, 6: {"r2h1": 4, "r1h1": 2}},
    ),
    "a slice may span the hosts of its rack": (
        {"b": {"r1": (1, 3), "r2": (3,)}},
        required("block", ("rack", 4)),
        {4: {"r1h1": 1, "r1h2": 3}},
    ),
    "equal slices go where fewer pods would be left over": (
        {"b": {"r1": (5,), "r2": (4,)}},
        required("block", ("rack", 4)),
        {4: {"r2h1": 4}},
    ),
    "the same between racks that each hold all": (
        {"b": {"r1": (5,), "r2": (4,)}},
        required("rack", ("rack", 4)),
        {4: {"r2h1": 4}},
    ),
    "slices are packed over the racks of all chosen blocks": (
        {"b1": {"r1": (4,), "r2": (2,)}, "b2": {"r3": (4,), "r4": (2,)}},
        preferred("rack", ("rack", 2)),
        {8: {"r1h1": 4, "r3h1": 4}},
    ),
    "below the slice level the hosts with least room come first": (
        {"b": {"r1": (1, 4, 2)}},
        required("rack", ("rack", 4)),
        {4: {"r1h1": 1, "r1h3": 2, "r1h2": 1}},
    ),
    "slices inside slices": (
        {"b": {"r1": (3, 3), "r2": (4, 1)}},
        required("block", ("rack", 4), (HOSTNAME, 2)),
        {8: {"r1h1": 2, "r1h2": 2, "r2h1": 4}},
    ),
    "the levels between two kinds of slices hand down the inner ones whole": (
        {"b1": {"r1": (3,), "r2": (3,)}, "b2": {"r3": (2,), "r4": (2,)}},
        unconstrained(("block", 4), (HOSTNAME, 2)),
        {4: {"r1h1": 2, "r2h1": 2}, 8: {"r1h1": 2, "r2h1": 2, "r3h1": 2, "r4h1": 2}},
    ),
    "three kinds": (
        {"b1": {"r1": (4, 1), "r2": (2, 2)}, "b2": {"r3": (3, 3), "r4": (9,)}},
        unconstrained(("block", 8), ("rack", 4), (HOSTNAME, 2)),
        {8: {"r1h1": 4, "r2h1": 2, "r2h2": 2}},
    ),
    "a slice that is not full gets the room of a full one, the last": (
        {"b": {"r1": (2,), "r2": (2,), "r3": (2,)}},
        required("block", ("rack", 2)),
        {5: {"r1h1": 2, "r2h1": 2, "r3h1": 1}, 1: {"r1h1": 1}},
    ),
}


@pytest.mark.parametrize(
    ("blocks", "request_", "count", "expected"),
    [
        pytest.param(blocks, request_, count, expected, id=f"{name}: {count}")
        for name, (blocks, request_, counts) in (BEST_FIT | LEAST_FREE | SLICES).items()
        for count, expected in counts.items()
    ],
)
def test_rules(
    blocks: dict[str, dict[str, tuple[int, ...]]],
    request_: TopologyRequest | None,
    count: int,
    expected: dict[str, int],
) -> None:
    assert put(topology(nodes(**blocks)), request_, count) == expected


def test_assignment_names_the_hostname_alone_in_order_of_all_levels() -> None:
    given = topology(nodes(b2={"a": (1,)}, b1={"z": (1,)}))
    (assignment,) = given.place([(workers(preferred("block")), 2)])
    assert assignment.levels == (HOSTNAME,)
    assert assignment.domains == ((("zh1",), 1), (("ah1",), 1))


def test_assignment_of_a_topology_without_hostname_names_all_levels() -> None:
    given = topology(nodes(b1={"r1": (1, 2)}, b2={"r1": (2,)}), ("block", "rack"))
    (assignment,) = given.place([(workers(preferred("rack")), 5)])
    assert assignment.levels == ("block", "rack")
    assert assignment.domains == ((("b1", "r1"), 3), (("b2", "r1"), 2))


def test_nothing_to_place_is_an_empty_assignment(example: FlavorTopology) -> None:
    assert where(example.place([(workers(required("rack")), 0)])) == {}
    assert example.place([]) == []
