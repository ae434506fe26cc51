"""The domains of a topology, and what the nodes in its leaves can hold.

Domains are numbered per level in the order of their values, so the children of a domain are a
run of the next level and the number itself settles ties the way Kueue does (by level values).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from federation.core.matching import selects
from federation.core.types import LabelSelector, PodSet, Taint, Toleration

HOSTNAME = "kubernetes.io/hostname"
"""The label whose value is one node; a topology may have it as its lowest level only."""

Path = tuple[str, ...]
"""Values of the levels from the highest down to a domain's own."""

_BLOCKING = frozenset({"NoSchedule", "NoExecute"})
_SHAPES_KEPT = 256


@dataclass(frozen=True, slots=True)
class Node:
    """A node as placement sees it. Amounts are those of `quantity`: cpu in milli-units.

    `used` are the requests of pods that topology-aware scheduling did not place, 'pods' (their
    number) included.
    """

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    unschedulable: bool = False
    used: Mapping[str, int] = field(default_factory=dict)


class Tree:
    """The domains: `paths[level][number]` and `children[level][number]`, numbers one level down."""

    __slots__ = ("children", "paths")

    def __init__(self, depth: int, leaves: Iterable[Path]) -> None:
        self.paths: list[list[Path]] = [[] for _ in range(depth)]
        self.children: list[list[range]] = [[] for _ in range(depth - 1)]
        if depth:
            self.paths[-1] = sorted(leaves)
        for level in reversed(range(depth - 1)):
            self._gather(level)

    def _gather(self, level: int) -> None:
        start, below = 0, self.paths[level + 1]
        for number, path in enumerate(below, 1):
            if number == len(below) or below[number][: level + 1] != path[:-1]:
                self.paths[level].append(path[:-1])
                self.children[level].append(range(start, number))
                start = number

    def above(self, leaf: int, level: int) -> int:
        """The number of the domain at `level` that holds `leaf`."""
        return bisect_left(self.paths[level], self.paths[-1][leaf][: level + 1])

    def leaves(self, level: int, number: int) -> range:
        """The leaves below a domain."""
        first, last = number, number
        for runs in self.children[level:]:
            first, last = runs[first].start, runs[last].stop - 1
        return range(first, last + 1)


@dataclass(frozen=True, slots=True)
class Demand:
    """What is spoken for beside what is charged: amounts `taken` per leaf, and those of a
    `leader` on whichever leaf. With `empty` what is charged does not count.
    """

    taken: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    leader: Mapping[str, int] = field(default_factory=dict)
    empty: bool = False


class Leaves:
    """What each leaf can hold, what is charged to it, and which pods its node would refuse.

    One column per resource, so that a search is a few passes over plain lists.
    """

    __slots__ = ("_capacity", "_free", "_nodes", "_refusals")

    def __init__(self, nodes: Sequence[Sequence[Node]], single: bool) -> None:
        """`nodes` per leaf. `single`: a leaf is a node, and its labels and taints are looked at."""
        self._nodes = [group[0] for group in nodes] if single else []
        self._refusals: dict[object, tuple[str, ...]] = {}
        self._capacity: dict[str, list[int]] = {"pods": [0] * len(nodes)}
        for leaf, group in enumerate(nodes):
            for node in group:
                # A single node that is down keeps its numbers: it refuses pods by itself.
                if single or not _down(node):
                    self._count(leaf, node)
        self._free = {resource: column[:] for resource, column in self._capacity.items()}

    def _count(self, leaf: int, node: Node) -> None:
        for sign, amounts in ((1, node.allocatable), (-1, node.used)):
            for resource, amount in amounts.items():
                column = self._capacity.setdefault(resource, [0] * len(self._capacity["pods"]))
                column[leaf] += sign * amount

    def charge(self, leaf: int, amounts: Mapping[str, int], times: int) -> None:
        """Take `times` the amounts from what is free; a negative number gives them back."""
        for resource, amount in amounts.items():
            column = self._free.get(resource)
            if column is None:
                column = self._free[resource] = [0] * len(self._capacity["pods"])
            column[leaf] -= amount * times

    def free(self, leaf: int, resource: str, empty: bool = False) -> int:
        """What is left; with `empty`, as if no topology-scheduled pod ran."""
        column = (self._capacity if empty else self._free).get(resource)
        return column[leaf] if column else 0

    def fit(self, requests: Mapping[str, int], demand: Demand) -> list[int]:
        """How many pods of `requests` (all above zero) each leaf holds."""
        columns = self._capacity if demand.empty else self._free
        counts: list[int] | None = None
        for resource, amount in requests.items():
            column = columns.get(resource)
            if column is None:
                return [0] * len(self._capacity["pods"])
            if demand.taken:
                column = column[:]
                for leaf, usage in demand.taken.items():
                    column[leaf] -= usage.get(resource, 0)
            other = demand.leader.get(resource, 0)
            share = [(free - other) // amount for free in column]
            counts = share if counts is None else list(map(min, counts, share))
        return [count if count > 0 else 0 for count in counts or ()]

    def scarcest(self, leaf: int, requests: Mapping[str, int], demand: Demand) -> str:
        """The resource of which the leaf holds the fewest pods."""
        usage = demand.taken.get(leaf, {})

        def count(resource: str) -> int:
            free = self.free(leaf, resource, demand.empty) - usage.get(resource, 0)
            return max(0, free) // requests[resource]

        return min(requests, key=lambda resource: (count(resource), resource))

    def refusals(self, pods: PodSet, tolerations: tuple[Toleration, ...]) -> tuple[str, ...]:
        """Why the node of each leaf refuses the pods ('' if not); empty if none does.

        `tolerations` are the flavor's, always the same: they are not part of what is remembered.
        """
        key = (pods.node_selector, pods.affinity, pods.tolerations)
        found = self._refusals.get(key)
        if found is None:
            if len(self._refusals) >= _SHAPES_KEPT:
                self._refusals.clear()
            tolerated = (*pods.tolerations, *tolerations)
            found = tuple(_refusal(node, pods, tolerated) for node in self._nodes)
            found = self._refusals[key] = found if any(found) else ()
        return found


def _down(node: Node) -> str:
    if not node.ready:
        return "notReady"
    return "unschedulable" if node.unschedulable else ""


def _refusal(node: Node, pods: PodSet, tolerations: Sequence[Toleration]) -> str:
    """The first reason against the node, in Kueue's order and words."""
    if down := _down(node):
        return down
    for taint in node.taints:
        if taint.effect in _BLOCKING and not any(t.tolerates(taint) for t in tolerations):
            value = f"={taint.value}" if taint.value else ""
            return f'taint "{taint.key}{value}:{taint.effect}"'
    if not selects(LabelSelector(pods.node_selector), node.labels):
        return "nodeSelector"
    terms = pods.affinity
    if terms and not any(selects(LabelSelector((), term), node.labels) for term in terms):
        return "affinity"
    return ""
