"""Which nodes count, what is free on them, and which pods they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from federation.core.topology import HOSTNAME, FlavorTopology
from federation.core.types import (
    PodSet,
    ResourceFlavor,
    Taint,
    Toleration,
    TopologyAssignment,
)
from tests.unit.core.topologies import (
    FLAVOR,
    message,
    node,
    preferred,
    put,
    refuse,
    required,
    topology,
    unconstrained,
    where,
    workers,
)

ON_H1 = TopologyAssignment((HOSTNAME,), ((("h1",), 2),))


def free(given: FlavorTopology, host: str, resource: str = "gpu") -> int:
    """What `fits` still lets pass, which tells also by how much a host is over-used."""
    return next(n for n in range(200, -200, -1) if given.fits({(host,): {resource: n}}))


def test_only_nodes_of_the_flavor_with_all_levels_count() -> None:
    given = topology(
        [
            node("b/r/h1"),
            node("b/r/h2", labels={"pool": "other"}),
            node("b/r/h3", labels={"rack": ""}),
        ]
    )
    rackless = node("b/r/h4")
    rackless = type(rackless)("h4", {"pool": "x", HOSTNAME: "h4"}, rackless.allocatable)
    assert put(given, preferred("block"), 2) == {"h1": 1, "h3": 1}
    assert "has no domain" in refuse(topology([rackless]), unconstrained(), 1)


def test_two_nodes_of_one_hostname_count_once() -> None:
    twin = node("b/r2/h1", 5)
    given = topology([node("b/r1/h1", 2), type(twin)("z", twin.labels, twin.allocatable)])
    assert put(given, None, 2) == {"h1": 2}
    assert "only 2 out of 3" in refuse(given, None, 3)


CAPACITY: dict[str, tuple[dict[str, int], dict[str, int], dict[str, int], int]] = {
    "the scarcest resource limits": (
        {"gpu": 9, "cpu": 3500, "pods": 9},
        {},
        {"gpu": 1, "cpu": 1000},
        3,
    ),
    "every pod is one of the node's pods": ({"gpu": 9, "pods": 4}, {}, {"gpu": 1}, 4),
    "requests for nothing are limited by the number of pods": ({"pods": 3}, {}, {"gpu": 0}, 3),
    "no requests at all": ({"pods": 2}, {}, {}, 2),
    "pods of others take room": ({"gpu": 9, "pods": 10}, {"gpu": 4, "pods": 7}, {"gpu": 1}, 3),
    "a node that does not say how many pods it takes takes none": ({"gpu": 4}, {}, {"gpu": 1}, 0),
    "a resource the node does not have": ({"pods": 4}, {}, {"gpu": 1}, 0),
    "used beyond what there is": ({"gpu": 2, "pods": 9}, {"gpu": 3}, {"gpu": 1}, 0),
    "used of what there is not": ({"pods": 9}, {"gpu": 3}, {"gpu": 1}, 0),
    "amounts beyond what can be counted": ({"gpu": 2, "pods": 9}, {}, {"gpu": 2**63}, 0),
}


@pytest.mark.parametrize(
    ("allocatable", "used", "requests", "most"), CAPACITY.values(), ids=CAPACITY
)
def test_capacity(
    allocatable: dict[str, int], used: dict[str, int], requests: dict[str, int], most: int
) -> None:
    given = topology([node("b/r/h1", allocatable=allocatable, used=used)])
    if most:
        assert put(given, required("rack"), most, requests=requests) == {"h1": most}
        assert f"only {most} out of" in refuse(given, None, most + 1, requests=requests)
    else:
        assert "doesn't allow to fit any" in refuse(given, None, 1, requests=requests)


def test_what_is_charged_is_not_free_until_given_back() -> None:
    given = topology([node("b/r/h1", 3), node("b/r/h2", 2)])
    given.add(ON_H1, {"gpu": 1})
    assert (free(given, "h1"), free(given, "h1", "pods")) == (1, 98)
    assert put(given, required("rack"), 3) == {"h2": 2, "h1": 1}
    given.remove(ON_H1, {"gpu": 1})
    assert (free(given, "h1"), free(given, "h1", "pods")) == (3, 100)


def test_over_use_is_remembered() -> None:
    given = topology([node("b/r/h1", 1)])
    given.add(ON_H1, {"gpu": 1, "fpga": 1})
    assert (free(given, "h1"), free(given, "h1", "fpga")) == (-1, -2)
    assert "doesn't allow" in refuse(given, None, 1)
    given.remove(ON_H1, {"gpu": 1, "fpga": 1})
    assert (free(given, "h1"), free(given, "h1", "fpga")) == (1, 0)


def test_usage_on_nodes_that_are_gone_is_passed_over() -> None:
    given = topology([node("b/r/h2", 1)])
    given.add(ON_H1, {"gpu": 1})
    assert not given.fits({("h1",): {"gpu": 0}})
    given.remove(ON_H1, {"gpu": 1})
    assert free(given, "h2") == 1


def test_an_assignment_that_spells_out_all_levels_is_understood() -> None:
    given = topology([node("b/r/h1", 3)])
    given.add(TopologyAssignment(("block", "rack", HOSTNAME), ((("b", "r", "h1"), 2),)), {"gpu": 1})
    assert free(given, "h1") == 1


def test_empty_ignores_what_is_charged_but_not_other_pods() -> None:
    given = topology([node("b/r/h1", 3, used={"gpu": 1})])
    given.add(ON_H1, {"gpu": 1})
    pods = [(workers(required("rack")), 2)]
    assert "doesn't allow" in message(given.place(pods))
    assert where(given.place(pods, empty=True)) == {"h1": 2}
    assert "only 2 out of 3" in message(given.place([(workers(), 3)], empty=True))


@pytest.mark.parametrize("empty", [False, True])
def test_assumed_usage_of_the_same_workload_always_counts(empty: bool) -> None:
    given = topology([node("b/r/h1", 3), node("b/r/h2", 3), node("b/r/h3", 0)])
    if empty:
        given.add(ON_H1, {"gpu": 1})
    assumed = given.usage_of(ON_H1, {"gpu": 1})
    assert assumed == {("h1",): {"gpu": 2, "pods": 2}}
    placed = given.place([(workers(required("rack")), 4)], assumed, empty=empty)
    assert where(placed) == {"h2": 3, "h1": 1}
    assumed[("gone",)] = {"gpu": 1}
    text = message(given.place([(workers(required("rack")), 5)], assumed, empty=empty))
    assert text.endswith('only 4 out of 5 pod(s). Total nodes: 3; excluded: resource "gpu": 1')


def test_the_same_domain_twice_in_an_assignment_adds_up() -> None:
    given = topology([node("b/r/h1", 9)])
    twice = TopologyAssignment((HOSTNAME,), ((("h1",), 2), (("h1",), 3)))
    assert given.usage_of(twice, {"gpu": 1}) == {("h1",): {"gpu": 5, "pods": 5}}
    given.add(twice, {"gpu": 1})
    assert free(given, "h1") == 4


TAINT = Taint("key", "value", "NoSchedule")
TOLERATES = Toleration("key", "Equal", "value")
FAST = (("disk", "In", ("fast",)),)
REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "not ready": ({"ready": False}, {}, "notReady: 1"),
    "unschedulable": ({"unschedulable": True}, {}, "unschedulable: 1"),
    "a taint": ({"taints": (TAINT,)}, {}, 'taint "key=value:NoSchedule": 1'),
    "a taint that evicts, without a value": (
        {"taints": (Taint("key", "", "NoExecute"),)},
        {"tolerations": (TOLERATES,)},
        'taint "key:NoExecute": 1',
    ),
    "a taint that is tolerated": ({"taints": (TAINT,)}, {"tolerations": (TOLERATES,)}, ""),
    "a taint that is only a preference": (
        {"taints": (Taint("key", "", "PreferNoSchedule"),)},
        {},
        "",
    ),
    "selector": ({}, {"node_selector": (("disk", "fast"),)}, "nodeSelector: 1"),
    "selector that holds": (
        {"labels": {"disk": "fast"}},
        {"node_selector": (("disk", "fast"),)},
        "",
    ),
    "affinity": ({"labels": {"disk": "slow"}}, {"affinity": (FAST,)}, "affinity: 1"),
    "one of the terms of the affinity": (
        {"labels": {"disk": "slow"}},
        {"affinity": (FAST, (("disk", "NotIn", ("fast",)),))},
        "",
    ),
}


@pytest.mark.parametrize(("fields", "pods", "reason"), REFUSALS.values(), ids=REFUSALS)
def test_a_node_refuses_pods(fields: dict[str, Any], pods: dict[str, Any], reason: str) -> None:
    given = topology([node("b/r/h1", 9, **fields), node("b/r/h2", 1, labels={"disk": "fast"})])
    if reason:
        text = refuse(given, required("rack"), 2, **pods)
        assert text.endswith(f"only 1 out of 2 pod(s). Total nodes: 2; excluded: {reason}")
    else:
        assert put(given, required("rack"), 9, **pods) == {"h1": 9}


def test_the_flavor_tolerates_for_the_pods() -> None:
    flavor = ResourceFlavor("f", FLAVOR.node_labels, tolerations=(TOLERATES,))
    assert put(topology([node("b/r/h1", taints=(TAINT,))], flavor=flavor), None, 1) == {"h1": 1}


def test_what_is_remembered_of_refusals_does_not_mix_up_shapes_of_pods() -> None:
    given = topology([node("b/r/h1", labels={"disk": "slow"}), node("b/r/h2", taints=(TAINT,))])
    for number in range(300):
        assert "nodeSelector: 1" in refuse(given, None, 1, node_selector=(("n", str(number)),))
    assert put(given, None, 1, tolerations=(TOLERATES,), node_selector=(("rack", "r"),)) == {
        "h1": 1
    }
    assert "affinity: 1" in refuse(given, None, 1, affinity=(FAST,))
    assert put(given, None, 1) == {"h1": 1}


def test_above_the_hostname_leaves_are_sums_of_ready_nodes_and_select_nothing() -> None:
    given = topology(
        [
            node("b/r/h1", 2, taints=(TAINT,)),
            node("b/r/h2", 1),
            node("b/r/h3", 4, ready=False),
            node("b/r2/h4", 4, unschedulable=True),
        ],
        ("block", "rack"),
    )
    pods = PodSet("main", 3, {"gpu": 1}, (("no", "such"),), (FAST,), topology=required("rack"))
    assert where(given.place([(pods, 3)])) == {"r": 3}
    text = message(given.place([(pods, 4)]))
    assert text.endswith('only 3 out of 4 pod(s). Total nodes: 2; excluded: resource "gpu": 1')
