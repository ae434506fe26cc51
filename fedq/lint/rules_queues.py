"""Queues and cohorts that do something else than most people expect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from federation.api.problems import Path
from federation.core.policies import PreemptionPolicy, StopPolicy
from federation.core.quantity import exact_quantity
from federation.core.types import ClusterQueue, Cohort, Quota
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.jobs import JobView, get
from fedq.lint.signs import checkpointing
from fedq.lint.world import World

_GROUPS: Final[Path] = ("spec", "resourceGroups")
_SHOWN: Final = 3
"""Examples named in one message."""
LITTLE_MEMORY: Final = 2**20


def listed(items: list[str]) -> str:
    """A few of them, and how many more."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more


def no_namespace_selector(world: World) -> Iterator[Finding]:
    """Absent matches no namespace; `{}` matches all."""
    for thing, queue in world.queues.items():
        if queue.namespace_selector is None:
            said = "without namespaceSelector no namespace may use the queue: nothing is admitted"
            todo = "set spec.namespaceSelector: {} for all namespaces, or select some"
            yield Finding(thing, said, todo, ("spec",))


def no_quota(world: World) -> Iterator[Finding]:
    """Only workloads that request nothing get in."""
    for thing, queue in world.queues.items():
        if not any(group.flavors for group in queue.groups):
            said = "the queue has no quota: it admits only workloads that request nothing"
            yield Finding(thing, said, "add spec.resourceGroups with flavors", ("spec",))


def borrowing_unlimited(world: World) -> Iterator[Finding]:
    """A missing borrowingLimit is no limit, not zero."""
    for thing, parent, node in _borrowers(world):
        open_ = [name for name, quota in _quotas(node) if quota.borrowing_limit is None]
        if open_:
            yield Finding(
                thing,
                f"no borrowingLimit for {listed(open_)}: it may borrow all that cohort {parent}"
                " does not use, without limit (not: nothing)",
                "set borrowingLimit, 0 to forbid borrowing",
                _GROUPS,
            )


def lends_all(world: World) -> Iterator[Finding]:
    """A missing lendingLimit lends everything."""
    for thing, parent, node in _borrowers(world):
        lent = [name for name, q in _quotas(node) if q.lending_limit is None and q.nominal]
        if lent:
            yield Finding(
                thing,
                f"no lendingLimit for {listed(lent)}: others in cohort {parent} may use all of it"
                " while it is free",
                "set lendingLimit to keep some; preemption.reclaimWithinCohort gets it back",
                _GROUPS,
            )


def _borrowers(world: World) -> Iterator[tuple[Thing, str, ClusterQueue | Cohort]]:
    yield from ((thing, queue.cohort, queue) for thing, queue in world.queues.items())
    yield from ((thing, cohort.parent, cohort) for thing, cohort in world.cohorts.items())


def _quotas(node: ClusterQueue | Cohort) -> list[tuple[str, Quota]]:
    """Quotas by what they are of, of a node that has somebody to borrow from."""
    parent = node.cohort if isinstance(node, ClusterQueue) else node.parent
    return [
        (f"{resource} in {flavor.flavor}", quota)
        for group in node.groups
        for flavor in group.flavors
        for resource, quota in flavor.resources.items()
        if parent
    ]


def reclaim_any(world: World) -> Iterator[Finding]:
    """Reclaim `Any` evicts borrowers whatever their priority is: they start over."""
    roots = _roots(world)
    for thing, queue in world.queues.items():
        if queue.preemption.reclaim is not PreemptionPolicy.ANY or not queue.cohort:
            continue
        root = roots.get(queue.cohort, queue.cohort)
        victims = [
            str(job.thing)
            for job in world.jobs
            if (home := world.queue_of(job)) is not None
            and home.name != queue.name
            and home.cohort
            and roots.get(home.cohort, home.cohort) == root
            and not _safe(job)
        ]
        said = f"reclaimWithinCohort Any evicts borrowers in cohort {root} of any priority"
        path = ("spec", "preemption", "reclaimWithinCohort")
        if victims:
            todo = (
                "use LowerPriority, or let them save checkpoints (docs/lint.md says how it shows)"
            )
            message = f"{said}; no sign of checkpoints in {listed(victims)}"
            yield Finding(thing, message, todo, path)
        else:
            todo = "use it only where jobs save checkpoints"
            yield Finding(thing, said, todo, path, Severity.INFO)


def _safe(job: JobView) -> bool:
    return bool(checkpointing(job))


def _roots(world: World) -> dict[str, str]:
    """The top of each cohort's tree; cohorts in a cycle are left out."""
    parents = {cohort.name: cohort.parent for cohort in world.cohorts.values()}
    roots = {}
    for name in parents:
        seen, top = {name}, name
        while parents.get(top) and parents[top] not in seen:
            top = parents[top]
            seen.add(top)
        if not parents.get(top):
            roots[name] = top
    return roots


def cohort_cycle(world: World) -> Iterator[Finding]:
    """Nothing below a cycle is active."""
    parents = {cohort.name: cohort.parent for cohort in world.cohorts.values()}
    for thing, cohort in world.cohorts.items():
        way, current = [cohort.name], cohort.parent
        while current and current not in way:
            way.append(current)
            current = parents.get(current, "")
        if current == cohort.name:
            said = f"{' → '.join([*way, current])} is a cycle: no queue in it admits anything"
            yield Finding(thing, said, "take away one spec.parentName", ("spec", "parentName"))


def stopped(world: World) -> Iterator[Finding]:
    """A queue that somebody stopped."""
    for thing in (*world.of("ClusterQueue"), *world.of("LocalQueue")):
        policy = get(thing.body, ("spec", "stopPolicy"))
        if policy and policy != StopPolicy.NONE:
            said = f"stopPolicy {policy}: nothing new is admitted"
            yield Finding(thing, said, "set it to None to go on", ("spec", "stopPolicy"))


def little_memory(world: World) -> Iterator[Finding]:
    """Memory counts in bytes: 512 is not 512 Mi, and 512m is half a byte."""
    for thing in (*world.of("ClusterQueue"), *world.of("Cohort")):
        for i, group in enumerate(get(thing.body, _GROUPS) or ()):
            for j, flavor in enumerate(group.get("flavors") or ()):
                for k, resource in enumerate(flavor["resources"]):
                    value = resource["nominalQuota"]
                    if resource["name"] == "memory" and is_little(value):
                        path = (*_GROUPS, i, "flavors", j, "resources", k, "nominalQuota")
                        said = f"a memory quota of {value} is less than one Mi"
                        yield Finding(thing, said, f"write {_unit(value)}", path)
    for job in world.jobs:
        for pods in job.pods:
            for index, container in enumerate(pods.spec["containers"]):
                for sort, values in (container.get("resources") or {}).items():
                    value = get(values, ("memory",))
                    if value is not None and is_little(value):
                        path = (*pods.path, "spec", "containers", index, "resources", sort)
                        said = f"a memory request of {value} is less than one Mi"
                        yield Finding(job.thing, said, f"write {_unit(value)}", (*path, "memory"))


def is_little(value: str | int | float) -> bool:
    """Whether an amount of memory is more than nothing and less than one Mi."""
    return 0 < exact_quantity(str(value)) < LITTLE_MEMORY


def _unit(value: str | int | float) -> str:
    digits = "".join(c for c in str(value) if c.isdigit() or c == ".")
    return f"the unit, for example {digits}Mi or {digits}Gi"


RULES: Final = (
    Rule("no-namespace-selector", Severity.WARNING, no_namespace_selector),
    Rule("no-quota", Severity.WARNING, no_quota),
    Rule("borrowing-unlimited", Severity.WARNING, borrowing_unlimited),
    Rule("lends-all", Severity.INFO, lends_all),
    Rule("reclaim-any", Severity.WARNING, reclaim_any),
    Rule("cohort-cycle", Severity.WARNING, cohort_cycle),
    Rule("stopped", Severity.INFO, stopped),
    Rule("little-memory", Severity.WARNING, little_memory),
)
