"""Fields: values of the wrong sort, names nobody knows, old spellings, label keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from federation.api.fields import LABEL_VALUE_PATTERN, QUALIFIED_NAME_PATTERN
from federation.api.names import KUEUE_GROUP, KUEUE_OLD_VERSION, Annotation, Label, Mirror, Option
from federation.api.problems import Path, dotted, suggest
from federation.core.card_shares import CARD_MEMORY, MIG_PROFILES
from fedq.lint.finding import Finding, Rule, Severity, Thing
from fedq.lint.jobs import get, view
from fedq.lint.rules_cards import bad_flavor
from fedq.lint.shape import bad_fields, unknown
from fedq.lint.world import World, is_node_groups

_OLD: Final[Mapping[str, Mapping[Path, str]]] = {
    "ClusterQueue": {
        ("spec", "cohort"): "cohortName",
        ("spec", "admissionChecks"): "admissionChecksStrategy.admissionChecks",
    },
    "MultiKueueCluster": {("spec", "kubeConfig"): "clusterSource.kubeConfig"},
    "Workload": {
        ("spec", "priorityClassName"): "priorityClassRef",
        ("spec", "priorityClassSource"): "priorityClassRef",
    },
}
_OWN_PREFIXES: Final = ("kueue.x-k8s.io/", "fedq.io/")
_LABELS: Final = frozenset(map(str, Label))
_ANNOTATIONS: Final = frozenset(
    {
        *map(str, (*Annotation, *Mirror, *Option)),
        CARD_MEMORY,
        MIG_PROFILES,
        *(
            f"kueue.x-k8s.io/{name}"
            for name in (
                "pod-index-offset",
                "pod-group-pod-index-label",
                "pod-suspending-parent",
                "stopping",
                "component-workload-index",
                "raycluster-podset-replica-sizes",
                "raycluster-generation",
                "workload-allowed-resource-flavors",
            )
        ),
    }
)
_KNOWN: Final = _LABELS | _ANNOTATIONS
_BOTH: Final = frozenset({str(Label.POD_GROUP_NAME), str(Label.PREBUILT_WORKLOAD_NAME)})
"""Keys that are read as a label and as an annotation."""
_SENTENCE: Final = (
    "Kubernetes allows letters, digits, '-', '_' and '.' of ASCII, at most 63, with a letter or"
    " digit at both ends"
)
_PREFIX: Final = " (and before them a DNS name and '/')"
_MAPS: Final[tuple[tuple[Path, bool], ...]] = (
    (("metadata", "labels"), True),
    (("metadata", "annotations"), False),
    (("spec", "nodeLabels"), True),
    (("spec", "namespaceSelector", "matchLabels"), True),
)


def examine(thing: Thing) -> Iterator[tuple[str, Finding]]:
    """Why a thing cannot be used: rule ids with findings. The other rules see it if there are none.

    A bad label key is told as such, although a model may refuse it too.
    """
    problems = bad_fields(thing)
    keys = [*_bad_labels(thing, sound=not problems)]
    told = {finding.path for finding in keys}
    for problem in problems:
        if problem.path not in told:
            yield "bad-value", Finding(thing, str(problem), "correct the value", problem.path)
    yield from (("bad-label", finding) for finding in keys)
    if not problems and thing.kind == "ResourceFlavor" and (said := bad_flavor(thing)):
        path: Path = ("metadata", "annotations")
        yield "bad-value", Finding(thing, said, "correct the value", path)


def _bad_labels(thing: Thing, *, sound: bool) -> Iterator[Finding]:
    for path, values in _label_maps(thing, sound=sound):
        labels = get(thing.body, path)
        name = dotted(path)
        for key, value in labels.items() if isinstance(labels, dict) else ():
            place = (*path, key)
            if not _is_key(key):
                said = f"{name} has the key {key!r}: {_SENTENCE}{_PREFIX}"
                yield Finding(thing, said, "rename the key, on the nodes too", place)
            elif values and isinstance(value, str) and not _is_value(value):
                said = f"{name} gives {key} the value {value!r}: {_SENTENCE}"
                yield Finding(thing, said, "choose another value", place)


def _label_maps(thing: Thing, *, sound: bool) -> Iterator[tuple[Path, bool]]:
    """Where label keys stand, and whether their values are label values."""
    yield from _MAPS
    if not sound:
        return
    if is_node_groups(thing.body):
        groups = range(len(thing.body["nodeGroups"]))
        yield from ((("nodeGroups", index, "nodeSelector"), True) for index in groups)
    job = view(thing)
    for pods in job.pods if job else ():
        if pods.path:
            yield (*pods.path, "metadata", "labels"), True
            yield (*pods.path, "metadata", "annotations"), False
        yield (*pods.path, "spec", "nodeSelector"), True


def _is_key(key: str) -> bool:
    return len(key) <= 317 and re.fullmatch(QUALIFIED_NAME_PATTERN[1:-1], key) is not None


def _is_value(value: str) -> bool:
    return len(value) <= 63 and re.fullmatch(LABEL_VALUE_PATTERN[1:-1], value) is not None


def unknown_field(world: World) -> Iterator[Finding]:
    """A field that nothing reads: a typing error, or one of another program."""
    for thing in world.things:
        for problem in unknown(thing):
            if thing.kind == "Cohort" and problem.path == ("spec", "sharing"):
                said = "spec.sharing is not a field of Cohort and has no effect"
                yield Finding(thing, said, "use spec.fairSharing.weight", problem.path)
                continue
            todo = "correct the name, or remove the field: it has no effect"
            yield Finding(thing, str(problem), todo, problem.path)
    for thing, reading in world.configurations.items():
        for notice in reading.notices:
            if notice.unknown:
                todo = "correct the name, or remove it"
                yield Finding(thing, str(notice), todo, notice.path)


def old_spelling(world: World) -> Iterator[Finding]:
    """A field as v1beta1 or an article writes it."""
    for thing, reading in world.configurations.items():
        for notice in reading.notices:
            if not notice.unknown:
                severity = None if notice.mild else Severity.WARNING
                todo = "write it as Kueue does"
                yield Finding(thing, str(notice), todo, notice.path, severity)
    for thing in world.things:
        if thing.group != KUEUE_GROUP:
            continue
        if str(thing.raw.get("apiVersion")).endswith(f"/{KUEUE_OLD_VERSION}"):
            said = f"{KUEUE_OLD_VERSION} is deprecated; Fedq reads it as v1beta2"
            yield Finding(thing, said, f"write {KUEUE_GROUP}/v1beta2", ("apiVersion",))
            continue
        for path, new in _OLD.get(thing.kind, {}).items():
            if get(thing.raw, path) is not None:
                said = f"{'.'.join(map(str, path))} is v1beta1's spelling; Fedq rewrites it, Kueue"
                yield Finding(thing, f"{said} drops it in v1beta2", f"write spec.{new}", path)


def unknown_key(world: World) -> Iterator[Finding]:
    """A label or annotation of Kueue's or Fedq's that does not exist, or is the other of both."""
    for thing in world.things:
        for path in (("metadata",), *_template_metas(thing)):
            for part, others in (("labels", _ANNOTATIONS), ("annotations", _LABELS)):
                for key in get(thing.body, (*path, part)) or ():
                    if message := _about_key(key, part, others, template=len(path) > 1):
                        todo = "correct the key, move it, or remove it"
                        yield Finding(thing, message, todo, (*path, part, key))


def _template_metas(thing: Thing) -> list[Path]:
    job = view(thing)
    return [(*pods.path, "metadata") for pods in job.pods if pods.path] if job else []


def _about_key(key: str, part: str, others: frozenset[str], *, template: bool) -> str:
    """What is wrong with a key; '' if nothing is."""
    if not key.startswith(_OWN_PREFIXES) or (template and key.startswith("fedq.io/")):
        return ""  # pods of the rig carry more of ours
    if key not in _KNOWN:
        return f"{part}: nobody reads {key}{suggest(key, _KNOWN)}"
    if key in others - _BOTH:
        right = "a label" if part == "annotations" else "an annotation"
        return f"{key} is {right}: nobody reads it among the {part}"
    return ""


RULES: Final = (
    Rule("bad-value", Severity.REFUSED),
    Rule("bad-label", Severity.REFUSED),
    Rule("unknown-field", Severity.WARNING, unknown_field),
    Rule("unknown-key", Severity.WARNING, unknown_key),
    Rule("old-spelling", Severity.INFO, old_spelling),
)
