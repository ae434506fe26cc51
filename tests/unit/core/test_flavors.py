"""Which flavor each resource gets, and what is said when none fits."""

from __future__ import annotations

import pytest

from federation.core.flavors import Reason, Shortage, assign
from federation.core.quota import QuotaTree
from federation.core.types import (
    Admission,
    ClusterQueue,
    FlavorResource,
    PodSet,
    ResourceFlavor,
    Taint,
)
from tests.unit.core.build import co, cq, flavors, group, pods, quota

SPOT_OD = cq("q", group("cpu", spot=(quota(4000),), od=(quota(10000),)))
KNOWN = flavors("spot", "od", "f", "g")


def decide(
    queue: ClusterQueue,
    *sets: PodSet,
    used: dict[FlavorResource, int] | None = None,
    known: dict[str, ResourceFlavor] | None = None,
    cohort: int | None = None,
) -> Admission | Shortage:
    """Assign with `used` charged before."""
    cohorts = [] if cohort is None else [co("c", cohort)]
    tree = QuotaTree([queue], cohorts)
    tree.add(queue.name, used or {})
    return assign(sets, queue, KNOWN if known is None else known, tree)


def chosen(result: Admission | Shortage) -> list[dict[str, str]]:
    """The flavors of each pod set."""
    assert isinstance(result, Admission), result
    return [dict(pod_set.flavors) for pod_set in result.pod_sets]


def refused(result: Admission | Shortage) -> Shortage:
    assert isinstance(result, Shortage), result
    return result


@pytest.mark.parametrize(
    ("cpu", "used", "flavor"), [(4000, 0, "spot"), (4001, 0, "od"), (1, 4000, "od")]
)
def test_the_first_flavor_that_fits(cpu: int, used: int, flavor: str) -> None:
    """In the order of the resource group (§10, items 1, 4 and 19)."""
    spent = {FlavorResource("spot", "cpu"): used}
    assert chosen(decide(SPOT_OD, pods(cpu=cpu), used=spent)) == [{"cpu": flavor}]


def test_all_resources_of_a_group_go_together() -> None:
    """A flavor is taken only when it has room for all of them."""
    queue = cq("q", group("cpu memory", spot=(quota(9), quota(1)), od=(quota(9), quota(9))))

    assert chosen(decide(queue, pods(cpu=5, memory=5))) == [{"cpu": "od", "memory": "od"}]


def test_groups_are_independent() -> None:
    """Resources of different groups land on different flavors (items 10 and 95)."""
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
    assert isinstance(result, Admission)
    assert result.usage() == {FlavorResource("spot", "cpu"): 2, FlavorResource("od", "cpu"): 3}
    summed = decide(queue, pods(2, "head", cpu=1), pods(2, "tail", cpu=1))
    assert isinstance(summed, Admission)
    assert summed.usage() == {FlavorResource("spot", "cpu"): 4}


def test_pods_are_counted_where_they_have_quota() -> None:
    """Item 97."""
    queue = cq("q", group("cpu pods", f=(quota(100), quota(3))))

    assert chosen(decide(queue, pods(3, cpu=1))) == [{"cpu": "f", "pods": "f"}]
    assert refused(decide(queue, pods(4, cpu=1))).reason is Reason.EXCEEDS_MAX_QUOTA


def test_a_resource_without_quota() -> None:
    """§5.2: refused, unless the quantity is zero (item 40)."""
    result = refused(decide(SPOT_OD, pods(cpu=1, gpu=1)))

    assert result.reason is Reason.NO_MATCHING_FLAVOR
    assert "no quota for resource gpu" in result.message
    assert chosen(decide(SPOT_OD, pods(cpu=1, gpu=0))) == [{"cpu": "spot"}]


def test_nothing_requested() -> None:
    """A workload without requests is admitted with nothing charged."""
    result = decide(SPOT_OD, pods(2))
    assert isinstance(result, Admission)
    assert result.usage() == {}


def test_waiting_and_never() -> None:
    """§5.6: above potential it can never fit; else it waits. Both say the numbers."""
    never = refused(decide(SPOT_OD, pods(cpu=10001)))
    assert never.reason is Reason.EXCEEDS_MAX_QUOTA
    assert never.message == (
        "pod set main: flavor spot: cpu needs 10001m, more than ClusterQueue q can ever get (4);"
        " flavor od: cpu needs 10001m, more than ClusterQueue q can ever get (10)"
    )
    spent = {FlavorResource("od", "cpu"): 9500}
    waits = refused(decide(SPOT_OD, pods(cpu=5000), used=spent))
    assert waits.reason is Reason.WAITING_FOR_QUOTA
    assert "flavor od: cpu needs 5, 500m of 10 free now" in waits.message


def test_borrowing_counts_as_potential() -> None:
    """Item 17: up to the borrowing limit, and not beyond."""
    queue = cq("q", group("cpu gpu", f=(quota(0), quota(4, bl=2))), cohort="c")

    assert chosen(decide(queue, pods(gpu=6), cohort=100)) == [{"gpu": "f"}]
    assert refused(decide(queue, pods(gpu=7), cohort=100)).reason is Reason.EXCEEDS_MAX_QUOTA


@pytest.mark.parametrize(
    ("flavor", "problem"),
    [
        (None, "flavor spot does not exist"),
        (ResourceFlavor("spot", taints=(Taint("k", "v"),)), "taint k=v:NoSchedule"),
        (ResourceFlavor("spot", node_labels=(("card", "h100"),)), "node selector or affinity"),
    ],
)
def test_unsuitable_flavors_are_passed_over(flavor: ResourceFlavor | None, problem: str) -> None:
    """§5.4: and when nothing else is left, the message says what was wrong with each."""
    known = flavors("od") | ({"spot": flavor} if flavor else {})
    wanted = pods(cpu=1, node_selector=(("card", "a100"),))

    assert chosen(decide(SPOT_OD, wanted, known=known)) == [{"cpu": "od"}]
    only = cq("q", group("cpu", spot=(quota(4000),)))
    result = refused(decide(only, wanted, known=known))
    assert result.reason is Reason.NO_MATCHING_FLAVOR
    assert problem in result.message


def test_the_mildest_reason_among_flavors() -> None:
    """§2.1: inside a group the least severe reason of its flavors; a flavor has its worst one."""
    queue = cq(
        "q",
        group("cpu gpu", spot=(quota(5), quota(5)), od=(quota(5), quota(5))),
    )
    full = {FlavorResource("od", "cpu"): 5}
    known = {"od": ResourceFlavor("od"), "spot": ResourceFlavor("spot", taints=(Taint("x"),))}

    waits = refused(decide(queue, pods(cpu=1, gpu=1), used=full, known=known))
    assert waits.reason is Reason.WAITING_FOR_QUOTA
    worst = refused(decide(queue, pods(cpu=1, gpu=6), used=full, known=known))
    assert worst.reason is Reason.EXCEEDS_MAX_QUOTA


def test_all_or_nothing() -> None:
    """One pod set that does not fit refuses the whole workload, and is named."""
    result = refused(decide(SPOT_OD, pods(1, "head", cpu=1), pods(1, "tail", cpu=99999)))
    assert result.message.startswith("pod set tail: ")
