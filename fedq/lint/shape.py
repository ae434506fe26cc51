"""Whether an object can be read at all: what a schema of the API server would say of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, StrictStr, ValidationError

from federation.api.configuration import ConfigurationError, is_configuration, read
from federation.api.convert import to_cluster_queue, to_cohort, to_local_queue
from federation.api.fields import DNS_LABEL_PATTERN
from federation.api.meta import WireModel
from federation.api.names import FEDQ_GROUP, KUEUE_GROUP
from federation.api.problems import Path, Problem, problems, unknown_fields
from federation.api.registry import REGISTRY
from federation.core.devices.inventory.node_groups import decode
from federation.core.devices.wire.undecodable import UndecodableError
from federation.core.quantity import QuantityError
from fedq.lint.finding import Thing
from fedq.lint.jobs import view
from fedq.lint.pod_fields import JobSpec, Lenient, NodeFields, PodTemplate, names
from fedq.lint.world import is_node_groups
from fedq.manifest_checks import check_name, read_model

Json = dict[str, Any]

_NAMED: Final = ("", "batch", "apps", "scheduling.k8s.io", KUEUE_GROUP, FEDQ_GROUP)
"""Groups whose objects have names; files of other programs may look like objects."""
_AMOUNTS: Final[dict[str, Callable[[Json], object]]] = {
    "ClusterQueue": to_cluster_queue,
    "Cohort": to_cohort,
    "LocalQueue": to_local_queue,
}


def _namespace(name: str) -> str:
    if name and not (len(name) <= 63 and re.fullmatch(DNS_LABEL_PATTERN, name)):
        raise ValueError(
            f"{name!r} cannot be a namespace: use a-z, 0-9 and '-', with a letter or digit at both"
            " ends, at most 63"
        )
    return name


class Metadata(Lenient):
    """metav1.ObjectMeta."""

    others = names(
        "creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generation"
        " managedFields ownerReferences resourceVersion selfLink uid"
    )
    name: StrictStr = ""
    generate_name: StrictStr = ""
    namespace: Annotated[StrictStr, AfterValidator(_namespace)] = ""
    labels: dict[str, StrictStr] = Field(default_factory=dict)
    annotations: dict[str, StrictStr] = Field(default_factory=dict)


class NodeGroup(WireModel):
    """Nodes whose cards are sliced alike (a device plugin's file)."""

    name: StrictStr
    node_selector: dict[str, StrictStr] = Field(default_factory=dict)


def bad_fields(thing: Thing) -> list[Problem]:
    """Every value that cannot be what its field takes; the thing is of no use with one."""
    if is_node_groups(thing.body):
        return _node_groups(thing.body["nodeGroups"])
    found = _below(Metadata, thing.body.get("metadata") or {}, ("metadata",))[1]
    if is_configuration(thing.body):
        return found + _configuration(thing.raw)
    if not found and (thing.group in _NAMED or "metadata" in thing.body):
        found = [Problem(("metadata", "name"), text) for text in check_name(thing.meta)]
    return found or [*_fields(thing)]


def unknown(thing: Thing) -> Iterator[Problem]:
    """Fields that nothing knows, of a thing that has no bad ones."""
    if is_node_groups(thing.body) or is_configuration(thing.body):
        return
    yield from _unknown_below(Metadata, thing.meta, ("metadata",))
    if _is_ours(thing):
        model = read_model(thing.body)
        if not isinstance(model, list):
            yield from (p for p in unknown_fields(model) if p.path[0] != "metadata")
    if (thing.group, thing.kind) == ("batch", "Job"):
        yield from _unknown_below(JobSpec, thing.body["spec"], ("spec",))
        return
    job = view(thing)
    for pods in job.pods if job else ():
        template = pods.template if pods.path else {"spec": pods.spec}
        yield from _unknown_below(PodTemplate, template, pods.path)


def _fields(thing: Thing) -> Iterator[Problem]:
    if _is_ours(thing):
        model = read_model(thing.body)
        yield from model if isinstance(model, list) else _amounts(thing)
        if isinstance(model, list) or thing.kind != "Workload":
            return
    if (thing.group, thing.kind) == ("batch", "Job"):
        yield from _below(JobSpec, thing.body.get("spec"), ("spec",))[1]
        return
    if thing.kind == "Node" and thing.group == "":
        yield from _below(NodeFields, thing.body, ())[1]
        return
    if thing.kind == "Pod" and thing.group == "":
        yield from _below(PodTemplate, {"spec": thing.body.get("spec")}, ())[1]
        return
    job = view(thing)
    for pods in job.pods if job else ():
        yield from _below(PodTemplate, pods.template, pods.path)[1]


def _amounts(thing: Thing) -> list[Problem]:
    """Quantities that look like ones, but cannot be counted."""
    try:
        if thing.kind in _AMOUNTS:
            _AMOUNTS[thing.kind](thing.body)
    except QuantityError as error:
        return [Problem(("spec",), str(error))]
    return []


def _is_ours(thing: Thing) -> bool:
    group, _, version = str(thing.body.get("apiVersion", "")).rpartition("/")
    return (group, version, thing.kind) in REGISTRY


def _configuration(body: Json) -> list[Problem]:
    try:
        read(body)
    except ConfigurationError as error:
        return error.problems
    return []


def _node_groups(groups: list[Any]) -> list[Problem]:
    found = []
    for index, group in enumerate(groups):
        path: Path = ("nodeGroups", index)
        wrong = _below(NodeGroup, group, path)[1]
        found += wrong or _undecodable([group], path)
    return found or _undecodable(groups, ("nodeGroups",))


def _undecodable(groups: list[Any], path: Path) -> list[Problem]:
    try:
        decode({"nodeGroups": groups})
    except UndecodableError as error:
        return [Problem(path, str(error))]
    return []


def _below(
    model: type[WireModel], value: Any, path: Path, drop: int = 0
) -> tuple[WireModel | None, list[Problem]]:
    """`value` as `model`, or its problems with the paths of the whole object."""
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return None, [Problem((*path, *p.path[drop:]), p.message) for p in problems(error)]


def _unknown_below(model: type[WireModel], value: Any, path: Path) -> Iterator[Problem]:
    read_as, _ = _below(model, value, path)
    if read_as is not None:
        yield from unknown_fields(read_as, path)
