"""Resource claims of jobs: what Fedq cannot count, so that the job waits for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from federation.api.problems import Path, suggest
from federation.core.devices.claims.charge import charge
from federation.core.devices.claims.claims import (
    Alternatives,
    ClaimError,
    ClaimSpec,
    DeviceClassMapping,
    DeviceRules,
)
from federation.core.devices.claims.inventory import Inventory
from federation.jobs.claim_objects import read_template
from fedq.lint.finding import Finding, Rule, Severity
from fedq.lint.jobs import JobView
from fedq.lint.world import World

GROUP: Final = "resource.k8s.io"
KIND: Final = "ResourceClaimTemplate"


def _claims(world: World) -> Iterator[tuple[JobView, Path, dict[str, Any]]]:
    """Each claim of each queued job, and where it stands."""
    for job in world.jobs:
        for pods in job.pods if job.queue else ():
            entries = pods.spec.get("resourceClaims")
            for index, entry in enumerate(entries if isinstance(entries, list) else ()):
                if isinstance(entry, dict):
                    yield job, (*pods.path, "spec", "resourceClaims", index), entry


def _templates(world: World) -> dict[tuple[str, str], dict[str, Any]]:
    return {(thing.namespace, thing.name): thing.body for thing in world.of(KIND, GROUP)}


def template_missing(world: World) -> Iterator[Finding]:
    """A job's pods claim devices by a template that is not there."""
    known = _templates(world)
    for job, path, entry in _claims(world):
        name = entry.get("resourceClaimTemplateName")
        if not name or (job.thing.namespace, name) in known:
            continue
        where = (*path, "resourceClaimTemplateName")
        if known:
            others = [of for space, of in known if space == job.thing.namespace]
            said = f"{KIND} {name} is not among the files{suggest(str(name), others)}"
            todo = "create it, or correct the name (without it the job waits)"
            yield Finding(job.thing, said, todo, where)
        else:
            said = f"{KIND} {name} is not among the files, nor is any other"
            yield Finding(job.thing, said, "lint them together", where, Severity.INFO)


def claim_uncounted(world: World) -> Iterator[Finding]:
    """A claim by name, or one whose devices cannot be counted."""
    known = _templates(world)
    for job, path, entry in _claims(world):
        if entry.get("resourceClaimName"):
            said = "a claim by name may be shared with pods that are not queued: it is not counted"
            todo = "use resourceClaimTemplateName, else the job waits for ever"
            yield Finding(job.thing, said, todo, (*path, "resourceClaimName"))
            continue
        body = known.get((job.thing.namespace, str(entry.get("resourceClaimTemplateName"))))
        if body is not None and (text := _problem(world, body)):
            where = (*path, "resourceClaimTemplateName")
            yield Finding(job.thing, f"its devices cannot be counted: {text}", "correct it", where)


def _problem(world: World, template: dict[str, Any]) -> str:
    try:
        claim = read_template(template)
        charge(claim, Inventory(elsewhere=True), _rules(world, claim))
    except (ClaimError, ValueError) as error:
        return str(error)
    return ""


def _rules(world: World, claim: ClaimSpec) -> DeviceRules:
    """Those of the Configuration, by number only as devices are not looked at; without one every
    class may have a mapping.
    """
    rules = world.resource_rules.devices
    if world.configurations:
        plain = (replace(mapping, sources=()) for mapping in rules.mappings)
        return replace(rules, mappings=tuple(plain))
    return replace(rules, mappings=(DeviceClassMapping("devices", tuple(_classes(claim))),))


def _classes(claim: ClaimSpec) -> Iterable[str]:
    for _, request in claim.requests:
        parts = request.requests if isinstance(request, Alternatives) else (request,)
        yield from (part.device_class for part in parts)


RULES: Final = (
    Rule("template-missing", Severity.WARNING, template_missing),
    Rule("claim-uncounted", Severity.WARNING, claim_uncounted),
)
