"""Jobs that no queue, flavor or node can ever take, however long they wait.

Each pod set is looked at alone, with nothing used: what is said here is certain for the given
objects, but a job without a finding may still be too large as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federation.core.card_shares import CARD_MEMORY, ask_for, limited, priced
from federation.core.card_shares import Ask as Asked
from federation.core.devices.quota.quota import CardQuotas, UnknownCard
from federation.core.devices.quota.rules import card_quotas
from federation.core.matching import affinity_matches, untolerated
from federation.core.quantity import format_quantity, parse_resources, scale
from federation.core.types import ClusterQueue, FlavorResource, PodSet, ResourceGroup
from federation.jobs.containers import PodDefaults
from federation.jobs.devices import card_problems
from federation.jobs.pods import pod_set
from fedq.lint.finding import Finding, Rule, Severity
from fedq.lint.jobs import JobView, Pods
from fedq.lint.world import Node, World


@dataclass(frozen=True, slots=True)
class Ask:
    """One pod set of a job, what it needs at least in all, and the queue it goes to. Its request
    for cards is valid: what is refused anyway is not held against a quota.
    """

    job: JobView
    pods: Pods
    set: PodSet
    queue: ClusterQueue
    quotas: CardQuotas

    @property
    def needs(self) -> dict[str, int]:
        """Amounts that quota is asked for, but for shares of cards."""
        return {name: amount for name, amount in self.asked.total.items() if amount}

    @property
    def asked(self) -> Asked:
        """The same, with the shares of cards that its queue counts."""
        fewest = min(self.job.min_count or self.set.count, self.set.count)
        total = scale(self.set.requests, fewest)
        return ask_for(self.set, fewest, total, self.queue, self.quotas)

    def finding(self, message: str, todo: str) -> Finding:
        """About its pods."""
        return Finding(self.job.thing, message, todo, (*self.pods.path, "spec", "containers"))


def _asks(world: World) -> Iterator[Ask]:
    for job in world.jobs:
        queue = world.queue_of(job)
        for pods in job.pods if queue else ():
            assert queue is not None
            defaults = PodDefaults(rules=world.resource_rules)
            if not any(card_problems(pods.template, defaults)):
                asked = pod_set("main", pods.count, pods.template, defaults=defaults)
                yield Ask(job, pods, asked, queue, card_quotas(world.resource_rules))


def not_covered(world: World) -> Iterator[Finding]:
    """A resource that the queue has no quota for."""
    for ask in _asks(world) if not world.ignores_undeclared else ():
        covered = {name for group in ask.queue.groups for name in group.covered}
        names = sorted(ask.needs.keys() - covered)
        if missing := ", ".join(n for n in names if not limited(n, [ask.asked], ask.quotas)):
            said = f"it requests {missing}, which ClusterQueue {ask.queue.name} does not cover: it"
            todo = f"add {missing} to the queue's resourceGroups, or drop the request"
            yield ask.finding(f"{said} waits for ever", todo)


def no_flavor(world: World) -> Iterator[Finding]:
    """No flavor of a group takes the pods: taints, node selector, affinity."""
    for ask in _asks(world):
        for group in _groups(ask):
            reasons = [_unsuitable(world, ask.set, f.flavor) for f in group.flavors]
            if reasons and all(reasons):
                said = f"no flavor of ClusterQueue {ask.queue.name} takes its pods"
                todo = "tolerate the taint, or correct nodeSelector or affinity"
                yield ask.finding(f"{said}: {'; '.join(reasons)}", todo)


def _groups(ask: Ask) -> list[ResourceGroup]:
    wanted = ask.needs.keys() | ask.asked.shares
    return [group for group in ask.queue.groups if set(group.covered) & wanted]


def _unsuitable(world: World, pods: PodSet, name: str) -> str:
    """Why pods cannot have a flavor; '' if they can, or if nothing is known of it."""
    flavor = world.flavor_by_name.get(name)
    if flavor is None:
        return f"{name} is missing" if world.knows("ResourceFlavor") else ""
    if closed := untolerated(pods, flavor):
        return f"{name} has the taint {closed}"
    return "" if affinity_matches(pods, flavor) else f"{name} does not match the node selector"


def too_large(world: World) -> Iterator[Finding]:
    """More than the queue could ever get, with all that its cohort lends."""
    for ask in _asks(world):
        if ask.queue.name in world.tree.cyclic:
            continue
        for group in _groups(ask):
            flavors = [f.flavor for f in group.flavors]
            suitable = [name for name in flavors if not _unsuitable(world, ask.set, name)]
            unsized: list[str] = []
            lacks = [_lack(world, ask, group, name, unsized) for name in suitable]
            if lacks and all(lacks):
                said = f"it can never fit into ClusterQueue {ask.queue.name}: {'; '.join(lacks)}"
                if ask.queue.cohort and "ClusterQueue" not in world.cluster:
                    said += f" (with the queues of cohort {ask.queue.cohort} in the files)"
                todo = "lower the requests or parallelism, or raise quota or borrowingLimit"
                if unsized:
                    size = f'annotation {CARD_MEMORY}: "MIB"'
                    todo = f"give ResourceFlavor {', '.join(unsized)} the {size}, or ask for MiB"
                yield ask.finding(said, todo)


def _lack(world: World, ask: Ask, group: ResourceGroup, flavor: str, unsized: list[str]) -> str:
    """The first resource of which the queue cannot get enough in a flavor. Flavors of whose cards
    the size is not known are noted in `unsized`.
    """
    known = world.flavor_by_name.get(flavor)
    try:
        needs = {**ask.needs, **priced(ask.asked, known.cards if known else (), ask.quotas)}
    except UnknownCard as error:
        if world.cluster:  # its nodes tell
            return ""
        unsized.append(flavor)
        return f"{error} in flavor {flavor}"
    for name in group.covered:
        most = world.tree.potential(ask.queue.name, FlavorResource(flavor, name))
        need = needs.get(name, 0)
        if need > most:
            has = format_quantity(name, most)
            return f"{name} needs {format_quantity(name, need)}, {flavor} has {has} at most"
    return ""


def no_room(world: World) -> Iterator[Finding]:
    """One pod is larger than every node."""
    nodes = [(node, parse_resources(node.allocatable)) for node in world.nodes]
    known = [(node, free) for node, free in nodes if free]
    for job in world.jobs if known and not world.is_management else ():
        for pods in job.pods:
            needs = pods.as_set().requests
            if not any(_holds(free, needs) for _, free in known):
                lack = _most(known, needs)
                said = f"one pod needs more than any of {len(known)} nodes has: {lack}"
                path = (*pods.path, "spec", "containers")
                todo = "lower the requests, or split the work over more pods"
                yield Finding(job.thing, said, todo, path)


def _holds(free: Mapping[str, int], needs: Mapping[str, int]) -> bool:
    return all(free.get(name, 0) >= amount for name, amount in needs.items())


def _most(known: Sequence[tuple[Node, Mapping[str, int]]], needs: Mapping[str, int]) -> str:
    """The resource that is lacking everywhere, or that they are not together on one node."""
    for name, need in needs.items():
        most = max(free.get(name, 0) for _, free in known)
        if need > most:
            return f"{name} {format_quantity(name, need)}, at most {format_quantity(name, most)}"
    return "no node has all of it together"


RULES: Final = (
    Rule("not-covered", Severity.WARNING, not_covered),
    Rule("no-flavor", Severity.WARNING, no_flavor),
    Rule("too-large", Severity.WARNING, too_large),
    Rule("no-room", Severity.WARNING, no_room),
)
