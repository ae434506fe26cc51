"""Quota for shares of cards in the scheduler: what is charged, refused and borrowed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.assignment import Mode
from federation.core.card_shares import with_cards
from federation.core.devices.asking.asking import ContainerAsk, pod_wants
from federation.core.devices.cards import Card, Host
from federation.core.devices.quota.rules import card_quotas
from federation.core.policies import ResourceRules, Rules, Transformation, TransformationStrategy
from federation.core.types import ClusterQueue, FlavorResource, PodSet, ResourceFlavor
from tests.unit.core.build import cq, group, item, quota
from tests.unit.core.stage import decide as decide_cycle
from tests.unit.core.stage import state
from tests.unit.core.test_flavors import decide, refused

GPU, MEM, CORES = "nvidia.com/gpu", "nvidia.com/total-gpumem", "nvidia.com/total-gpucores"
A100 = ResourceFlavor("a100", cards=(Card("", "NVIDIA", "", 40960),))
T4 = ResourceFlavor("t4", cards=(Card("", "NVIDIA", "", 15360),))
BARE = ResourceFlavor("bare")
KNOWN = {flavor.name: flavor for flavor in (A100, T4, BARE)}


def gpus(count: int = 1, pods: int = 1, name: str = "main", **limits: Any) -> PodSet:
    """Pods with one container that asks for so many cards."""
    texts = {GPU: str(count)} | {f"nvidia.com/{k}": str(v) for k, v in limits.items()}
    wants = pod_wants([ContainerAsk("c", limits=texts)], {})
    return PodSet(name, pods, {GPU: count}, cards=wants)


def queue(covered: str, cohort: str = "", **flavors: tuple[int, ...]) -> ClusterQueue:
    amounts = {name: tuple(quota(n) for n in numbers) for name, numbers in flavors.items()}
    return cq("q", group(covered, **amounts), cohort=cohort)


ALL = f"{GPU} {MEM} {CORES}"


def usage(result: Any, number: int = 0) -> dict[str, int]:
    assert result.mode is Mode.FIT, result.explanation()
    return dict(result.admission.pod_sets[number].usage)


def test_cards_memory_and_compute_are_charged() -> None:
    """The vector of the specification: gpu 2, gpumem 1024, 3 pods."""
    found = decide(queue(ALL, a100=(8, 10**6, 800)), gpus(2, 3, gpumem=1024), known=KNOWN)
    assert usage(found) == {GPU: 6, MEM: 6144, CORES: 0}
    assert found.usage[FlavorResource("a100", MEM)] == 6144


def test_a_queue_for_cards_takes_slices_and_charges_only_cards() -> None:
    """What people have today: quota on nvidia.com/gpu, and jobs that ask for 20 GiB of each."""
    found = decide(queue(GPU, a100=(4,)), gpus(2, gpumem=20480, gpucores=50), known=KNOWN)
    assert usage(found) == {GPU: 2}


@pytest.mark.parametrize("covered", [MEM, "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"])
def test_a_queue_for_memory_alone_needs_no_quota_for_cards(covered: str) -> None:
    found = decide(queue(covered, a100=(10**6,)), gpus(2, gpumem=2048), known=KNOWN)
    assert list(usage(found)) == [covered]


def test_compute_limits_only_those_who_reserve_some() -> None:
    only = queue(CORES, a100=(800,))
    assert usage(decide(only, gpus(2, gpumem=10, gpucores=30), known=KNOWN)) == {CORES: 60}
    text = refused(decide(only, gpus(2, gpumem=10), known=KNOWN)).explanation()
    assert f"resource {GPU} unavailable in ClusterQueue" in text


def test_a_queue_without_any_quota_for_cards_takes_none() -> None:
    text = refused(decide(queue("cpu", a100=(8,)), gpus(), known=KNOWN)).explanation()
    assert f"resource {GPU} unavailable in ClusterQueue" in text


def test_a_share_is_reckoned_with_the_cards_of_each_flavor() -> None:
    """Half a card is too much of the first flavor and little enough of the second."""
    both = queue(f"{GPU} {MEM}", a100=(8, 20000), t4=(8, 20000))
    found = decide(both, gpus(**{"gpumem-percentage": 50}), known=KNOWN)
    assert usage(found) == {GPU: 1, MEM: 7680}
    assert dict(found.admission.pod_sets[0].flavors) == {GPU: "t4", MEM: "t4"}


def test_whole_cards() -> None:
    found = decide(queue(ALL, a100=(8, 10**6, 800)), gpus(2), known=KNOWN)
    assert usage(found) == {GPU: 2, MEM: 81920, CORES: 200}


def test_a_flavor_whose_cards_nobody_knows_is_passed_over_and_said() -> None:
    either = queue(f"{GPU} {MEM}", bare=(8, 10**6), a100=(8, 10**6))
    found = decide(either, gpus(), known=KNOWN)
    assert dict(found.admission.pod_sets[0].flavors) == {GPU: "a100", MEM: "a100"}
    none = refused(decide(queue(f"{GPU} {MEM}", bare=(8, 10**6)), gpus(), known=KNOWN))
    assert "set its annotation fedq.io/card-memory-mib" in none.explanation()
    absolute = decide(queue(f"{GPU} {MEM}", bare=(8, 10**6)), gpus(gpumem=1000), known=KNOWN)
    assert usage(absolute) == {GPU: 1, MEM: 1000}


def test_two_pod_sets_are_charged_each_its_own() -> None:
    workers = gpus(1, 4, "workers", gpumem=1000)
    found = decide(queue(f"{GPU} {MEM}", a100=(8, 50000)), gpus(), workers, known=KNOWN)
    assert usage(found) == {GPU: 1, MEM: 40960}
    assert usage(found, 1) == {GPU: 4, MEM: 4000}
    assert found.usage[FlavorResource("a100", MEM)] == 44960
    one_more = gpus(1, 10, "workers", gpumem=1000)
    refused(decide(queue(f"{GPU} {MEM}", a100=(20, 50000)), gpus(), one_more, known=KNOWN))


def test_fewer_pods_cost_less() -> None:
    small = decide(queue(f"{GPU} {MEM}", a100=(8, 5000)), gpus(1, 4, gpumem=1000), known=KNOWN)
    assert usage(small)[MEM] == 4000


def test_what_a_transformation_makes_of_memory_is_charged_beside_the_rest() -> None:
    """Credits for cards (a plain transformation) and for memory, under one name."""
    by_memory = Transformation(
        "nvidia.com/gpumem", TransformationStrategy.REPLACE, GPU, {"x/credits": 1}
    )
    rules = Rules(cards=card_quotas(ResourceRules((), (by_memory,))))
    asked = replace(gpus(2, gpumem=1000), requests={"x/credits": 7})
    found = decide(queue("x/credits", a100=(10**6,)), asked, known=KNOWN, rules=rules)
    assert usage(found) == {"x/credits": 2007}


def test_memory_is_borrowed_in_the_cohort_as_cards_are() -> None:
    """Nothing is special about it: b lends what it does not use, and takes it back."""
    amounts = {name: (quota(8), quota(40960)) for name in ("a100",)}
    lender = cq("b", group(f"{GPU} {MEM}", **amounts), cohort="c")
    borrower = cq("a", group(f"{GPU} {MEM}", **amounts), cohort="c")

    def job(uid: str, name: str, memory: int) -> Any:
        return item(uid, name, gpus(gpumem=memory))

    now = state(lender, borrower, A100)
    assert decide_cycle(now, job("w", "a", 81920)) == {"w": "admitted"}
    assert decide_cycle(now, job("w", "a", 81921)) == {"w": "NoFit"}
    both = decide_cycle(now, job("w", "a", 40960), job("v", "b", 40960))
    assert both == {"w": "admitted", "v": "admitted"}


def test_flavors_get_the_smallest_cards_of_their_nodes() -> None:
    big = Host("n1", (Card("a", "NVIDIA", "A100", 40960), Card("b", "NVIDIA", "A100", 40960)))
    small = Host("n2", (Card("a", "NVIDIA", "T4", 15360), Card("d", "DCU", "K100", 65520)))
    nodes = [({"pool": "x"}, big), ({"pool": "y"}, small)]
    flavors = {
        "x": ResourceFlavor("x", (("pool", "x"),)),
        "all": ResourceFlavor("all"),
        "told": replace(A100, name="told"),
        "none": ResourceFlavor("none", (("pool", "z"),)),
    }
    found = with_cards(flavors, nodes)
    sizes = {n: [(c.vendor, c.memory_mib) for c in f.cards] for n, f in found.items()}
    assert sizes == {
        "x": [("NVIDIA", 40960)],
        "all": [("DCU", 65520), ("NVIDIA", 15360)],
        "told": [("NVIDIA", 40960), ("DCU", 65520)],
        "none": [],
    }
    assert with_cards(found, nodes) == found
