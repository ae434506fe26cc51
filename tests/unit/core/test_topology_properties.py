"""Laws of placement, against a slow model that counts domains one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from federation.core.topology import HOSTNAME, FlavorTopology, Node, TopologyFailure
from federation.core.types import PodSet, TopologyAssignment, TopologyMode, TopologyRequest
from tests.unit.core.topologies import LEVELS, message, node, topology, where

MANY = settings(max_examples=200, deadline=None)
Path = tuple[str, str, str]
DEMAND = {"gpu": 1, "memory": 2}
LEADER = {"memory": 3}


@dataclass(frozen=True)
class Hosts:
    """Free cards and memory of every host by path; the slow model of a topology."""

    free: Mapping[Path, tuple[int, int]]

    def nodes(self) -> list[Node]:
        return [
            node("/".join(path), allocatable={"gpu": gpu, "memory": memory, "pods": 100})
            for path, (gpu, memory) in self.free.items()
        ]

    def pods(self, path: Path, leaders: int = 0) -> int:
        """Pods on a host beside so many leaders; -1 if the leaders do not fit."""
        gpu, memory = self.free[path]
        memory -= LEADER["memory"] * leaders
        return -1 if memory < 0 else min(gpu, memory // DEMAND["memory"])

    def domains(self, level: int) -> set[tuple[str, ...]]:
        return {path[: level + 1] for path in self.free}

    def below(self, domain: tuple[str, ...]) -> Iterator[Path]:
        return (path for path in self.free if path[: len(domain)] == domain)

    def units(
        self, domain: tuple[str, ...], groups: tuple[tuple[int, int], ...], leader: Path | None
    ) -> int:
        """Whole slices (of the first group) that a domain holds, by recursion from the top."""
        level = len(domain) - 1
        if level == len(LEVELS) - 1:
            (path,) = self.below(domain)
            held = self.pods(path, int(path == leader))
            return held // _size(groups, level)
        outer, size = groups[0]
        children = {path[: level + 2] for path in self.below(domain)}
        if level < outer:
            return sum(self.units(child, groups, leader) for child in children)
        inner = tuple(group for group in groups if group[0] > level) or ((len(LEVELS) - 1, 1),)
        part = inner[0][1]
        whole = sum(self.units(child, inner, leader) * part for child in children)
        return whole // (size if level == outer else part)


def _size(groups: tuple[tuple[int, int], ...], level: int) -> int:
    return next(size for at, size in groups if at <= level)


def groups_of(request: TopologyRequest) -> tuple[tuple[int, int], ...]:
    """Slices by number of level; single pods are slices of one."""
    found = tuple((LEVELS.index(key), size) for key, size in request.slices)
    return found or ((len(LEVELS) - 1, 1),)


@st.composite
def hosts(draw: st.DrawFn) -> Hosts:
    """Up to two blocks with up to three racks of up to three hosts."""
    free = {}
    for block in range(draw(st.integers(1, 2))):
        for rack in range(draw(st.integers(1, 3))):
            for host in range(draw(st.integers(1, 3))):
                path = (f"b{block}", f"r{rack}", f"b{block}r{rack}h{host}")
                free[path] = (draw(st.integers(0, 5)), draw(st.integers(0, 10)))
    return Hosts(free)


@st.composite
def requests(draw: st.DrawFn) -> TopologyRequest:
    mode = draw(st.sampled_from(TopologyMode))
    level = 0 if mode is TopologyMode.UNCONSTRAINED else draw(st.integers(0, 2))
    at = sorted(draw(st.sets(st.integers(level, 2), max_size=3)))
    sizes, size = list[int](), 1
    for _ in at:
        size *= draw(st.integers(1, 2))
        sizes.insert(0, size)
    slices = tuple(zip((LEVELS[number] for number in at), sizes, strict=True))
    return TopologyRequest(mode, LEVELS[level], slices)


def pods(request: TopologyRequest | None, name: str = "main") -> PodSet:
    return PodSet(name, 1, LEADER if name == "leader" else DEMAND, topology=request)


def by_path(model: Hosts, assignment: TopologyAssignment) -> dict[Path, int]:
    """Pods per host, each named once."""
    counts = where(assignment)
    assert len(counts) == len(assignment.domains)
    assert all(count > 0 for count in counts.values())
    return {path: counts[path[-1]] for path in model.free if path[-1] in counts}


def whole(request: TopologyRequest, placed: Mapping[Path, int]) -> bool:
    """Whether all slices are whole within their domains, but for one that may not be full."""
    total = sum(placed.values())
    for level, size in groups_of(request):
        held = Counter[tuple[str, ...]]()
        for path, count in placed.items():
            held[path[: level + 1]] += count
        if sum(-(-count // size) for count in held.values()) != -(-total // size):
            return False
    return True


@MANY
@given(hosts(), requests(), st.integers(0, 25), st.booleans())
def test_a_placement_is_whole_and_within_what_is_free(
    model: Hosts, request: TopologyRequest, count: int, led: bool
) -> None:
    group = [(pods(request), count)] + [(pods(request, "leader"), 1)] * (led and count > 0)
    placed = topology(model.nodes()).place(group)
    event("fails" if isinstance(placed, TopologyFailure) else "fits")
    if isinstance(placed, TopologyFailure):
        return
    main = by_path(model, placed[0])
    leader = by_path(model, placed[1]) if len(placed) > 1 else {}
    assert sum(main.values()) == count
    assert sum(leader.values()) == len(group) - 1
    assert all(main.get(path, 0) <= model.pods(path, leader.get(path, 0)) for path in model.free)
    assert whole(request, main)
    if request.mode is TopologyMode.REQUIRED:
        level = LEVELS.index(request.level)
        assert len({path[: level + 1] for path in main | leader}) <= 1


def best(
    model: Hosts, request: TopologyRequest, level: int, led: bool
) -> dict[tuple[str, ...], int]:
    """Slices per domain of a level, with the leader (if any) on the host that suits best; a
    domain without room for the leader is left out."""
    result = {}
    for domain in model.domains(level):
        seats: list[Path | None] = [None]
        if led:
            seats = [path for path in model.below(domain) if model.pods(path, 1) >= 0]
        if seats:
            result[domain] = max(model.units(domain, groups_of(request), seat) for seat in seats)
    return result


@MANY
@given(hosts(), requests(), st.integers(1, 12), st.booleans())
def test_required_takes_the_smallest_domain_that_fits(
    model: Hosts, request: TopologyRequest, count: int, led: bool
) -> None:
    request = TopologyRequest(TopologyMode.REQUIRED, request.level, request.slices)
    group = [(pods(request), count)] + [(pods(request, "leader"), 1)] * led
    placed = topology(model.nodes()).place(group)
    level, need = LEVELS.index(request.level), -(-count // groups_of(request)[0][1])
    units = best(model, request, level, led)
    fitting = {domain: n for domain, n in units.items() if n >= need}
    event("fits" if fitting else "fails")
    if not fitting:
        most = max(units.values(), default=0)
        text = f"allows to fit only {most} out of {need} " if most else f"any of {need} "
        assert text in message(placed)
        return
    assert not isinstance(placed, TopologyFailure), placed.message
    (domain,) = {path[: level + 1] for path in by_path(model, placed[0])}
    assert fitting.get(domain) == min(fitting.values())


@MANY
@given(hosts(), requests(), st.integers(1, 25), st.booleans())
def test_others_fit_if_the_highest_domains_hold_them_together(
    model: Hosts, request: TopologyRequest, count: int, led: bool
) -> None:
    assume(request.mode is not TopologyMode.REQUIRED)
    group = [(pods(request), count)] + [(pods(request, "leader"), 1)] * led
    need = -(-count // groups_of(request)[0][1])
    alone, beside = best(model, request, 0, False), best(model, request, 0, led)
    rooms = [sum(alone.values()) - alone[domain] + n for domain, n in beside.items()]
    placed = topology(model.nodes()).place(group)
    fits = bool(rooms) and max(rooms) >= need
    event("fits" if fits else "fails")
    assert isinstance(placed, list) == fits, placed


@MANY
@given(hosts(), requests(), st.integers(1, 15))
def test_preferred_is_in_one_domain_of_the_lowest_level_that_has_one(
    model: Hosts, request: TopologyRequest, count: int
) -> None:
    request = TopologyRequest(TopologyMode.PREFERRED, request.level, request.slices)
    placed = topology(model.nodes()).place([(pods(request), count)])
    need = -(-count // groups_of(request)[0][1])
    for level in range(LEVELS.index(request.level), -1, -1):
        fitting = {d: n for d, n in best(model, request, level, False).items() if n >= need}
        if fitting:
            assert isinstance(placed, list)
            (domain,) = {path[: level + 1] for path in by_path(model, placed[0])}
            assert fitting.get(domain) == min(fitting.values())
            return


@MANY
@given(hosts(), requests(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_order_of_nodes_and_of_mappings_does_not_matter(
    model: Hosts, request: TopologyRequest, count: int, shuffle: Random
) -> None:
    mixed = [
        Node(
            one.name,
            dict(reversed(one.labels.items())),
            dict(reversed(one.allocatable.items())),
        )
        for one in model.nodes()
    ]
    shuffle.shuffle(mixed)
    turned = PodSet("main", 1, dict(reversed(DEMAND.items())), topology=request)
    assert topology(mixed).place([(turned, count)]) == topology(model.nodes()).place(
        [(pods(request), count)]
    )


def left(model: Hosts, given: FlavorTopology) -> dict[Path, tuple[int, ...]]:
    """What is free on each host, found by asking."""

    def most(fits: Callable[[int], bool]) -> int:
        return next(n for n in range(110, -110, -1) if fits(n))

    return {
        path: tuple(
            most(lambda n, leaf=path[-1:], name=name: given.fits({leaf: {name: n}}))
            for name in ("gpu", "memory", "pods")
        )
        for path in model.free
    }


@settings(max_examples=40, deadline=None)
@given(hosts(), st.lists(st.tuples(requests(), st.integers(1, 6)), max_size=6), st.data())
def test_remove_undoes_add_in_any_order(
    model: Hosts, asked: list[tuple[TopologyRequest, int]], data: st.DataObject
) -> None:
    given = topology(model.nodes())
    before, running = left(model, given), []
    for request, count in asked:
        placed = given.place([(pods(request), count)])
        if isinstance(placed, list):
            assert given.fits(given.usage_of(placed[0], DEMAND))
            given.add(placed[0], DEMAND)
            running.append(placed[0])
    assert all(n >= 0 for free in left(model, given).values() for n in free)
    used = Counter[str]()
    for assignment in running:
        used.update(where(assignment))
    for path, (gpu, memory, number) in left(model, given).items():
        n = used[path[-1]]
        assert (gpu, memory, number) == tuple(
            was - n * each for was, each in zip(before[path], (1, 2, 1), strict=True)
        )
    fresh = topology(model.nodes())
    for request, count in asked:
        pair = [(pods(request), count)]
        assert given.place(pair, empty=True) == fresh.place(pair)
    for assignment in data.draw(st.permutations(running)):
        given.remove(assignment, DEMAND)
    assert left(model, given) == before


@MANY
@given(hosts(), requests(), st.integers(1, 12))
def test_assumed_usage_counts_as_charged_usage_does(
    model: Hosts, request: TopologyRequest, count: int
) -> None:
    assumed, charged = topology(model.nodes()), topology(model.nodes())
    first = assumed.place([(pods(None), 4)])
    assume(isinstance(first, list))
    assert isinstance(first, list)
    charged.add(first[0], DEMAND)
    second = [(pods(request), count)]
    assert assumed.place(second, assumed.usage_of(first[0], DEMAND)) == charged.place(second)


@MANY
@given(hosts(), requests(), st.integers(1, 12), st.data())
def test_replacement_keeps_what_is_healthy_and_the_rules(
    model: Hosts, request: TopologyRequest, count: int, data: st.DataObject
) -> None:
    given = topology(model.nodes())
    placed = given.place([(pods(request), count)])
    assume(isinstance(placed, list))
    assert isinstance(placed, list)
    given.add(placed[0], DEMAND)
    before = by_path(model, placed[0])
    failed = data.draw(st.sets(st.sampled_from(sorted(model.free)), min_size=1))
    moved = given.replace(placed[0], frozenset(path[-1] for path in failed), pods(request))
    event("fails" if isinstance(moved, TopologyFailure) else "moves")
    if isinstance(moved, TopologyFailure):
        return
    after = by_path(model, moved)
    assert sum(after.values()) == count
    assert not failed & after.keys()
    assert all(after.get(path, 0) >= n for path, n in before.items() if path not in failed)
    assert all(n <= model.pods(path) for path, n in after.items())
    if count % groups_of(request)[0][1] == 0:
        assert whole(request, after)
    if request.mode is TopologyMode.REQUIRED:
        level = LEVELS.index(request.level)
        assert len({path[: level + 1] for path in after}) == 1
    if failed & before.keys():
        given.remove(placed[0], DEMAND)
        assert given.fits(given.usage_of(moved, DEMAND))
    assert moved.levels == (HOSTNAME,)
