"""Run the rules over what was collected."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from federation.api.configuration import is_configuration
from federation.api.problems import Path, dotted
from fedq.lint import (
    collect,
    rules_cards,
    rules_claims,
    rules_configuration,
    rules_fields,
    rules_fit,
    rules_flavors,
    rules_jobs,
    rules_node_groups,
    rules_objects,
    rules_queues,
    rules_quota,
    rules_references,
)
from fedq.lint.cluster import ClusterThings
from fedq.lint.collect import Collected
from fedq.lint.finding import Finding, Line, Rule, Severity, Thing
from fedq.lint.rules_fields import examine
from fedq.lint.world import World

RULES: Final[tuple[Rule, ...]] = (
    *collect.RULES,
    *rules_fields.RULES,
    *rules_quota.RULES,
    *rules_objects.RULES,
    *rules_jobs.RULES,
    *rules_references.RULES,
    *rules_queues.RULES,
    *rules_flavors.RULES,
    *rules_fit.RULES,
    *rules_node_groups.RULES,
    *rules_cards.RULES,
    *rules_claims.RULES,
    *rules_configuration.RULES,
)
_SEVERITY: Final = {rule.id: rule.severity for rule in RULES}
_ORDER: Final = {severity: index for index, severity in enumerate(Severity)}
_ENVELOPES: Final[tuple[Path, ...]] = ((), ("spec",), ("spec", "controllerConfig"))
"""Where the sections of a Configuration may stand."""


def lint(
    found: Collected, cluster: ClusterThings | None = None, ignored: Collection[str] = ()
) -> list[Line]:
    """Everything that there is to say about the files, in their order.

    Args:
        cluster: objects of the cluster that the files are meant for; None if none was named.
        ignored: ids of rules that are silent.
    """
    told = list(found.told)
    sound = []
    for thing in found.things:
        bad = list(examine(thing))
        told += bad
        if not bad:
            sound.append(thing)
    beside = _beside(sound, cluster.things) if cluster else []
    world = World([*sound, *beside], cluster.kinds if cluster else frozenset())
    for rule in RULES:
        if rule.check is not None and rule.id not in ignored:
            told += ((rule.id, finding) for finding in rule.check(world))
    sources = {name: index for index, name in enumerate(found.files)}
    lines = [_line(*item) for item in told if item[1].thing.source in sources]
    kept = [line for line in lines if line.rule not in ignored]
    return sorted(kept, key=lambda x: (sources[x.file], x.line, _ORDER[x.severity], x.rule))


def _beside(files: Iterable[Thing], cluster: Iterable[Thing]) -> list[Thing]:
    """Sound things of the cluster that the files do not replace."""
    replaced = {_key(thing) for thing in files}
    return [t for t in cluster if _key(t) not in replaced and not any(examine(t))]


def _key(thing: Thing) -> tuple[str, str, str, str]:
    return thing.group, thing.kind, thing.namespace, thing.name


def _line(rule: str, finding: Finding) -> Line:
    thing = finding.thing
    return Line(
        thing.source,
        _place(thing, finding.path),
        str(thing),
        rule,
        finding.severity or _SEVERITY[rule],
        finding.message,
        finding.todo,
        dotted(finding.path),
    )


def _place(thing: Thing, path: Path) -> int:
    if is_configuration(thing.body) and path and path[0] not in thing.raw:
        return max(thing.line_of((*home, *path)) for home in _ENVELOPES)
    return thing.line_of(path)
