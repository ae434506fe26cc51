"""Topology-aware scheduling: the nodes of one flavor, and where in them pod sets are placed.

Rules: spec of Kueue §5.1 and §5.12. An assignment names the leaves; if the lowest level is the
hostname it names that level alone, otherwise all of them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from federation.core.quantity import add, scale
from federation.core.topology_refill import Refill
from federation.core.topology_search import Found, TopologyFailure, search
from federation.core.topology_shape import Shape, resolve
from federation.core.topology_tree import HOSTNAME, Demand, Leaves, Node, Path, Tree
from federation.core.types import PodSet, PodSetAssignment, ResourceFlavor, TopologyAssignment

__all__ = [
    "HOSTNAME",
    "FlavorTopology",
    "Node",
    "TopologyFailure",
    "assume",
    "topology_of",
]

LeafUsage = Mapping[tuple[str, ...], Mapping[str, int]]
"""Amounts per leaf, under the values that an assignment gives the leaf."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What pods are to be placed, and what of the topology is open to them."""

    shape: Shape
    pods: PodSet
    count: int
    demand: Demand
    leader: PodSet | None = None
    failed: frozenset[str] = frozenset()
    within: range | None = None

    @property
    def units(self) -> int:
        """Slices; one that is not full needs the room of a full one."""
        return -(-self.count // self.shape.size)


class FlavorTopology:
    """The nodes of one flavor arranged in one Topology, with what is placed on them. Mutable.

    Only nodes with the flavor's labels and a label for every level belong to it. Amounts are
    per pod; 'pods' (one for each) is implied in all of them.
    """

    def __init__(
        self, topology: str, levels: tuple[str, ...], flavor: ResourceFlavor, nodes: Iterable[Node]
    ) -> None:
        self.name = topology
        self.levels = levels
        self._flavor = flavor
        self._single = levels[-1:] == (HOSTNAME,)
        grouped: dict[Path, list[Node]] = {}
        hosts: set[str] = set()
        for node in sorted(nodes, key=lambda node: node.name):
            path = self._path(node)
            # Two nodes of one hostname cannot be told apart: the second is not counted upon.
            if path and not (self._single and path[-1] in hosts):
                hosts.add(path[-1])
                grouped.setdefault(path, []).append(node)
        self._tree = Tree(len(levels), grouped)
        paths = sorted(grouped)
        self._leaves = Leaves([grouped[path] for path in paths], self._single)
        self._values = [path[-1:] if self._single else path for path in paths]
        self._number = {values: leaf for leaf, values in enumerate(self._values)}

    def _path(self, node: Node) -> Path:
        """The values of all levels; () if the node does not belong here."""
        if any(node.labels.get(key) != value for key, value in self._flavor.node_labels):
            return ()
        if any(key not in node.labels for key in self.levels):
            return ()
        return tuple(node.labels[key] for key in self.levels)

    def place(
        self,
        pods: Sequence[tuple[PodSet, int]],
        assumed: LeafUsage | None = None,
        *,
        empty: bool = False,
    ) -> list[TopologyAssignment] | TopologyFailure:
        """Places for one pod set, or for a group of two of which one is a single leader pod.

        `pods` are the pod sets with the counts to place; the first one's request holds for all.
        `assumed` is what earlier pod sets of the same workload take. With `empty` the usage of
        topology-scheduled workloads is ignored. Returns assignments in the order of `pods`.
        """
        if problem := _unplaceable(pods):
            return TopologyFailure(problem)
        if not pods:
            return []
        shape = resolve(self.name, self.levels, pods[0][0].topology)
        if isinstance(shape, str):
            return TopologyFailure(shape)
        at = 1 if len(pods) > 1 and pods[1][1] > pods[0][1] else 0
        workers, count = pods[at]
        leaders = [pod_set for pod_set, n in (*pods[:at], *pods[at + 1 :]) if n]
        demand = Demand(self._taken(assumed), empty=empty)
        found = self._find(_Job(shape, workers, count, demand, leaders[0] if leaders else None))
        if isinstance(found, TopologyFailure):
            return found
        lead = {} if found.leader is None else {found.leader: 1}
        result = [self._assignment(lead)] * (len(pods) - 1)
        result.insert(at, self._assignment(found.pods))
        return result

    def replace(
        self,
        assignment: TopologyAssignment,
        failed: frozenset[str],
        pods: PodSet,
        assumed: LeafUsage | None = None,
        group: TopologyAssignment | None = None,
    ) -> TopologyAssignment | TopologyFailure:
        """New places for the pods of an assignment that are on `failed` lowest-level values.

        The rest stays where it is. Slices that lost pods are completed in their own domain; all
        others keep to the required domain, and to the preferred one if it has room. `group` is
        the assignment of the other pod set of the group, which shares that domain. What the
        assignment uses must be charged (`add`) when this is called.
        """
        shape = resolve(self.name, self.levels, pods.topology)
        if isinstance(shape, str):
            return TopologyFailure(shape)
        healthy = [(values, n) for values, n in assignment.domains if values[-1] not in failed]
        for values, _ in healthy:
            if self._leaf(values) is None:
                return TopologyFailure(
                    f"pods run on {'/'.join(values)}, which is no longer in topology "
                    f'"{self.name}": name it as failed too, or evict the workload'
                )
        lost = sum(count for _, count in assignment.domains) - sum(n for _, n in healthy)
        if not lost:
            return assignment
        kept = self._per_leaf(healthy)
        company = [place for place in group.domains if place[0][-1] not in failed] if group else []
        taken, per_pod = self._taken(assumed), _per_pod(pods.requests)

        def find(
            shape: Shape, count: int, within: range | None, new: Mapping[int, int]
        ) -> Found | TopologyFailure:
            demand = Demand(_plus(taken, new, per_pod))
            return self._find(_Job(shape, pods, count, demand, failed=failed, within=within))

        refill = Refill(self._tree, shape, kept, self._per_leaf(company), lost, find)
        return refill.run() or self._assignment(refill.placed)

    def _find(self, job: _Job) -> Found | TopologyFailure:
        if not self._values:
            return TopologyFailure(
                f'topology "{self.name}" has no domain in flavor {self._flavor.name}: '
                "no node has the flavor's labels and a label for each level"
            )
        fit = self._fit(job, job.pods, job.demand)
        led = None if job.leader is None else self._fit_led(job, job.leader)
        found = search(self._tree, job.shape, fit, led, job.units)
        if isinstance(found, int):
            text = self._shortage(job, found, led)
            return TopologyFailure(text + self._excluded(job, fit))
        return Found(_without(found.pods, job.units * job.shape.size - job.count), found.leader)

    def _fit(self, job: _Job, pods: PodSet, demand: Demand) -> list[int]:
        """How many pods each leaf may be given."""
        fit = self._leaves.fit(_per_pod(pods.requests), demand)
        why = self._against(job, pods)
        return [0 if reason else n for n, reason in zip(fit, why, strict=True)] if why else fit

    def _fit_led(self, job: _Job, leader: PodSet) -> list[int]:
        """How many pods each leaf may be given beside the leader; -1 where that cannot go."""
        seats = self._fit(job, leader, job.demand)
        beside = dataclasses.replace(job.demand, leader=_per_pod(leader.requests))
        fit = self._fit(job, job.pods, beside)
        return [n if seat else -1 for n, seat in zip(fit, seats, strict=True)]

    def _against(self, job: _Job, pods: PodSet) -> Sequence[str]:
        """Why each leaf is out of the question ('' if not); empty if none is."""
        why = self._leaves.refusals(pods, self._flavor.tolerations)
        if not job.failed and job.within is None:
            return why
        out = list(why) or [""] * len(self._values)
        for leaf, values in enumerate(self._values):
            if values[-1] in job.failed:
                out[leaf] = "unhealthy"
            elif not out[leaf] and job.within is not None and leaf not in job.within:
                out[leaf] = "topologyDomain"
        return out

    def _shortage(self, job: _Job, fits: int, led: list[int] | None) -> str:
        unit = "slice(s)" if job.shape.size > 1 else "pod(s)"
        if fits:
            text = f"allows to fit only {fits} out of {job.units} {unit}"
        else:
            text = f"doesn't allow to fit any of {job.units} {unit}"
        if job.leader and led and max(led) < 0:
            text += f", since their leader {job.leader.name} fits nowhere"
        return f'topology "{self.name}" {text}'

    def _excluded(self, job: _Job, fit: list[int]) -> str:
        """How many leaves take no pod at all, by reason."""
        requests = _per_pod(job.pods.requests)
        why = self._against(job, job.pods) or [""] * len(fit)
        excluded = Counter[str]()
        for leaf, count in enumerate(fit):
            if why[leaf]:
                excluded[why[leaf]] += 1
            elif not count:
                limit = self._leaves.scarcest(leaf, requests, job.demand)
                excluded[f'resource "{limit}"'] += 1
        if not excluded:
            return ""
        reasons = ", ".join(f"{reason}: {n}" for reason, n in sorted(excluded.items()))
        return f". Total nodes: {len(fit)}; excluded: {reasons}"

    def add(self, assignment: TopologyAssignment, per_pod: Mapping[str, int]) -> None:
        """Charge an assignment. Leaves that are not (or no longer) here are passed over."""
        self._charge(assignment, per_pod, 1)

    def remove(self, assignment: TopologyAssignment, per_pod: Mapping[str, int]) -> None:
        """Undo `add`."""
        self._charge(assignment, per_pod, -1)

    def _charge(
        self, assignment: TopologyAssignment, per_pod: Mapping[str, int], sign: int
    ) -> None:
        amounts = _per_pod(per_pod)
        for leaf, count in self._per_leaf(assignment.domains).items():
            self._leaves.charge(leaf, amounts, sign * count)

    def usage_of(
        self, assignment: TopologyAssignment, per_pod: Mapping[str, int]
    ) -> dict[tuple[str, ...], dict[str, int]]:
        """What an assignment uses per leaf, for `assumed` and `fits`."""
        usage: dict[tuple[str, ...], dict[str, int]] = {}
        for values, count in assignment.domains:
            of_leaf = usage.setdefault(self._key(values), {})
            for resource, amount in _per_pod(per_pod).items():
                of_leaf[resource] = of_leaf.get(resource, 0) + amount * count
        return usage

    def fits(self, usage: LeafUsage) -> bool:
        """Whether all of `usage` is still free."""
        for values, amounts in usage.items():
            leaf = self._leaf(values)
            if leaf is None:
                return False
            if any(amount > self._leaves.free(leaf, name) for name, amount in amounts.items()):
                return False
        return True

    def _key(self, values: Path) -> Path:
        """Older assignments spell out the levels above the hostname as well."""
        return values[-1:] if self._single else values

    def _leaf(self, values: Path) -> int | None:
        return self._number.get(self._key(values))

    def _per_leaf(self, domains: Iterable[tuple[Path, int]]) -> dict[int, int]:
        """Pods per leaf, without those on leaves that are not here."""
        pods = Counter[int]()
        for values, count in domains:
            leaf = self._leaf(values)
            if leaf is not None:
                pods[leaf] += count
        return dict(pods)

    def _taken(self, assumed: LeafUsage | None) -> dict[int, Mapping[str, int]]:
        found = ((self._leaf(values), usage) for values, usage in (assumed or {}).items())
        return {leaf: usage for leaf, usage in found if leaf is not None}

    def _assignment(self, pods: Mapping[int, int]) -> TopologyAssignment:
        levels = self.levels[-1:] if self._single else self.levels
        domains = tuple((self._values[leaf], count) for leaf, count in sorted(pods.items()))
        return TopologyAssignment(levels, domains)


def topology_of(
    pods: PodSetAssignment, topologies: Mapping[str, FlavorTopology]
) -> FlavorTopology | None:
    """That of the first of its flavors, by name, that is arranged in one."""
    names = sorted(set(pods.flavors.values()))
    return next((topologies[name] for name in names if name in topologies), None)


def assume(taken: dict[Path, dict[str, int]], usage: LeafUsage) -> None:
    """Add `usage` to what is taken."""
    for leaf, amounts in usage.items():
        of_leaf = taken.setdefault(leaf, {})
        for resource, amount in amounts.items():
            of_leaf[resource] = of_leaf.get(resource, 0) + amount


def _unplaceable(pods: Sequence[tuple[PodSet, int]]) -> str:
    """What is wrong with the counts of a group, or ''."""
    if below := [f"{pod_set.name}: {count}" for pod_set, count in pods if count < 0]:
        return f"pods cannot be fewer than none ({below[0]})"
    if len(pods) > 2 or sorted(count for _, count in pods)[:-1] > [1]:
        sets = ", ".join(f"{pod_set.name}: {count}" for pod_set, count in pods)
        return f"only a pod set and its leader, a single pod, can be placed together, not {sets}"
    return ""


def _per_pod(requests: Mapping[str, int]) -> dict[str, int]:
    return {name: n for name, n in requests.items() if n > 0} | {"pods": 1}


def _plus(
    taken: Mapping[int, Mapping[str, int]], pods: Mapping[int, int], per_pod: Mapping[str, int]
) -> dict[int, Mapping[str, int]]:
    """Amounts per leaf with those of some more pods."""
    more = {leaf: scale(per_pod, count) for leaf, count in pods.items() if count}
    return dict(taken) | {leaf: add(taken.get(leaf, {}), usage) for leaf, usage in more.items()}


def _without(pods: dict[int, int], surplus: int) -> dict[int, int]:
    """Leave out the last pods: those that fill up the one slice that is not full."""
    kept = dict(pods)
    for leaf in sorted(pods, reverse=True):
        kept[leaf] = max(0, pods[leaf] - surplus)
        surplus -= pods[leaf] - kept[leaf]
    return {leaf: count for leaf, count in kept.items() if count}
