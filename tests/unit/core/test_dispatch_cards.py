"""Choosing the worker cluster by where the cards take the whole gang best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.core.devices.cards import HostUse
from federation.core.devices.fleet.buckets import Classes
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.reported_fleet import ReportedFleet
from federation.core.devices.fleet.strategies.named import strategy
from federation.core.devices.fleet.types import NoPlace, Room
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Wishes
from federation.core.dispatch import (
    Amount,
    Choice,
    ClusterView,
    NoCluster,
    WorkerQueue,
    choose,
)
from federation.core.topology import HOSTNAME
from federation.core.types import (
    Admission,
    FlavorResource,
    Pending,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    Taint,
    Toleration,
)
from tests.unit.core.build import item
from tests.unit.core.devices.fleets import host
from tests.unit.core.devices.reports import LIMIT, buckets_of, sent

GPU = "nvidia.com/gpu"
FLAVOR = FlavorResource("f", GPU)
CPU = FlavorResource("f", "cpu")
PLENTY = {FLAVOR: Amount(100, 100, 100), CPU: Amount(10**6, 10**6, 10**6)}


class Clusters:
    """Clusters that share what compares them."""

    def __init__(self, name: str = "default") -> None:
        self.strategy, self.kinds = strategy(name, Mix()), Kinds()
        self.views: dict[str, ClusterView] = {}

    def add(self, name: str, *hosts: HostUse, **more: Any) -> ReportedFleet:
        rooms = more.pop("rooms", None) or [Room({"cpu": 8000, "pods": 10})] * len(hosts)
        fleet = ReportedFleet(self.strategy, self.kinds)
        fleet.report(sent(buckets_of(zip(hosts, rooms, strict=True)).classes(LIMIT)))
        self.views[name] = ClusterView(
            name,
            queues={"wq": WorkerQueue("wq", True, more.pop("amounts", PLENTY))},
            local_queues={("team", "lq"): "wq"},
            cards=fleet,
            **more,
        )
        return fleet

    def plain(self, name: str, free: int = 100) -> None:
        """One that tells of no cards."""
        amounts = {**PLENTY, FLAVOR: Amount(100, free, free)}
        queue = WorkerQueue("wq", True, amounts)
        self.views[name] = ClusterView(
            name, queues={"wq": queue}, local_queues={("team", "lq"): "wq"}
        )

    def pick(self, work: tuple[Pending, Admission]) -> Choice | NoCluster:
        return choose(*work, self.views, {}, 0.0)


def work(
    mib: int = 4000, count: int = 1, cpu: int = 1000, vendor: str = "NVIDIA", **more: Any
) -> tuple[Pending, Admission]:
    wishes = more.pop("wishes", Wishes())
    asked = CardWants(vendor, 1, memory_mib=mib)
    cards = PodWants((ContainerWants("main", cards=(asked,)),), wishes)
    given = {GPU: 1, "cpu": cpu}
    usage = {name: amount * count for name, amount in given.items()}
    budget = PodSetAssignment("main", count, dict.fromkeys(given, "budget"), usage)
    asking = PodSet("main", count, given, cards=cards, **more)
    return item("u", "q", asking), Admission("q", (budget,))


def cluster(result: Choice | NoCluster) -> str:
    assert isinstance(result, Choice), result
    return result.cluster


def reason(result: Choice | NoCluster, name: str) -> str:
    assert isinstance(result, NoCluster), result
    return result.reasons[name]


def test_the_cluster_that_truly_fits_gets_it_however_little_quota_it_has_left() -> None:
    """Quota is the same in all; by share alone it would go to `a`."""
    clusters = Clusters()
    clusters.add("a", host("a", 4, dict.fromkeys(range(4), (1, 30_000, 0))))
    clusters.add("b", host("b", 1), amounts={**PLENTY, FLAVOR: Amount(100, 1, 1)})

    result = clusters.pick(work(12_000))

    assert cluster(result) == "b"
    assert isinstance(result, Choice)
    assert len(result.places) == 1
    assert sum(count for _, count in result.gang) == 1


def test_the_best_placement_over_all_clusters_wins() -> None:
    """It goes to the card in use, where it leaves no new fragment."""
    clusters = Clusters("drain-aware")
    clusters.add("a", host("a", 2))
    clusters.add("b", host("b", 2, {0: (1, 20_480, 0)}))
    assert cluster(clusters.pick(work(20_480))) == "b"


def test_a_gang_goes_where_all_of_it_fits() -> None:
    clusters = Clusters()
    clusters.add("a", host("a", 2))
    clusters.add("b", host("b1", 2), host("b2", 2))
    assert cluster(clusters.pick(work(30_000, count=3))) == "b"
    said = reason(clusters.pick(work(30_000, count=5)), "b")
    assert said.startswith("of 5 pods 4 find cards at the same time, and the next fits on no card")


def test_why_each_cluster_cannot_take_it_has_the_largest_free_slice() -> None:
    clusters = Clusters()
    clusters.add("a", host("a", 2, {0: (1, 28_672, 0), 1: (1, 30_000, 0)}))
    clusters.add("b", host("b", memory_mib=16_384))
    result = clusters.pick(work(20_000))
    assert "fits on no card: largest free slice 12,288 MiB; 1 hosts" in reason(result, "a")
    assert "largest free slice 16,384 MiB" in reason(result, "b")
    assert "/GPU" not in str(result)


def test_other_resources_of_nodes_count_too() -> None:
    clusters = Clusters()
    clusters.add("a", host("a"), host("a2"))
    assert cluster(clusters.pick(work(cpu=8000))) == "a"
    assert "2 hosts without enough CPU" in reason(clusters.pick(work(cpu=8001)), "a")


def test_without_borrowing_comes_before_a_better_placement() -> None:
    clusters = Clusters("drain-aware")
    clusters.add(
        "a", host("a", 2, {0: (1, 20_480, 0)}), amounts={**PLENTY, FLAVOR: Amount(4, 9, 0)}
    )
    clusters.add("b", host("b", 2))
    assert cluster(clusters.pick(work(20_480))) == "b"
    del clusters.views["b"]
    assert cluster(clusters.pick(work(20_480))) == "a"


def test_clusters_that_tell_of_no_cards_come_after_those_that_do() -> None:
    clusters = Clusters()
    clusters.plain("a")
    clusters.plain("c", 50)
    clusters.add("b", host("b", 1))
    assert cluster(clusters.pick(work())) == "b"
    assert cluster(clusters.pick(work(count=2, mib=40_000))) == "a"


def test_cards_that_an_agent_does_not_count_are_a_matter_of_quota() -> None:
    clusters = Clusters()
    clusters.add("a", host("a", 1, {0: (1, 40_960, 0)}))
    clusters.add("none")
    result = clusters.pick(work())
    assert cluster(result) == "none"
    assert isinstance(result, Choice)
    assert not result.gang
    assert cluster(clusters.pick(work(vendor="DCU"))) == "a"


def test_cards_that_a_cluster_counts_and_has_none_of_now() -> None:
    clusters = Clusters()
    fleet = clusters.add("none")
    fleet.report(Classes(), ["NVIDIA"])
    assert "no card of its kind is open to it" in reason(clusters.pick(work()), "none")


def test_a_queue_of_shares_alone_bars_the_flavors_of_its_cards() -> None:
    """That of its cpu stays: no other one has any."""
    clusters = Clusters()
    labels = [Room({"cpu": 8000, "pods": 9}, {"model": m}, t) for m, t in TAINTED]
    flavors = {
        "old": ResourceFlavor("old", (("model", "a"),)),
        "new": ResourceFlavor("new", (("model", "b"),), tolerations=(Toleration("gpu", "Exists"),)),
        "any": ResourceFlavor("any"),
    }
    names = [FlavorResource(f, "nvidia.com/total-gpumem") for f in ("old", "new")]
    amounts = dict.fromkeys([*names, FlavorResource("any", "cpu")], Amount(9000, 9000, 9000))
    hosts = host("a", 1, {0: (1, 40_000, 0)}), host("b", 1)
    clusters.add("a", *hosts, rooms=labels, amounts=amounts, flavors=flavors)

    item, admission = work()
    usage = {"nvidia.com/total-gpumem": 4000, "cpu": 1000}
    charged = replace(admission.pod_sets[0], usage=usage, flavors=dict.fromkeys(usage, "budget"))
    result = clusters.pick((item, Admission("q", (charged,))))

    assert isinstance(result, Choice)
    assert {key.flavor for key in result.usage} == {"new", "any"}


def test_flavors_of_the_cluster_choose_nodes_and_the_next_is_tried() -> None:
    """As its agent does: first the flavor whose cards are full, then the other."""
    clusters = Clusters()
    labels = [Room({"cpu": 8000, "pods": 9}, {"model": m}, t) for m, t in TAINTED]
    flavors = {
        "old": ResourceFlavor("old", (("model", "a"),)),
        "new": ResourceFlavor("new", (("model", "b"),), tolerations=(Toleration("gpu", "Exists"),)),
    }
    names = [FlavorResource(f, r) for f in ("old", "new") for r in (GPU, "cpu")]
    amounts = dict.fromkeys(names, Amount(9000, 9000, 9000))
    hosts = host("a", 1, {0: (1, 40_000, 0)}), host("b", 1)
    clusters.add("a", *hosts, rooms=labels, amounts=amounts, flavors=flavors)

    result = clusters.pick(work())

    assert isinstance(result, Choice)
    assert {key.flavor for key in result.usage} == {"new"}
    assert cluster(clusters.pick(work(100))) == "a"
    assert "largest free slice 960 MiB" in reason(clusters.pick(work(41_000)), "a")


TAINTED = [("a", ()), ("b", (Taint("gpu", "", "NoSchedule"),))]


def test_what_a_report_cannot_tell_is_no_reason_against_a_cluster() -> None:
    clusters = Clusters()
    room = Room({"cpu": 8000, "pods": 1}, {HOSTNAME: "n1"})
    clusters.add("a", host("a", 1), rooms=[room])
    named = work(node_selector=((HOSTNAME, "n1"),), wishes=Wishes(use_uuids=frozenset({"GPU-77"})))
    assert cluster(clusters.pick(named)) == "a"


@pytest.mark.parametrize("count", [1, 3])
def test_choosing_changes_nothing(count: int) -> None:
    clusters = Clusters()
    fleet = clusters.add("a", host("a", 4))
    first = clusters.pick(work(30_000, count=count))
    assert clusters.pick(work(30_000, count=count)) == first
    assert isinstance(first, Choice)
    fleet.offer("u", first.gang, first.places)
    assert not isinstance(fleet.place([(first.gang[0][0], 4 - count)]), NoPlace)
    assert isinstance(fleet.place([(first.gang[0][0], 5 - count)]), NoPlace)


def test_pods_without_a_quota_for_anything_are_refused_and_not_tried_for_ever() -> None:
    clusters = Clusters()
    clusters.add("a", host("a", 1, {0: (1, 40_960, 0)}))
    what, _ = work()
    free = PodSetAssignment("main", 1, {}, {})
    bare = item("u", "q", PodSet("main", 1, {}, cards=what.pod_sets[0].cards))
    assert "fits on no card" in reason(clusters.pick((bare, Admission("q", (free,)))), "a")
