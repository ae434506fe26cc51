"""Which flavor each resource gets, and what is said when none fits (§5, items 91 to 101)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from federation.core.assignment import Assignment, Grade, Mode
from federation.core.flavors import Market, assign, scan_order
from federation.core.policies import Rules, UndeclaredResources
from federation.core.quota import QuotaTree
from federation.core.reasons import Reason
from federation.core.requests import remaining
from federation.core.topology import FlavorTopology
from federation.core.types import (
    ClusterQueue,
    FlavorResource,
    PodSet,
    ResourceFlavor,
    Taint,
    Toleration,
)
from tests.unit.core.build import co, cq, flavors, group, pods, quota
from tests.unit.core.topologies import nodes, topology, unconstrained

SPOT_OD = cq("q", group("cpu", spot=(quota(4000),), od=(quota(10000),)))
KNOWN = flavors("spot", "od", "f", "g")
IGNORING = Rules(undeclared=UndeclaredResources.IGNORE)


def decide(
    queue: ClusterQueue,
    *sets: PodSet,
    used: Mapping[FlavorResource, int] | None = None,
    known: Mapping[str, ResourceFlavor] | None = None,
    cohort: int | None = None,
    rules: Rules | None = None,
    others: Sequence[ClusterQueue] = (),
    topologies: Mapping[str, FlavorTopology] | None = None,
) -> Assignment:
    """Assign with `used` charged before; nobody can be preempted."""
    cohorts = [] if cohort is None else [co("c", cohort)]
    tree = QuotaTree([queue, *others], cohorts)
    tree.add(queue.name, used or {})
    node = tree.queues[queue.name]

    def nobody(fr: FlavorResource, amount: int) -> Grade:
        return Grade(Mode.NO_CANDIDATES, node.borrow_level(fr, amount)[0])

    flavors = KNOWN if known is None else known
    return assign(sets, Market(queue, node, flavors, topologies or {}, rules or Rules(), nobody))


def chosen(result: Assignment) -> list[dict[str, str]]:
    """The flavors of each pod set."""
    assert result.mode is Mode.FIT, result.explanation()
    return [dict(pod_set.flavors) for pod_set in result.admission.pod_sets]


def refused(result: Assignment) -> Assignment:
    assert result.mode is not Mode.FIT, result
    return result


@pytest.mark.parametrize(
    ("cpu", "used", "flavor"), [(4000, 0, "spot"), (4001, 0, "od"), (1, 4000, "od")]
)
def test_the_first_flavor_that_fits(cpu: int, used: int, flavor: str) -> None:
    """Items 1, 4 and 19: in the order of the resource group."""
    spent = {FlavorResource("spot", "cpu"): used}
    assert chosen(decide(SPOT_OD, pods(cpu=cpu), used=spent)) == [{"cpu": flavor}]


def test_all_resources_of_a_group_go_together() -> None:
    """Item 99: a flavor is as good as the worst of its resources."""
    queue = cq("q", group("cpu memory", spot=(quota(9), quota(1)), od=(quota(9), quota(9))))

    assert chosen(decide(queue, pods(cpu=5, memory=5))) == [{"cpu": "od", "memory": "od"}]


def test_groups_are_independent() -> None:
    """Items 10 and 95: resources of different groups land on different flavors."""
    queue = cq(
        "q",
        group("cpu", spot=(quota(1),), od=(quota(9),)),
        group("gpu", f=(quota(2),), g=(quota(2),)),
    )

    assert chosen(decide(queue, pods(cpu=5, gpu=2))) == [{"cpu": "od", "gpu": "f"}]


def test_pod_sets_add_up_on_one_flavor() -> None:
    """Item 94: the second pod set is judged with the first one's usage assumed."""
    queue = cq("q", group("cpu", spot=(quota(4),), od=(quota(10),)))
    result = decide(queue, pods(2, "head", cpu=1), pods(3, "tail", cpu=1))

    assert chosen(result) == [{"cpu": "spot"}, {"cpu": "od"}]
    assert result.usage == {FlavorResource("spot", "cpu"): 2, FlavorResource("od", "cpu"): 3}
    summed = decide(queue, pods(2, "head", cpu=1), pods(2, "tail", cpu=1))
    assert summed.usage == summed.admission.usage() == {FlavorResource("spot", "cpu"): 4}


def test_pods_are_counted_where_they_have_quota() -> None:
    """Item 97."""
    queue = cq("q", group("cpu pods", f=(quota(100), quota(3))))

    assert chosen(decide(queue, pods(3, cpu=1))) == [{"cpu": "f", "pods": "f"}]
    assert refused(decide(queue, pods(4, cpu=1))).reason is Reason.EXCEEDS_MAX_QUOTA


def test_reclaimable_pods_need_no_quota() -> None:
    """Item 98: of ten pods six are done, so four are asked for."""
    wanted = pods(10, cpu=1000)

    assert decide(SPOT_OD, *remaining((wanted,), {"main": 6})).usage == {
        FlavorResource("spot", "cpu"): 4000
    }
    assert chosen(decide(SPOT_OD, *remaining((wanted,), {"main": 5}))) == [{"cpu": "od"}]


def test_a_resource_without_quota() -> None:
    """§5.2: refused, unless the quantity is zero (item 40)."""
    result = refused(decide(SPOT_OD, pods(cpu=1, gpu=1)))

    assert result.mode is Mode.NO_FIT
    assert result.reason is Reason.NO_MATCHING_FLAVOR
    assert "resource gpu unavailable in ClusterQueue" in result.explanation()
    assert chosen(decide(SPOT_OD, pods(cpu=1, gpu=0))) == [{"cpu": "spot"}]


def test_a_resource_without_quota_can_be_ignored() -> None:
    """Item 41: with IgnoreUndeclared it is admitted, and charged nowhere."""
    result = decide(SPOT_OD, pods(cpu=1, gpu=1), rules=IGNORING)

    assert chosen(result) == [{"cpu": "spot"}]
    assert result.usage == {FlavorResource("spot", "cpu"): 1}
    assert result.admission.pod_sets[0].usage == {"cpu": 1}


def test_nothing_requested() -> None:
    """A workload without requests is admitted with nothing charged."""
    result = decide(SPOT_OD, pods(2))
    assert chosen(result) == [{}]
    assert result.usage == {}


def test_never() -> None:
    """Items 60 and 100: above potential it can never fit. The numbers are there."""
    never = refused(decide(SPOT_OD, pods(cpu=10001)))

    assert never.mode is Mode.NO_FIT
    assert never.reason is Reason.EXCEEDS_MAX_QUOTA
    assert never.explanation() == (
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor od,"
        " previously considered podsets requests (0) + current podset request (10001m) > maximum"
        " capacity (10), insufficient quota for cpu in flavor spot, previously considered podsets"
        " requests (0) + current podset request (10001m) > maximum capacity (4)"
    )
    numbers = {
        lack.flavor: (lack.needed, lack.free, lack.nominal, lack.most) for _, lack in never.lacks
    }
    assert numbers == {"spot": (10001, 4000, 4000, 4000), "od": (10001, 10000, 10000, 10000)}


def test_waiting() -> None:
    """Item 100: within the nominal quota, but used now; victims are looked for in vain."""
    spent = {FlavorResource("od", "cpu"): 9500}
    waits = refused(decide(SPOT_OD, pods(cpu=5000), used=spent))

    assert waits.mode is Mode.PREEMPT, "and a search for victims ends without any"
    assert waits.preempting == {FlavorResource("od", "cpu")}
    assert (
        "insufficient unused quota for cpu in flavor od, 4500m more needed" in waits.explanation()
    )
    numbers = {
        lack.flavor: (lack.needed, lack.free, lack.nominal, lack.most) for _, lack in waits.lacks
    }
    assert numbers["od"] == (5000, 500, 10000, 10000)


def test_earlier_pod_sets_are_named_in_the_message() -> None:
    """§5.11: what they were given counts before the request of this one."""
    queue = cq("q", group("gpu", f=(quota(10),)))
    result = refused(decide(queue, pods(6, "head", gpu=1), pods(5, "tail", gpu=1)))

    assert result.explanation() == (
        "couldn't assign flavors to pod set tail: insufficient quota for gpu in flavor f,"
        " previously considered podsets requests (6) + current podset request (5) > maximum"
        " capacity (10)"
    )


def test_what_only_borrowing_could_give_waits_without_victims() -> None:
    """§5.6: above nominal with nobody to reclaim from and no borrowing while preempting."""
    queue = cq("q", group("gpu", f=(quota(4),)), cohort="c")
    used = {FlavorResource("f", "gpu"): 8}
    result = refused(decide(queue, pods(gpu=5), used=used, cohort=6))

    assert result.mode is Mode.NO_FIT
    assert result.reason is Reason.WAITING_FOR_QUOTA


def test_borrowing_counts_as_potential() -> None:
    """Item 17: up to the borrowing limit, and not beyond."""
    queue = cq("q", group("cpu gpu", f=(quota(0), quota(4, bl=2))), cohort="c")

    assert chosen(decide(queue, pods(gpu=6), cohort=100)) == [{"gpu": "f"}]
    assert refused(decide(queue, pods(gpu=7), cohort=100)).reason is Reason.EXCEEDS_MAX_QUOTA


LABELLED = ResourceFlavor("spot", node_labels=(("card", "h100"),))
TAINTED = ResourceFlavor("spot", taints=(Taint("k", "v"),))


@pytest.mark.parametrize(
    ("flavor", "problem"),
    [
        pytest.param(None, "flavor spot not found", id="20: no such object"),
        pytest.param(TAINTED, "untolerated taint k=v:NoSchedule in flavor spot", id="91: taint"),
        pytest.param(LABELLED, "flavor spot doesn't match node affinity", id="92: labels"),
    ],
)
def test_an_unsuitable_flavor_is_skipped(flavor: ResourceFlavor | None, problem: str) -> None:
    """§5.4: and when nothing else is left, the message says what was wrong with each."""
    known = flavors("od") | ({"spot": flavor} if flavor else {})
    wanted = pods(cpu=1, node_selector=(("card", "a100"),))

    assert chosen(decide(SPOT_OD, wanted, known=known)) == [{"cpu": "od"}]
    only = cq("q", group("cpu", spot=(quota(4000),)))
    result = refused(decide(only, wanted, known=known))
    assert result.reason is Reason.NO_MATCHING_FLAVOR
    assert problem in result.explanation()


@pytest.mark.parametrize(
    ("flavor", "fields"),
    [
        pytest.param(
            ResourceFlavor(
                "spot", taints=(Taint("k", "v"),), tolerations=(Toleration("k", "Exists"),)
            ),
            {},
            id="91: tolerated by the flavor itself",
        ),
        pytest.param(TAINTED, {"tolerations": (Toleration("k", "Equal", "v"),)}, id="91: by pods"),
        pytest.param(
            ResourceFlavor("spot", taints=(Taint("k", "v", "PreferNoSchedule"),)),
            {},
            id="91: no more than a preference",
        ),
        pytest.param(
            LABELLED,
            {"node_selector": (("zone", "z1"), ("card", "h100"))},
            id="92: a key that is no label of the flavor",
        ),
        pytest.param(
            LABELLED,
            {"affinity": ((("zone", "In", ("z1",)),), (("card", "In", ("a100",)),))},
            id="93: a term that is empty without such keys",
        ),
        pytest.param(
            LABELLED,
            {"affinity": ((("card", "In", ("a100",)),), (("card", "In", ("h100",)),))},
            id="93: one term of several",
        ),
    ],
)
def test_a_suitable_flavor_is_taken(flavor: ResourceFlavor, fields: dict[str, Any]) -> None:
    """The pods' tolerations and the flavor's own count; foreign keys do not."""
    known = {**KNOWN, "spot": flavor}
    assert chosen(decide(SPOT_OD, pods(cpu=1, **fields), known=known)) == [{"cpu": "spot"}]


def test_the_selector_applies_beside_an_affinity_that_says_nothing() -> None:
    """Item 93: an emptied term matches, and the node selector is looked at all the same."""
    wanted = pods(cpu=1, node_selector=(("card", "a100"),), affinity=((("zone", "In", ("z1",)),),))
    assert chosen(decide(SPOT_OD, wanted, known={**KNOWN, "spot": LABELLED})) == [{"cpu": "od"}]


def test_the_mildest_reason_among_flavors() -> None:
    """§2.1: inside a group the least severe reason of its flavors; a flavor has its worst one."""
    queue = cq(
        "q", group("cpu gpu", spot=(quota(5), quota(5)), od=(quota(5), quota(5))), cohort="c"
    )
    lender = cq("lender", group("cpu", od=(quota(5),)), cohort="c")
    full = {FlavorResource("od", "cpu"): 5}
    known = {"od": ResourceFlavor("od"), "spot": ResourceFlavor("spot", taints=(Taint("x"),))}

    waits = refused(decide(queue, pods(cpu=6, gpu=1), used=full, known=known, others=[lender]))
    assert (waits.mode, waits.reason) == (Mode.NO_FIT, Reason.WAITING_FOR_QUOTA)
    worst = refused(decide(queue, pods(cpu=1, gpu=6), used=full, known=known))
    assert worst.reason is Reason.EXCEEDS_MAX_QUOTA


def test_the_worst_reason_among_groups_and_pod_sets() -> None:
    """§2.1: what is furthest from going away by itself."""
    queue = cq(
        "q",
        group("cpu", spot=(quota(4),)),
        group("gpu", f=(quota(4, bl=0),)),
        cohort="c",
    )
    taints = {**KNOWN, "spot": ResourceFlavor("spot", taints=(Taint("x"),))}

    assert scan_order("gpu") != scan_order("cpu")
    only_gpu = refused(decide(queue, pods(gpu=9), cohort=0))
    assert only_gpu.reason is Reason.EXCEEDS_MAX_QUOTA
    result = refused(
        decide(queue, pods(1, "fits", gpu=1), pods(1, "bad", cpu=1), known=taints, cohort=0)
    )
    assert result.reason is Reason.NO_MATCHING_FLAVOR
    assert result.explanation().startswith("couldn't assign flavors to pod set bad: ")


def test_all_or_nothing() -> None:
    """One pod set that does not fit refuses the whole workload, and is named."""
    result = refused(decide(SPOT_OD, pods(1, "head", cpu=1), pods(1, "tail", cpu=99999)))
    assert result.mode is Mode.NO_FIT
    assert result.explanation().startswith("couldn't assign flavors to pod set tail: ")


def test_resources_are_tried_in_the_order_of_their_hashes() -> None:
    """§5.3: memory, pods, example.com/gpu, cpu."""
    names = ["cpu", "example.com/gpu", "memory", "pods"]
    assert sorted(names, key=scan_order) == ["memory", "pods", "example.com/gpu", "cpu"]


def test_the_first_group_without_a_flavor_ends_the_search() -> None:
    """§5.3: memory comes before cpu, so the lack of cpu is not told."""
    queue = cq("q", group("cpu", spot=(quota(1),)), group("memory", od=(quota(1),)))
    result = refused(decide(queue, pods(cpu=9, memory=9)))

    assert {lack.resource for _, lack in result.lacks} == {"memory"}


ARRANGED = {
    "f": ResourceFlavor("f", (("pool", "x"),), topology="T"),
    "plain": ResourceFlavor("plain"),
}


def together(count: int, name: str, **more: Any) -> PodSet:
    """Pods of a set that gets its flavors and places with all others of group g."""
    return pods(count, name, topology=replace(unconstrained(), group="g"), **more)


def test_a_group_of_pod_sets_shares_its_flavor() -> None:
    """Item 101: a leader that asks for other things than its workers; in the order as written."""
    queue = cq(
        "q",
        group("cpu gpu", plain=(quota(9), quota(9)), f=(quota(9), quota(9))),
    )
    sets = [together(1, "leader", cpu=1), pods(2, "alone", gpu=1), together(3, "workers", gpu=2)]
    arranged = {"f": topology(nodes(b={"r": (8,)}))}
    result = decide(queue, *sets, known=ARRANGED, topologies=arranged)

    assert [(p.name, dict(p.flavors)) for p in result.admission.pod_sets] == [
        ("leader", {"cpu": "f"}),
        ("alone", {"gpu": "plain"}),
        ("workers", {"gpu": "f"}),
    ]
    assert [sorted(tried) for tried in result.tried] == [["cpu", "gpu"], ["gpu"], ["cpu", "gpu"]]


def test_the_requests_of_a_group_are_added() -> None:
    """§5.1: the leader fits by itself, with its workers it does not."""
    queue = cq("q", group("gpu", f=(quota(6),)), cohort="c")
    sets = [together(1, "leader", gpu=2), together(3, "workers", gpu=2)]
    arranged = {"f": topology(nodes(b={"r": (8,)}))}

    result = refused(decide(queue, *sets, known=ARRANGED, topologies=arranged, cohort=0))
    assert "current podset request (8)" in result.explanation()
