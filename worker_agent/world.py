"""The queue objects of this cluster as the scheduler takes them, with nodes where they matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from federation.core.role_sharing import apart
from federation.core.topology import FlavorTopology
from federation.core.types import ClusterQueue
from federation.core.world import World
from worker_agent.devices import Devices
from worker_agent.nodes import Nodes
from worker_agent.state import State


def surroundings(state: State, nodes: Nodes, devices: Devices) -> tuple[World, dict[str, str]]:
    """All that decisions are made on, and the ClusterQueues that are inactive, with the reason.

    Topologies are made anew each time: the scheduler charges to them what is held.
    """
    catalog = state.catalog
    flavors = devices.flavored(catalog.flavors)
    if any(flavor.topology for flavor in flavors.values()):
        nodes.want()
    topologies = nodes.topologies(
        flavors.values(),
        catalog.topologies,
        lambda uid: state.scheduler.holder(uid) is not None,
        (mapping.resource for mapping in state.policies.resources.devices.mappings),
    )
    inactive = {
        queue.name: text
        for queue in catalog.queues.values()
        if (text := next(_missing(state, queue, topologies), ""))
    }
    others = {q.name for q in catalog.queues.values() if state.dispatched(q)}
    world = World(
        queues=apart(catalog.queues, others),
        cohorts=tuple(catalog.cohorts),
        flavors=flavors,
        namespaces=catalog.namespaces,
        topologies=topologies,
        rules=state.policies.rules,
        inactive=frozenset(inactive),
        fair_usage=state.policies.fair_usage,
        local_queues=catalog.local_queues,
        delaying=state.checks.delaying(),
    )
    return world, inactive


def _missing(
    state: State, queue: ClusterQueue, topologies: Mapping[str, FlavorTopology]
) -> Iterator[str]:
    """What is not there of its checks, and of the topologies of its flavors."""
    catalog = state.catalog
    if problem := state.checks.problem(queue):
        yield problem
    for name in queue.flavor_names:
        flavor = catalog.flavors.get(name)
        if flavor is None or not flavor.topology or name in topologies:
            continue
        if flavor.topology in catalog.topologies:
            yield "the nodes of its flavors have not been read yet"
        else:
            yield f"Topology {flavor.topology} of ResourceFlavor {name} does not exist"


def arranged(world: World) -> list[str]:
    """The ClusterQueues that have flavors with a topology: what nodes do concerns them."""
    return [
        name
        for name, queue in world.queues.items()
        if not world.topologies.keys().isdisjoint(queue.flavor_names)
    ]
