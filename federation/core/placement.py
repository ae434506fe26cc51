"""Places in a topology for the pods of an assignment that has its quota, or will have.

Rules: Kueue's topology hook in the flavor assigner. Pods that find no place although there is
quota need victims, unless they would find none on empty nodes either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from federation.core.assignment import Assignment, Lack, Mode
from federation.core.flavors import groups
from federation.core.pod_updates import Conflict, PodSetUpdate, merged
from federation.core.reasons import Reason
from federation.core.topology import FlavorTopology, TopologyFailure, assume, topology_of
from federation.core.types import (
    Admission,
    FlavorResource,
    PodSet,
    PodSetAssignment,
    TopologyAssignment,
)

Topologies = Mapping[str, FlavorTopology]


def place(assignment: Assignment, pod_sets: Sequence[PodSet], topologies: Topologies) -> Assignment:
    """The assignment with places for its pods, or with the mode that the lack of them leaves."""
    arranged = _arranged(assignment, topologies)
    if assignment.mode is Mode.NO_FIT or not arranged:
        return assignment
    if assignment.mode is Mode.FIT:
        found = _search(assignment, pod_sets, topologies, empty=False)
        if not isinstance(found, TopologyFailure):
            return _with_places(assignment, found)
    elsewise = _search(assignment, pod_sets, topologies, empty=True)
    if isinstance(elsewise, TopologyFailure):
        return _failed(assignment, Mode.NO_FIT, elsewise)
    needed = assignment.preempting | {
        FlavorResource(flavor, resource)
        for pods in arranged
        for resource, flavor in pods.flavors.items()
    }
    if assignment.mode is Mode.FIT:
        assert isinstance(found, TopologyFailure)
        assignment = _failed(assignment, Mode.PREEMPT, found)
    return replace(assignment, preempting=needed)


def places_now(assignment: Assignment, pod_sets: Sequence[PodSet], topologies: Topologies) -> bool:
    """Whether all pods find places as things stand."""
    found = _search(assignment, pod_sets, topologies, empty=False)
    return not isinstance(found, TopologyFailure)


def place_later(
    admission: Admission,
    pod_sets: Sequence[PodSet],
    topologies: Topologies,
    updates: Iterable[PodSetUpdate] = (),
) -> Admission | TopologyFailure:
    """The second pass, when the admission checks are Ready: flavors stand, places are sought as
    things are, where the `updates` of the checks let pods go.
    """
    updates = tuple(updates)
    narrowed = [_updated(pods, updates) for pods in pod_sets]
    assignment = Assignment(admission, Mode.FIT, 0, {})
    found = _search(assignment, narrowed, topologies, empty=False)
    if isinstance(found, TopologyFailure):
        return found
    return _with_places(assignment, found).admission


def _updated(pods: PodSet, updates: Sequence[PodSetUpdate]) -> PodSet:
    """A pod set as the updates make it; where they contradict each other, as it is."""
    more = merged(pods.name, updates)
    if isinstance(more, Conflict):
        return pods
    selector = {**dict(pods.node_selector), **more.node_selector}
    tolerations = (*pods.tolerations, *more.tolerations)
    return replace(pods, node_selector=tuple(sorted(selector.items())), tolerations=tolerations)


def _arranged(assignment: Assignment, topologies: Topologies) -> list[PodSetAssignment]:
    """The pod sets that are on nodes arranged in a topology."""
    return [p for p in assignment.admission.pod_sets if topology_of(p, topologies) is not None]


def _search(
    assignment: Assignment, pod_sets: Sequence[PodSet], topologies: Topologies, *, empty: bool
) -> dict[str, TopologyAssignment] | TopologyFailure:
    """Places by pod set; pod sets that go together are placed together, beside earlier ones."""
    assigned = {pods.name: pods for pods in assignment.admission.pod_sets}
    taken: dict[FlavorTopology, dict[tuple[str, ...], dict[str, int]]] = {}
    found: dict[str, TopologyAssignment] = {}
    for members in groups(pod_sets):
        sets = [pod_sets[index] for index in members]
        topology = next(
            filter(None, (topology_of(assigned[p.name], topologies) for p in sets)), None
        )
        if topology is None:
            continue
        assumed = taken.setdefault(topology, {})
        counted = [(pods, assigned[pods.name].count) for pods in sets]
        result = topology.place(counted, assumed, empty=empty)
        if isinstance(result, TopologyFailure):
            return result
        for (pods, _), places in zip(counted, result, strict=True):
            found[pods.name] = places
            assume(assumed, topology.usage_of(places, pods.requests))
    return found


def _with_places(assignment: Assignment, found: Mapping[str, TopologyAssignment]) -> Assignment:
    pod_sets = tuple(
        replace(pods, topology=found.get(pods.name)) for pods in assignment.admission.pod_sets
    )
    return replace(assignment, admission=replace(assignment.admission, pod_sets=pod_sets))


def _failed(assignment: Assignment, mode: Mode, failure: TopologyFailure) -> Assignment:
    pod_set = assignment.admission.pod_sets[0].name
    lack = Lack(Reason.TOPOLOGY_PLACEMENT_FAILED, "", failure.message)
    return replace(
        assignment,
        mode=mode,
        reason=Reason.TOPOLOGY_PLACEMENT_FAILED,
        lacks=(*assignment.lacks, (pod_set, lack)),
    )
