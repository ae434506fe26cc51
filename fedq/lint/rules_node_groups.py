"""Cards of nodes and how node groups cut them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from federation.core.devices.asking.asking import WantsError
from federation.core.devices.inventory.inventory import read_host
from federation.core.devices.inventory.node_facts import NodeFacts
from federation.core.devices.inventory.node_groups import NodeGroup
from federation.core.quantity import QuantityError
from federation.jobs.devices import card_wants
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.jobs import Pods, get
from fedq.lint.world import Node, World


def alike(world: World) -> Iterator[Finding]:
    """Two groups that a node may be in, neither of which is the stricter."""
    for (_, _, one), (thing, index, other) in combinations(world.node_groups, 2):
        if len(one.selector) == len(other.selector) and _may_meet(one, other):
            said = f"a node may be in the groups {one.name} and {other.name} alike"
            todo = "select by one more label in one of them: the stricter group counts"
            path = ("nodeGroups", index, "nodeSelector")
            yield Finding(thing, f"{said}: its cards get no new work", todo, path)


def _may_meet(one: NodeGroup, other: NodeGroup) -> bool:
    return all(other.selector.get(key, value) == value for key, value in one.selector.items())


def without_nodes(world: World) -> Iterator[Finding]:
    """A group that cuts no card, where the nodes are known."""
    nodes = list(world.of("Node", ""))
    for thing, index, group in world.node_groups if nodes else ():
        if not any(group.matches(node.labels) for node in nodes):
            labels = ", ".join(f"{key}={value}" for key, value in group.selector.items())
            said = f"none of {len(nodes)} nodes is in the group {group.name}"
            path = ("nodeGroups", index)
            yield Finding(thing, said, f"label its nodes {labels}, or drop the group", path)


def cards(world: World) -> Iterator[Finding]:
    """What the agent would say of the cards of a node."""
    groups = [group for _, _, group in world.node_groups]
    for thing in world.of("Node", ""):
        reading = read_host(_facts(thing), groups)
        for said in (*filter(None, [reading.fence]), *reading.problems):
            yield Finding(thing, said, "see docs/devices-vendors.md")


def _facts(thing: Thing) -> NodeFacts:
    return NodeFacts(
        thing.name,
        thing.annotations,
        thing.labels,
        _amounts(thing, "capacity"),
        _amounts(thing, "allocatable"),
    )


def _amounts(thing: Thing, kind: str) -> dict[str, str]:
    amounts = get(thing.body, ("status", kind))
    return {str(k): str(v) for k, v in amounts.items()} if isinstance(amounts, dict) else {}


def slice_too_small(world: World) -> Iterator[Finding]:
    """More memory of a card than any node group gives to one slice."""
    cutting = [group for _, _, group in world.node_groups if group.memory_mib]
    for job in world.jobs if cutting else ():
        for pods in job.pods:
            asked, most = _largest(pods), _most(pods, cutting)
            if asked > most:
                said = f"a container asks for {asked} MiB of a card, and no slice of a node group"
                todo = "ask for less, or for more cards with less each"
                path = (*pods.path, "spec", "containers")
                yield Finding(job.thing, f"{said} has more than {most} MiB", todo, path)


def _largest(pods: Pods) -> int:
    """The most memory of one card that a container asks for in MiB; 0 if none does."""
    try:
        wants = card_wants(pods.template)
    except (WantsError, QuantityError):  # other rules tell
        return 0
    return max((card.memory_mib for c in wants.containers for card in c.cards), default=0)


def _most(pods: Pods, groups: list[NodeGroup]) -> int:
    """The largest slice of the groups whose nodes the pods may run on."""
    wanted = dict(pods.as_set().node_selector)
    fitting = (g for g in groups if Node(g.name, g.selector, partial=True).may_have(wanted))
    return max((group.memory_mib for group in fitting), default=0)


RULES: Final = (
    Rule("node-groups-alike", Severity.WARNING, alike),
    Rule("node-group-empty", Severity.WARNING, without_nodes),
    Rule("node-cards", Severity.WARNING, cards),
    Rule("slice-too-small", Severity.WARNING, slice_too_small),
)
