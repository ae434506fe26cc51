"""Flavors and the nodes they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from federation.core.matching import untolerated
from federation.core.types import PodSet, ResourceFlavor, Taint
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.jobs import JobView
from fedq.lint.world import Node, World

_BLOCKING: Final = ("NoSchedule", "NoExecute")
_CORDON: Final = "node.kubernetes.io/"
"""Prefix of taints that Kubernetes sets and takes away by itself."""


def no_node(world: World) -> Iterator[Finding]:
    """Node labels that no known node has. On a management cluster a flavor is a budget only."""
    if not world.nodes:
        return
    severity = Severity.INFO if world.is_management else None
    for thing, flavor in world.flavors.items():
        labels = dict(flavor.node_labels)
        if not any(node.may_have(labels) for node in world.nodes):
            said = f"no node has {_text(labels)}: pods admitted to it never start there"
            near = _nearest(labels, world.nodes)
            todo = f"label the nodes, or correct spec.nodeLabels{near}"
            yield Finding(thing, said, todo, ("spec", "nodeLabels"), severity)


def _text(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in labels.items())


def _nearest(labels: Mapping[str, str], nodes: tuple[Node, ...]) -> str:
    """What the nodes have instead of the first label that none has."""
    for key, value in labels.items():
        if any(node.may_have({key: value}) for node in nodes):
            continue
        has = sorted({node.labels[key] for node in nodes if key in node.labels})
        if not has:
            return f" (no node has a label {key})"
        return f" (nodes have {key}={', '.join(has[:5])}{', …' if len(has) > 5 else ''})"
    return " (no node has all of them together)"


def any_node(world: World) -> Iterator[Finding]:
    """A flavor that fits every node beside others that mean some."""
    groups = [group for queue in world.queues.values() for group in queue.groups]
    for thing, flavor in world.flavors.items():
        beside = [g for g in groups if flavor.name in {f.flavor for f in g.flavors}]
        if not flavor.node_labels and any(len(group.flavors) > 1 for group in beside):
            said = "without nodeLabels its pods run on any node, also on those of other flavors"
            yield Finding(thing, said, "set spec.nodeLabels", ("spec",))


def taint(world: World) -> Iterator[Finding]:
    """A taint of the flavor that neither itself nor anybody's pods tolerate."""
    jobs = [(job, pods.as_set()) for job in world.jobs for pods in job.pods]
    for thing, flavor in world.flavors.items():
        closed = untolerated(PodSet("", 1, {}), flavor)
        if not closed or any(not untolerated(pods, flavor) for _, pods in jobs):
            continue
        path = ("spec", "nodeTaints")
        todo = "add a toleration to the flavor's spec.tolerations, or to the pods"
        if jobs:
            said = f"taint {closed} is tolerated by no job's pods and not by the flavor itself"
            yield Finding(thing, f"{said}: nothing is admitted to it", todo, path)
        else:
            said = f"taint {closed} is not tolerated by the flavor itself: only pods that do get it"
            yield Finding(thing, said, todo, path, Severity.INFO)


def node_taint(world: World) -> Iterator[Finding]:
    """Nodes that admitted pods cannot go to, because of a taint that the flavor does not name."""
    for thing, flavor in world.flavors.items():
        labels = dict(flavor.node_labels)
        nodes = [n for n in world.nodes if not n.partial and n.may_have(labels)]
        nodes = [] if world.is_management else nodes
        closed = [_closing(node, flavor) for node in nodes]
        if nodes and all(closed) and not any(_tolerates(j, nodes, flavor) for j in world.jobs):
            said = f"all {len(nodes)} of its nodes have a taint such as {closed[0]}, which neither"
            yield Finding(
                thing,
                f"{said} the flavor nor any job's pods tolerate",
                "add it to spec.tolerations; or to spec.nodeTaints, if pods have to ask for it",
                ("spec",),
            )


def _closing(node: Node, flavor: ResourceFlavor) -> str:
    """The first taint of a node that the flavor neither tolerates nor asks pods to tolerate."""
    for found in node.taints:
        named = any(t.key == found.key and t.effect == found.effect for t in flavor.taints)
        if _blocks(found) and not named and not any(t.tolerates(found) for t in flavor.tolerations):
            return f"{found.key}={found.value}:{found.effect}"
    return ""


def _blocks(found: Taint) -> bool:
    return found.effect in _BLOCKING and not found.key.startswith(_CORDON)


def _tolerates(job: JobView, nodes: list[Node], flavor: ResourceFlavor) -> bool:
    """Whether some pods of the job tolerate every taint of one of the nodes."""
    sets = [pods.as_set() for pods in job.pods]
    return any(
        all(
            not _blocks(t) or any(x.tolerates(t) for x in (*pods.tolerations, *flavor.tolerations))
            for t in node.taints
        )
        for node in nodes
        for pods in sets
    )


def unused(world: World) -> Iterator[Finding]:
    """A flavor in which no queue gives quota, although there are queues."""
    used = {f.flavor for q in world.queues.values() for g in q.groups for f in g.flavors}
    used |= {f.flavor for c in world.cohorts.values() for g in c.groups for f in g.flavors}
    things: list[Thing] = [t for t, flavor in world.flavors.items() if flavor.name not in used]
    for thing in things if used else ():
        said = "no ClusterQueue gives quota in it"
        yield Finding(thing, said, "name it in spec.resourceGroups, or remove it", ())


RULES: Final = (
    Rule("no-node", Severity.WARNING, no_node),
    Rule("any-node", Severity.INFO, any_node),
    Rule("taint", Severity.WARNING, taint),
    Rule("node-taint", Severity.WARNING, node_taint),
    Rule("unused-flavor", Severity.INFO, unused),
)
