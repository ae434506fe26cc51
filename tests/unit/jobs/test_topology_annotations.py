"""Topology: what annotations ask for, and which gated pod is let go where."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.types import TopologyAssignment, TopologyMode, TopologyRequest
from federation.jobs.pods import pod_set
from federation.jobs.topology import Release, releases, selectors, topology_request
from tests.unit.core.build import FEW

Json = dict[str, Any]
PREFIX = "kueue.x-k8s.io/podset-"


def annotations(**given: str) -> dict[str, str]:
    return {PREFIX + key.replace("_", "-"): text for key, text in given.items()}


LAYERS = '[{"topology": "block", "size": 8}, {"topology": "rack", "size": "4"}]'
ASKED: dict[str, tuple[dict[str, str], TopologyRequest | None]] = {
    "nothing": ({}, None),
    "required": (
        annotations(required_topology="rack"),
        TopologyRequest(TopologyMode.REQUIRED, "rack"),
    ),
    "preferred": (
        annotations(preferred_topology="block"),
        TopologyRequest(TopologyMode.PREFERRED, "block"),
    ),
    "unconstrained": (
        annotations(unconstrained_topology="true"),
        TopologyRequest(TopologyMode.UNCONSTRAINED),
    ),
    "unconstrained, said no": (annotations(unconstrained_topology="false"), None),
    "one kind of slices": (
        annotations(required_topology="block", slice_required_topology="rack", slice_size="4"),
        TopologyRequest(TopologyMode.REQUIRED, "block", (("rack", 4),)),
    ),
    "slices alone": (
        annotations(slice_required_topology="rack", slice_size="4"),
        TopologyRequest(TopologyMode.UNCONSTRAINED, "", (("rack", 4),)),
    ),
    "several layers of slices": (
        annotations(preferred_topology="dc", slice_required_topology_constraints=LAYERS),
        TopologyRequest(TopologyMode.PREFERRED, "dc", (("block", 8), ("rack", 4))),
    ),
    "a group": (
        annotations(required_topology="rack", group_name="ring"),
        TopologyRequest(TopologyMode.REQUIRED, "rack", (), "ring"),
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_requests(name: str) -> None:
    """The pod set carries what the template's annotations say."""
    given, expected = ASKED[name]
    assert topology_request(given, 8) == expected
    assert pod_set("main", 8, {"metadata": {"annotations": given}}).topology == expected


def layers(text: str) -> dict[str, str]:
    return annotations(slice_required_topology_constraints=text)


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "two modes": (annotations(required_topology="a", preferred_topology="a"), "exclude each other"),
    "three modes": (
        annotations(required_topology="a", unconstrained_topology="true"),
        "exclude each other",
    ),
    "neither yes nor no": (annotations(unconstrained_topology="maybe"), "'maybe' is not true or"),
    "a slice without a size": (annotations(slice_required_topology="rack"), "go together"),
    "a size without a slice": (annotations(slice_size="2"), "go together"),
    "both ways of slicing": (
        annotations(slice_required_topology="rack", slice_size="2") | layers(LAYERS),
        "stands alone",
    ),
    "a size in words": (
        annotations(slice_required_topology="rack", slice_size="two"),
        "'two' is not a slice size",
    ),
    "a size of zero": (annotations(slice_required_topology="rack", slice_size="0"), "slice size"),
    "a slice larger than the pod set": (
        annotations(slice_required_topology="rack", slice_size="9"),
        "a topology slice of 9 pods is larger than the 8 pods",
    ),
    "layers that are no JSON": (layers("["), "is not a list like"),
    "layers that are no list": (layers("{}"), "1 to 3 different levels"),
    "layers of numbers": (layers("[1]"), "is not a list like"),
    "a layer without a size": (layers('[{"topology": "rack"}]'), "is not a list like"),
    "half a pod": (layers('[{"topology": "rack", "size": 1.5}]'), "is not a list like"),
    "no layers": (layers("[]"), "1 to 3 different levels"),
    "too many layers": (
        layers("[" + ",".join(f'{{"topology": "{c}", "size": 1}}' for c in "abcd") + "]"),
        "1 to 3 different levels",
    ),
    "one level twice": (
        layers('[{"topology": "a", "size": 2}, {"topology": "a", "size": 1}]'),
        "1 to 3 different levels",
    ),
    "layers that do not divide": (
        layers('[{"topology": "a", "size": 8}, {"topology": "b", "size": 3}]'),
        "slices of 8 pods cannot be cut into slices of 3",
    ),
    "deep nesting": (layers("[" * 100_000), "is not a list like"),
    "a group without a topology": (annotations(group_name="ring"), "needs a required or preferred"),
    "a group with slices": (
        annotations(
            required_topology="b", group_name="g", slice_required_topology="r", slice_size="2"
        ),
        "allows no slices",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_requests_that_make_no_sense(name: str) -> None:
    """They are told, and the pod set can still be shown."""
    given, text = REFUSED[name]
    with pytest.raises(ValueError, match=text):
        topology_request(given, 8)
    assert pod_set("main", 8, {"metadata": {"annotations": given}}).topology is None


PLACED = TopologyAssignment(("block", "rack"), ((("b1", "r1"), 2), (("b1", "r2"), 1)))
R1, R2 = {"block": "b1", "rack": "r1"}, {"block": "b1", "rack": "r2"}


def pod(name: str, index: int | None = None, at: Json | None = None, phase: str = "") -> Json:
    labels = {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)}
    gates = [] if at else [{"name": "other"}, {"name": "kueue.x-k8s.io/topology"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulingGates": gates, "nodeSelector": {"more": "1", **(at or {})}},
        "status": {"phase": phase or "Pending"},
    }


RELEASED: dict[str, tuple[list[Json], list[Release]]] = {
    "no pods": ([], []),
    "by name": (
        [pod("c"), pod("a"), pod("b")],
        [Release("a", R1), Release("b", R1), Release("c", R2)],
    ),
    "what the domains have left": (
        [pod("a", at=R2), pod("b"), pod("c", at=R1)],
        [Release("b", R1)],
    ),
    "no more pods than places": (
        [pod("a", at=R2), pod("b"), pod("c", at=R1), pod("d")],
        [Release("b", R1)],
    ),
    "a pod that failed makes room": (
        [pod("a", at=R2, phase="Failed"), pod("b"), pod("c", at=R1), pod("d", at=R1)],
        [Release("b", R2)],
    ),
    "a pod from elsewhere takes no place": (
        [pod("a", at={"rack": "r9"}), pod("b")],
        [Release("b", R1)],
    ),
    "by rank": (
        [pod("x", 2), pod("y", 0), pod("z", 1)],
        [Release("x", R2), Release("y", R1), Release("z", R1)],
    ),
    "a rank that comes late gets its own place": (
        [pod("x", 1, at=R1), pod("y", 2)],
        [Release("y", R2)],
    ),
    "a rank again after a failure": (
        [pod("x", 0, at=R1, phase="Failed"), pod("y", 0), pod("z", 1, at=R1), pod("w", 2, at=R2)],
        [Release("y", R1)],
    ),
    "ranks beyond the places are names": (
        [pod("x", 7), pod("y", 0)],
        [Release("x", R1), Release("y", R1)],
    ),
    "ranks that sit elsewhere leave what is left": (
        [pod("x", 0, at=R2), pod("y", 2)],
        [Release("y", R1)],
    ),
    "a rank twice is no rank": (
        [pod("x", 2), pod("y", 2)],
        [Release("x", R1), Release("y", R1)],
    ),
}


@pytest.mark.parametrize("name", RELEASED)
def test_releases(name: str) -> None:
    """Each gated pod with the node selector under which it may be scheduled."""
    pods, expected = RELEASED[name]
    assert releases(PLACED, pods) == expected


@FEW
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.tuples(st.booleans(), st.one_of(st.none(), st.integers(0, 9))), max_size=9),
)
def test_no_domain_gets_more_than_its_pods(
    counts: list[int], rest: list[tuple[bool, int | None]]
) -> None:
    """Whatever pods there are, gated or placed, ranked or not."""
    assignment = TopologyAssignment(("h",), tuple(((f"n{i}",), c) for i, c in enumerate(counts)))
    places = list(chain.from_iterable([s] * n for s, n in selectors(assignment)))
    pods = []
    for number, (placed, index) in enumerate(rest):
        seat = places.pop(0) if placed and places else None
        pods.append(pod(f"p{number}", index, at=seat))
    found = releases(assignment, pods)
    taken = [p["spec"]["nodeSelector"].get("h") for p in pods]
    for selector, count in selectors(assignment):
        released = sum(release.node_selector == selector for release in found)
        assert released + taken.count(selector["h"]) <= count
