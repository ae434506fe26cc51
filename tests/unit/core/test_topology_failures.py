"""What is said when pods cannot be placed, and requests that make no sense in a topology."""

from __future__ import annotations

import pytest

from federation.core.topology import HOSTNAME
from federation.core.types import Taint, TopologyRequest
from tests.unit.core.topologies import (
    message,
    node,
    nodes,
    preferred,
    put,
    refuse,
    required,
    topology,
    unconstrained,
    workers,
)

BLOCKS = {"b1": {"r1": (3, 2), "r2": (4,)}, "b2": {"r3": (2, 2)}}

SHORTAGES = {
    "required: what the best domain holds": (required("rack"), 6, "only 5 out of 6 pod(s)"),
    "required, in slices": (
        required("rack", (HOSTNAME, 2)),
        6,
        "only 2 out of 3 slice(s)",
    ),
    "preferred: what all of them hold": (preferred("rack"), 15, "only 13 out of 15 pod(s)"),
    "unconstrained": (unconstrained(), 15, "only 13 out of 15 pod(s)"),
    "unconstrained, in slices": (unconstrained(("rack", 4)), 16, "only 3 out of 4 slice(s)"),
    "slices of one are pods": (unconstrained(("rack", 1)), 14, "only 13 out of 14 pod(s)"),
    "a slice that is not full counts": (unconstrained(("rack", 4)), 13, "only 3 out of 4 slice(s)"),
    "more than can be": (None, 2**70, f"only 13 out of {2**70} pod(s)"),
}


@pytest.mark.parametrize(("request_", "count", "text"), SHORTAGES.values(), ids=SHORTAGES)
def test_shortage(request_: TopologyRequest | None, count: int, text: str) -> None:
    given = topology(nodes(**BLOCKS))
    assert refuse(given, request_, count) == f'topology "T" allows to fit {text}'


def test_not_even_one() -> None:
    given = topology([node("b/r/h1", 0), node("b/r/h2", 1)])
    text = refuse(given, required("rack", ("rack", 2)), 4)
    expected = '2 slice(s). Total nodes: 2; excluded: resource "gpu": 1'
    assert text == f'topology "T" doesn\'t allow to fit any of {expected}'


def test_reasons_are_counted_and_sorted() -> None:
    taint = Taint("t", "", "NoSchedule")
    given = topology(
        [
            node("b/r/h1", taints=(taint,)),
            node("b/r/h2", 0),
            node("b/r/h3", 0),
            node("b/r/h4", allocatable={"gpu": 1}),
            node("b/r/h5", ready=False),
            node("b/r/h6", labels={"disk": "slow"}),
            node("b/r/h7", labels={"disk": "fast", "zone": "z"}),
        ]
    )
    pods = workers(
        required("rack"),
        affinity=((("disk", "NotIn", ("slow",)),),),
        node_selector=(("pool", "x"),),
    )
    assert message(given.place([(pods, 2)])) == (
        'topology "T" allows to fit only 1 out of 2 pod(s). Total nodes: 7; excluded: affinity: 1, '
        'notReady: 1, resource "gpu": 2, resource "pods": 1, taint "t:NoSchedule": 1'
    )


def test_no_nodes() -> None:
    text = refuse(topology([]), unconstrained(), 1)
    assert text.startswith('topology "T" has no domain in flavor f: ')


LEVELS_ARE = f"its levels are: block, rack, {HOSTNAME}"
BAD = {
    "unknown level": (required("zone"), f'topology "T" has no level "zone"; {LEVELS_ARE}'),
    "unknown preferred level": (preferred(""), f'topology "T" has no level ""; {LEVELS_ARE}'),
    "unknown slice level": (
        unconstrained(("zone", 2)),
        f'topology "T" has no level "zone"; {LEVELS_ARE}',
    ),
    "unknown level of slices inside": (
        unconstrained(("block", 2), ("zone", 1)),
        f'topology "T" has no level "zone"; {LEVELS_ARE}',
    ),
    "slices above the requested level": (
        required("rack", ("block", 2)),
        "slices at level block cannot be kept within one domain of rack, which is a lower level: "
        "name a level at or below it",
    ),
    "slices of nothing": (
        required("rack", ("rack", 0)),
        "a slice of 0 pods: the size must be at least 1",
    ),
    "slices inside out": (
        unconstrained(("rack", 4), ("block", 2)),
        "slices at level block cannot be inside those at rack: "
        "name the levels from the highest down",
    ),
    "slices twice at a level": (
        unconstrained(("rack", 4), ("rack", 2)),
        "slices at level rack cannot be inside those at rack: "
        "name the levels from the highest down",
    ),
    "slices that do not divide": (
        unconstrained(("block", 4), ("rack", 3)),
        "slices of 4 pods are not made of whole slices of 3",
    ),
    "too many kinds of slices": (
        unconstrained(("block", 8), ("rack", 4), (HOSTNAME, 2), (HOSTNAME, 1)),
        "slices at 4 levels: at most 3 are possible",
    ),
}


@pytest.mark.parametrize(("request_", "text"), BAD.values(), ids=BAD)
def test_requests_that_make_no_sense(request_: TopologyRequest, text: str) -> None:
    assert refuse(topology(nodes(**BLOCKS)), request_, 2) == text


def test_topology_without_levels() -> None:
    given = topology(nodes(**BLOCKS), ())
    for request in (None, unconstrained(), required("rack")):
        assert "has no level" in refuse(given, request, 1)


GROUPS = {
    "two large pod sets": ((2, 3), "not main: 2, other: 3"),
    "three pod sets": ((1, 1, 1), "not main: 1, other: 1, third: 1"),
    "fewer pods than none": ((-1,), "fewer than none (main: -1)"),
}


@pytest.mark.parametrize(("counts", "text"), GROUPS.values(), ids=GROUPS)
def test_counts_that_make_no_sense(counts: tuple[int, ...], text: str) -> None:
    names = ("main", "other", "third")
    group = [(workers(required("rack"), name), n) for name, n in zip(names, counts, strict=False)]
    assert text in message(topology(nodes(**BLOCKS)).place(group))


def test_topology_of_one_level() -> None:
    given = topology(nodes(**BLOCKS), (HOSTNAME,))
    assert put(given, required(HOSTNAME), 3) == {"r1h1": 3}
    assert put(given, unconstrained((HOSTNAME, 2)), 6) == {"r1h2": 2, "r3h1": 2, "r3h2": 2}
