from __future__ import annotations

import random
from itertools import combinations

import pytest

from federation.core.devices.cards import Grant, HostUse, Slice
from federation.core.devices.fleet.fleet import Fleet
from federation.core.devices.fleet.mix import Mix
from federation.core.devices.fleet.moves import Holder, Moves, smallest_moves
from federation.core.devices.fleet.strategies.named import strategy
from federation.core.devices.fleet.types import NoPlace, Room, Shape
from federation.core.devices.fleet.use import without
from federation.core.devices.ledger.holding import Holding
from federation.core.devices.wants import Role
from tests.unit.core.devices.fleets import host, shape
from tests.unit.core.devices.hosts import host as host_of
from tests.unit.core.devices.hosts import mig_card, mig_used, used

CARD = 40_960


def holding(owner: str, on: str, card: int, mib: int, cores: int = 0, **rest: bool) -> Holding:
    grant = Grant(f"{on}-{card}", "NVIDIA", mib, cores)
    return Holding(owner, "team", on, (Role.APP,), ((grant,),), **rest)


class Cluster:
    """Hosts of cards with 40960 MiB, and who is on them."""

    def __init__(self, *holdings: Holding, cards: int = 2, cpu: int = 64_000, **hosts: int) -> None:
        self.holders = [Holder(one, (("cpu", 1000),)) for one in holdings]
        names = dict.fromkeys((one.host for one in holdings), cards) | hosts
        self.fleet = Fleet(strategy("default", Mix()))
        self.rooms: dict[str, Room] = {}
        for name, count in names.items():
            uses: dict[int, tuple[int, int, int]] = {}
            mine = [one for one in holdings if one.host == name]
            for one in mine:
                (grant,) = one.allocation[0]
                number = int(grant.uuid.rpartition("-")[2])
                slots, mib, cores = uses.get(number, (0, 0, 0))
                uses[number] = (slots + 1, mib + grant.memory_mib, cores + grant.cores)
            self.rooms[name] = Room({"cpu": cpu - 1000 * len(mine)})
            self.fleet.put(name, host(name, count, uses), self.rooms[name])

    def moves(self, wanted: Shape, pods: int = 1, **rest: int) -> Moves:
        return smallest_moves(self.fleet, self.rooms, [(wanted, pods)], self.holders, **rest)

    def leave(self, wanted: Shape, pods: int = 1, **rest: int) -> list[str]:
        return [str(one.owner) for one in self.moves(wanted, pods, **rest).leave]


def test_the_smallest_single_holder_that_is_in_the_way() -> None:
    cluster = Cluster(
        holding("large", "a", 0, 30_000),
        holding("small", "a", 0, 8000),
        holding("tiny", "b", 0, 500),
        holding("rest", "b", 0, 40_000),
        cards=1,
    )
    assert cluster.leave(shape(1, 10_000)) == ["small"]
    assert cluster.leave(shape(1, 30_000)) == ["large"]


def test_fewer_holders_come_before_smaller_ones() -> None:
    cluster = Cluster(
        holding("a1", "a", 0, 12_000),
        holding("a2", "a", 0, 12_000),
        holding("a3", "a", 0, 12_000),
        holding("b1", "b", 0, 39_000),
        cards=1,
    )
    assert cluster.leave(shape(1, 28_000)) == ["b1"]
    assert cluster.leave(shape(1, 16_000)) == ["a1"]
    alone = Cluster(*(h.holding for h in cluster.holders[:3]), cards=1)
    assert alone.leave(shape(1, 28_000)) == ["a1", "a2"]


def test_none_of_up_to_three_helps() -> None:
    cluster = Cluster(*(holding(f"h{n}", "a", 0, 10_000) for n in range(4)), cards=1)
    found = cluster.moves(shape(1, 40_000))
    assert (found.leave, found.all_tried, found.hopeless) == ((), True, False)
    assert cluster.leave(shape(1, 40_000), most=4) == ["h0", "h1", "h2", "h3"]


def test_it_says_when_not_even_all_would_help_or_not_all_were_tried() -> None:
    cluster = Cluster(*(holding(f"h{n}", "a", 0, 10_000) for n in range(4)), cards=1)
    assert cluster.moves(shape(1, 41_000)).hopeless
    assert cluster.moves(shape(3, 1000)).hopeless
    assert cluster.moves(shape(1, 1000, cpu=64_001)).hopeless
    busy = Cluster(*(holding(f"h{n}", "a", 0, 100, 30) for n in range(3)), cards=1)
    few = busy.moves(shape(1, 1000, 60), budget=2)
    assert (few.leave, few.tried, few.all_tried) == ((), 2, False)
    assert busy.leave(shape(1, 1000, 60)) == ["h0", "h1"]


def test_cpu_of_the_host_counts() -> None:
    cluster = Cluster(holding("a", "a", 0, 1), holding("b", "a", 1, 9), cpu=10_000)
    assert cluster.leave(shape(1, 1000, cpu=8500)) == ["a"]
    assert cluster.leave(shape(1, 1000, cpu=9500)) == ["a", "b"]


def test_a_gang_may_need_room_on_several_hosts() -> None:
    cluster = Cluster(
        holding("a", "a", 0, 30_000), holding("b", "b", 0, 20_000), holding("c", "c", 0, 40_000),
        cards=1,
    )  # fmt: skip
    assert cluster.leave(shape(1, 25_000), pods=2) == ["b", "a"]


def test_a_card_of_its_own_and_compute() -> None:
    cluster = Cluster(
        holding("alone", "a", 0, 100, mutex=True), holding("busy", "b", 0, 50, 90), cards=1
    )
    assert cluster.leave(shape(1, 1000, cores=20)) == ["busy"]
    assert cluster.leave(shape(1)) == ["busy"]
    del cluster.holders[1]
    assert cluster.leave(shape(1, 41_000)) == []


def test_the_fleet_is_as_it_was() -> None:
    cluster = Cluster(holding("a", "a", 0, 30_000), holding("b", "a", 1, 30_000))
    before = cluster.fleet.use("a"), cluster.fleet.place(shape(1, 9000))
    cluster.moves(shape(2, 20_000))
    assert (cluster.fleet.use("a"), cluster.fleet.place(shape(1, 9000))) == before


def test_a_host_without_a_mig_instance() -> None:
    use = used(host_of(mig_card()), c0=mig_used(Slice("2g.10gb", 2, 2), memory_mib=9984, cores=29))
    grant = Grant("GPU-0", "NVIDIA", 9984, 29, Slice("2g.10gb", 2, 2))
    gone = Holding("u", "team", "n", (Role.APP,), ((grant,),))
    left = without(use, gone.charge(), gone.occupied(), mutex=gone.mutex)
    assert left.use("GPU-0") == HostUse(use.host).use("GPU-0")


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_smallest_of_all_sets(seed: int) -> None:
    rng = random.Random(seed)
    holdings = []
    for name in ("a", "b"):
        left = [CARD, CARD]
        for number in range(4):
            card = rng.randrange(2)
            mib = rng.randint(1, max(2, left[card] // 2))
            left[card] -= mib
            holdings.append(holding(f"{name}{number}", name, card, mib, rng.choice([0, 20])))
    cluster = Cluster(*holdings)
    wanted = shape(rng.choice([1, 2]), rng.randint(15_000, CARD), rng.choice([0, 60]))

    found = cluster.moves(wanted)

    best = None
    for size in range(1, 4):
        sets = []
        for some in combinations(holdings, size):
            rest = Cluster(*(one for one in holdings if one not in some), a=2, b=2)
            if not isinstance(rest.fleet.place(wanted), NoPlace):
                sets.append(sum(one.allocation[0][0].memory_mib for one in some))
        if sets:
            best = size, min(sets)
            break
    got = (len(found.leave), sum(one.allocation[0][0].memory_mib for one in found.leave))
    fits_now = not isinstance(cluster.fleet.place(wanted), NoPlace)
    if not fits_now:
        assert got == (best or (0, 0))
