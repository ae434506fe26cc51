"""What pods ask of cards, and what quotas say of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Final

from federation.api.flavor_cards import flavor_cards
from federation.api.problems import suggest
from federation.core.devices.asking.wishes import CARD_POLICY, MODE, NODE_POLICY, NUMA_BIND, WEIGHTS
from federation.core.devices.quota.namespace import namespace_limits
from federation.core.devices.wire.vendors import Quantity
from federation.core.quantity import QuantityError
from federation.jobs.containers import PodDefaults
from federation.jobs.devices import card_problems, spelling_problem
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.jobs import JobView, Pods
from fedq.lint.world import World

Json = dict[str, Any]

_OTHERS: Final = frozenset({"nvidia.com/priority", "nvidia.com/gpu.shared", "nvidia.com/pgpu"})
"""Resources of a vendor of cards that ask for no card, or are not for us."""
_ALIKE: Final = 0.8
"""How much a name has to be like a known one to be taken for a typing error."""


def bad_flavor(thing: Thing) -> str:
    """Why what a ResourceFlavor says of its cards cannot be read; '' if it can."""
    try:
        flavor_cards(thing.annotations, (thing.body.get("spec") or {}).get("nodeLabels") or {})
    except ValueError as error:
        return str(error)
    return ""


def request(world: World) -> Iterator[Finding]:
    """What Fedq refuses, since it could not be given exactly."""
    defaults = PodDefaults(rules=world.resource_rules)
    for job, pods in _pods(world):
        try:
            found = list(card_problems(pods.template, defaults))
        except QuantityError:  # told as a bad value
            continue
        for said in found:
            yield Finding(job.thing, said, "correct the request", (*pods.path, "spec"))


def spelling(world: World) -> Iterator[Finding]:
    """Names and units that Fedq understands and device plugins do not."""
    for job, pods in _pods(world):
        if said := spelling_problem(pods.template, world.resource_rules.vendors):
            said = f"{said}; the management cluster does so in the copies it makes"
            todo = "write it so where the job is submitted to a worker itself"
            yield Finding(job.thing, said, todo, (*pods.path, "spec"))


def both(world: World) -> Iterator[Finding]:
    """Memory both in MiB and in percent."""
    vendors = world.resource_rules.vendors
    for job, pods in _pods(world):
        for path, container in _containers(pods):
            kinds = {found[1] for name in _names(container) if (found := vendors.of_resource(name))}
            if {Quantity.MEMORY, Quantity.PERCENT} <= kinds:
                said = f"container {container['name']} asks for memory in MiB and in percent"
                yield Finding(job.thing, f"{said}: MiB count", "keep one of them", path)


def name(world: World) -> Iterator[Finding]:
    """A resource or an annotation that is almost one of cards."""
    vendors = world.resource_rules.vendors
    resources = [name for vendor in vendors for name, _ in vendor.names()]
    keys = [NODE_POLICY, CARD_POLICY, WEIGHTS, NUMA_BIND, MODE]
    for vendor in vendors:
        own = (vendor.use_uuids, vendor.avoid_uuids, vendor.use_models, vendor.avoid_models)
        keys += filter(None, own)
    for job, pods in _pods(world):
        for path, container in _containers(pods):
            for found in _names(container):
                if vendors.of_resource(found) is None and _almost(found, resources):
                    said = f"{found} is no request for a card{suggest(found, resources)}"
                    yield Finding(job.thing, said, "correct the name", (*path, "resources"))
        metadata = pods.template.get("metadata") or {}
        for found in metadata.get("annotations") or {}:
            if found not in keys and _almost(found, keys):
                said = f"annotation {found} says nothing of cards{suggest(found, keys)}"
                yield Finding(job.thing, said, "correct the key", (*pods.path, "metadata"))


def quota(world: World) -> Iterator[Finding]:
    """Keys of a ResourceQuota that look as if they limited cards."""
    for thing in world.of("ResourceQuota", ""):
        hard = (thing.body.get("spec") or {}).get("hard")
        texts = {str(k): str(v) for k, v in hard.items()} if isinstance(hard, dict) else {}
        for said in namespace_limits(thing.name, texts, world.resource_rules.vendors)[1]:
            yield Finding(thing, said, "correct the key or the amount", ("spec", "hard"))


def _pods(world: World) -> Iterator[tuple[JobView, Pods]]:
    return ((job, pods) for job in world.jobs for pods in job.pods)


def _containers(pods: Pods) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    for part in ("initContainers", "containers"):
        for index, container in enumerate(pods.spec.get(part) or ()):
            yield (*pods.path, "spec", part, index), container


def _names(container: Json) -> set[str]:
    resources = container.get("resources") or {}
    return {*(resources.get("limits") or {}), *(resources.get("requests") or {})}


def _almost(found: str, known: list[str]) -> bool:
    same = [other for other in known if other.partition("/")[0] == found.partition("/")[0]]
    return found not in _OTHERS and bool(difflib.get_close_matches(found, same, 1, _ALIKE))


RULES: Final = (
    Rule("card-request", Severity.REFUSED, request),
    Rule("card-spelling", Severity.INFO, spelling),
    Rule("card-both", Severity.WARNING, both),
    Rule("card-name", Severity.WARNING, name),
    Rule("card-quota", Severity.WARNING, quota),
)
