"""Nodes that fail under an assignment: what is on the others stays, the lost pods move."""

from __future__ import annotations

import pytest

from federation.core.topology import HOSTNAME, FlavorTopology
from federation.core.types import TopologyAssignment, TopologyRequest
from tests.unit.core.topologies import (
    message,
    nodes,
    preferred,
    required,
    topology,
    unconstrained,
    where,
    workers,
)

Blocks = dict[str, dict[str, tuple[int, ...]]]
Pods = dict[str, int]


def assigned(**pods: int) -> TopologyAssignment:
    """Pods by hostname."""
    return TopologyAssignment((HOSTNAME,), tuple(((host,), count) for host, count in pods.items()))


def running(blocks: Blocks, assignment: TopologyAssignment) -> FlavorTopology:
    """The topology with the assignment charged."""
    given = topology(nodes(**blocks))
    given.add(assignment, {"gpu": 1})
    return given


MOVES: dict[str, tuple[Blocks, TopologyRequest | None, Pods, set[str], Pods]] = {
    "to the tightest host of the required rack": (
        {"b": {"r1": (3, 3, 4, 3), "r2": (3,)}},
        required("rack"),
        {"r1h1": 3, "r1h2": 2},
        {"r1h2"},
        {"r1h1": 3, "r1h4": 2},
    ),
    "also onto hosts that already run some": (
        {"b": {"r1": (3, 3), "r2": (9,)}},
        required("rack"),
        {"r1h1": 1, "r1h2": 2},
        {"r1h2"},
        {"r1h1": 3},
    ),
    "to any rack if none of the pods is left": (
        {"b": {"r1": (3, 1), "r2": (4,)}},
        required("rack"),
        {"r1h1": 3},
        {"r1h1"},
        {"r2h1": 3},
    ),
    "several nodes at once": (
        {"b": {"r1": (2, 2, 2, 2, 2)}},
        required("rack"),
        {"r1h1": 2, "r1h2": 2, "r1h3": 2},
        {"r1h1", "r1h3"},
        {"r1h2": 2, "r1h4": 2, "r1h5": 2},
    ),
    "to the preferred rack if it has room": (
        {"b": {"r1": (2, 2, 5), "r2": (2,)}},
        preferred("rack"),
        {"r1h1": 2, "r1h2": 2},
        {"r1h2"},
        {"r1h1": 2, "r1h3": 2},
    ),
    "else out of the preferred rack": (
        {"b": {"r1": (2, 2), "r2": (2,)}},
        preferred("rack"),
        {"r1h1": 2, "r1h2": 2},
        {"r1h2"},
        {"r1h1": 2, "r2h1": 2},
    ),
    "unconstrained to the host with least room": (
        {"b": {"r1": (2, 2, 5), "r2": (3,)}},
        None,
        {"r1h1": 2, "r1h2": 2},
        {"r1h2"},
        {"r1h1": 2, "r2h1": 2},
    ),
    "a broken slice is completed in its rack": (
        {"b": {"r1": (2, 2, 2), "r2": (2, 2), "r3": (9,)}},
        unconstrained(("rack", 4)),
        {"r1h1": 2, "r1h2": 2, "r2h1": 2, "r2h2": 2},
        {"r1h2"},
        {"r1h1": 2, "r1h3": 2, "r2h1": 2, "r2h2": 2},
    ),
    "a slice that is lost as a whole goes to another rack": (
        {"b": {"r1": (4, 2), "r2": (4,), "r3": (4,)}},
        required("block", ("rack", 4)),
        {"r1h1": 4, "r2h1": 4},
        {"r1h1"},
        {"r2h1": 4, "r3h1": 4},
    ),
    "a broken slice and whole ones": (
        {"b": {"r1": (2, 6, 2), "r2": (4,)}},
        required("block", ("rack", 4)),
        {"r1h1": 2, "r1h2": 6},
        {"r1h2"},
        {"r1h1": 2, "r1h3": 2, "r2h1": 4},
    ),
    "slices inside slices are completed from within": (
        {"b1": {"r1": (1, 1, 2), "r2": (2, 2)}, "b2": {"r3": (9,)}},
        unconstrained(("block", 4), ("rack", 2)),
        {"r1h1": 1, "r1h2": 1, "r2h1": 2},
        {"r1h2", "r2h1"},
        {"r1h1": 1, "r1h3": 1, "r2h2": 2},
    ),
    "nothing lost": (
        {"b": {"r1": (2, 2)}},
        required("rack"),
        {"r1h1": 2},
        {"r1h2"},
        {"r1h1": 2},
    ),
}


@pytest.mark.parametrize(
    ("blocks", "request_", "pods", "failed", "expected"), MOVES.values(), ids=MOVES
)
def test_moves(
    blocks: Blocks, request_: TopologyRequest | None, pods: Pods, failed: set[str], expected: Pods
) -> None:
    given = running(blocks, assigned(**pods))
    moved = given.replace(assigned(**pods), frozenset(failed), workers(request_))
    assert where(moved) == expected


def test_no_room_in_the_required_rack() -> None:
    before = assigned(r1h1=2, r1h2=2)
    given = running({"b": {"r1": (2, 2, 1), "r2": (9,)}}, before)
    text = message(given.replace(before, frozenset({"r1h2"}), workers(required("rack"))))
    assert text == (
        'topology "T" allows to fit only 1 out of 2 pod(s). Total nodes: 4; excluded: '
        'resource "gpu": 1, topologyDomain: 1, unhealthy: 1'
    )


def test_no_room_to_complete_a_slice() -> None:
    before = assigned(r1h1=2, r1h2=2)
    given = running({"b": {"r1": (2, 2), "r2": (9,)}}, before)
    request = unconstrained(("rack", 4))
    text = message(given.replace(before, frozenset({"r1h2"}), workers(request)))
    assert "doesn't allow to fit any of 2 pod(s)" in text


def test_another_node_of_the_assignment_is_gone() -> None:
    given = topology(nodes(b={"r1": (2, 2)}))
    before = assigned(r1h1=2, lost=2)
    text = message(given.replace(before, frozenset({"r1h1"}), workers()))
    assert text.startswith('pods run on lost, which is no longer in topology "T"')
    moved = given.replace(before, frozenset({"r1h1", "lost"}), workers())
    assert "only 2 out of 4" in message(moved)


def test_level_that_the_topology_no_longer_has() -> None:
    given = topology(nodes(b={"r1": (2, 2)}))
    text = message(given.replace(assigned(r1h1=2), frozenset({"r1h1"}), workers(required("zone"))))
    assert 'has no level "zone"' in text


def test_what_other_pod_sets_are_about_to_take_is_respected() -> None:
    before = assigned(r1h1=2)
    given = running({"b": {"r1": (2, 2, 3)}}, before)
    assumed = given.usage_of(assigned(r1h2=1), {"gpu": 1})
    moved = given.replace(before, frozenset({"r1h1"}), workers(required("rack")), assumed)
    assert where(moved) == {"r1h3": 2}


def test_a_leader_stays_with_its_group() -> None:
    leader, group = assigned(r1h2=1), assigned(r1h1=2)
    given = running({"b": {"r1": (2, 1, 3), "r2": (1,)}}, group)
    given.add(leader, {"gpu": 1})
    failed, pods = frozenset({"r1h2"}), workers(required("rack"), "leader")
    assert where(given.replace(leader, failed, pods)) == {"r2h1": 1}
    assert where(given.replace(leader, failed, pods, group=group)) == {"r1h3": 1}
    full = given.usage_of(assigned(r1h3=3), {"gpu": 1})
    assert "topologyDomain: 1" in message(given.replace(leader, failed, pods, full, group))


def test_a_slice_that_was_never_full() -> None:
    before = assigned(r1h1=2, r2h1=2, r3h1=1)
    given = running({"b": {"r1": (2,), "r2": (2,), "r3": (1, 1), "r4": (2,)}}, before)
    moved = given.replace(before, frozenset({"r2h1"}), workers(required("block", ("rack", 2))))
    assert where(moved) == {"r1h1": 2, "r3h1": 1, "r3h2": 1, "r4h1": 1}


def test_above_the_hostname() -> None:
    levels = ("block", "rack")
    given = topology(nodes(b={"r1": (2,), "r2": (2,), "r3": (5,)}), levels)
    before = TopologyAssignment(levels, ((("b", "r1"), 2), (("b", "r2"), 2)))
    given.add(before, {"gpu": 1})
    moved = given.replace(before, frozenset({"r1"}), workers(preferred("block")))
    assert moved == TopologyAssignment(levels, ((("b", "r2"), 2), (("b", "r3"), 2)))
