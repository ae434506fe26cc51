"""What the API server refuses in ClusterQueues and Cohorts beyond their fields: Kueue's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from federation.api.problems import Path
from federation.core.quantity import exact_quantity
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.jobs import get
from fedq.lint.world import World

Json = dict[str, Any]

MOST = 256
"""Flavors of a ClusterQueue, and resources it covers."""
MOST_PAIRS = 512
"""Flavors times resources of one resource group."""
LEAST_WEIGHT = exact_quantity("1e-9")
_GROUPS: Final[Path] = ("spec", "resourceGroups")
_LIMITS: Final = ("borrowingLimit", "lendingLimit")


def _things(world: World) -> Iterator[Thing]:
    for kind in ("ClusterQueue", "Cohort"):
        yield from world.of(kind)


def _groups(thing: Thing) -> Iterator[tuple[Path, Json]]:
    for index, group in enumerate(get(thing.body, _GROUPS) or ()):
        yield (*_GROUPS, index), group


def _flavors(thing: Thing) -> Iterator[tuple[Path, Json, Json]]:
    """Place, resource group and flavor."""
    for path, group in _groups(thing):
        for index, flavor in enumerate(group.get("flavors") or ()):
            yield (*path, "flavors", index), group, flavor


def _quotas(thing: Thing) -> Iterator[tuple[Path, str, Json]]:
    """Place, flavor name and quota of one resource."""
    for path, _, flavor in _flavors(thing):
        for index, resource in enumerate(flavor["resources"]):
            yield (*path, "resources", index), flavor["name"], resource


def resource_order(world: World) -> Iterator[Finding]:
    """A flavor's resources are the covered ones, in the same order."""
    for thing in _things(world):
        for path, group, flavor in _flavors(thing):
            listed = [resource["name"] for resource in flavor["resources"]]
            if listed != group["coveredResources"]:
                covered = ", ".join(group["coveredResources"])
                yield Finding(
                    thing,
                    f"flavor {flavor['name']} has quota for {', '.join(listed)}, but"
                    f" coveredResources are {covered}",
                    "list the same resources in the same order",
                    (*path, "resources"),
                )


def one_group(world: World) -> Iterator[Finding]:
    """A resource, and a flavor, is in one resource group only."""
    for thing in _things(world):
        groups = [group for _, group in _groups(thing)]
        resources = Counter(r for group in groups for r in set(group["coveredResources"]))
        flavors = Counter(n for g in groups for n in {f["name"] for f in g.get("flavors") or ()})
        for what, counts in (("resource", resources), ("flavor", flavors)):
            for name in (name for name, count in counts.items() if count > 1):
                yield Finding(
                    thing,
                    f"{what} {name} is in {counts[name]} resource groups",
                    "keep it in one; resources that share flavors belong into one group",
                    _GROUPS,
                )


def limit_without_cohort(world: World) -> Iterator[Finding]:
    """Limits of borrowing and lending need somebody to borrow from."""
    for thing in _things(world):
        home = "cohortName" if thing.kind == "ClusterQueue" else "parentName"
        if get(thing.body, ("spec", home)):
            continue
        for path, flavor, quota in _quotas(thing):
            for limit in _LIMITS:
                if quota.get(limit) is not None:
                    said = f"{limit} of {quota['name']} in flavor {flavor} without spec.{home}"
                    todo = f"set spec.{home}, or remove the limit"
                    yield Finding(thing, said, todo, (*path, limit))


def lending_above_nominal(world: World) -> Iterator[Finding]:
    """A ClusterQueue cannot lend more than it has."""
    for thing in world.of("ClusterQueue"):
        for path, flavor, quota in _quotas(thing):
            lends = quota.get("lendingLimit")
            if lends is not None and _exact(lends) > _exact(quota["nominalQuota"]):
                said = f"lendingLimit {lends} of {quota['name']} in flavor {flavor} is above"
                yield Finding(
                    thing,
                    f"{said} nominalQuota {quota['nominalQuota']}",
                    "lower lendingLimit, or raise nominalQuota",
                    (*path, "lendingLimit"),
                )


def too_many(world: World) -> Iterator[Finding]:
    """Kueue's limits of size."""
    for thing in world.of("ClusterQueue"):
        groups = [group for _, group in _groups(thing)]
        flavors = sum(len(group["flavors"]) for group in groups)
        resources = sum(len(group["coveredResources"]) for group in groups)
        pairs = max((len(g["flavors"]) * len(g["coveredResources"]) for g in groups), default=0)
        for count, most, what in (
            (flavors, MOST, "flavors"),
            (resources, MOST, "covered resources"),
            (pairs, MOST_PAIRS, "flavor and resource pairs in one group"),
        ):
            if count > most:
                todo = "split it into several ClusterQueues of a cohort"
                yield Finding(thing, f"{count} {what}; {most} are allowed", todo, _GROUPS)


def reclaim_never(world: World) -> Iterator[Finding]:
    """Who may preempt while borrowing may preempt at all."""
    path: Path = ("spec", "preemption")
    for thing in world.of("ClusterQueue"):
        preemption = get(thing.body, path) or {}
        policy = get(preemption, ("borrowWithinCohort", "policy")) or "Never"
        if policy != "Never" and preemption.get("reclaimWithinCohort", "Never") == "Never":
            yield Finding(
                thing,
                f"borrowWithinCohort.policy is {policy}, but reclaimWithinCohort is Never",
                "set reclaimWithinCohort to LowerPriority or Any, or remove borrowWithinCohort",
                (*path, "borrowWithinCohort"),
            )


def preference(world: World) -> Iterator[Finding]:
    """There is something to prefer only if both searches go on."""
    path: Path = ("spec", "flavorFungibility")
    for thing in world.of("ClusterQueue"):
        wanted = get(thing.body, path) or {}
        both = (
            wanted.get("whenCanBorrow", "MayStopSearch"),
            wanted.get("whenCanPreempt", "TryNextFlavor"),
        )
        if wanted.get("preference") and both != ("TryNextFlavor", "TryNextFlavor"):
            yield Finding(
                thing,
                f"preference needs whenCanBorrow and whenCanPreempt TryNextFlavor, they are"
                f" {both[0]} and {both[1]}",
                "set both to TryNextFlavor, or remove preference",
                (*path, "preference"),
            )


def on_flavors(world: World) -> Iterator[Finding]:
    """A check applies to flavors that the queue has."""
    path: Path = ("spec", "admissionChecksStrategy", "admissionChecks")
    for thing in world.of("ClusterQueue"):
        has = {flavor["name"] for _, _, flavor in _flavors(thing)}
        for index, check in enumerate(get(thing.body, path) or ()):
            strange = [name for name in check.get("onFlavors") or () if name not in has]
            if strange:
                yield Finding(
                    thing,
                    f"check {check['name']} is for {', '.join(strange)}, which the queue has no"
                    " quota for",
                    "name flavors of spec.resourceGroups in onFlavors, or leave it out for all",
                    (*path, index, "onFlavors"),
                )


def weight(world: World) -> Iterator[Finding]:
    """Weights too small to divide by."""
    for kind in ("ClusterQueue", "Cohort", "LocalQueue"):
        for thing in world.of(kind):
            path: Path = ("spec", "fairSharing", "weight")
            value = get(thing.body, path)
            if value is not None and 0 < _exact(value) <= LEAST_WEIGHT:
                todo = "write 0 for the last place, or more than 1e-9"
                yield Finding(thing, f"fairSharing.weight {value} is too small", todo, path)


def _exact(value: str | int) -> Any:
    return exact_quantity(str(value))


def _refused(id: str, check: Callable[[World], Iterator[Finding]]) -> Rule:
    return Rule(id, Severity.REFUSED, check)


RULES: Final = (
    _refused("resource-order", resource_order),
    _refused("one-group", one_group),
    _refused("limit-without-cohort", limit_without_cohort),
    _refused("lending-above-nominal", lending_above_nominal),
    _refused("too-many", too_many),
    _refused("reclaim-never", reclaim_never),
    _refused("preference", preference),
    _refused("on-flavors", on_flavors),
    _refused("weight", weight),
)
