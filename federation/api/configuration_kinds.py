"""Kinds of jobs that a Configuration adds: `multiKueue.externalFrameworks`.

Kueue's format has the name alone. What else is said here tells where pods are and what the status
means; without it the usual places are looked at.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from federation.api.kinds.paths import Path, path_of
from federation.api.kinds.row import Role, Row, Sign, framework
from federation.api.kinds.table import PODS, ROWS, SCALED
from federation.api.meta import WireModel

PathText = Annotated[str, Field(pattern=r"^\.?[A-Za-z0-9_-]+(\[\*\]|\.[A-Za-z0-9_*-]+)*$")]
"""`spec.roles[*].template`: fields, and `*` for each item of a list or map."""
SpecField = Annotated[str, Field(pattern=r"^\.?spec(\.[A-Za-z0-9_-]+)+$")]
"""One field of the spec, that is written: `spec.suspend`."""


class ExternalSign(WireModel):
    """A condition that is True, or a field with one of some values."""

    condition: str = ""
    field: PathText | None = None
    values: list[str] = Field(default_factory=list)
    message: PathText = "status.message"

    @model_validator(mode="after")
    def _one(self) -> ExternalSign:
        if bool(self.condition) == bool(self.field and self.values):
            raise ValueError("give either a condition, or a field and its values")
        return self

    def sign(self) -> Sign:
        """As the adapter reads it."""
        field = path_of(self.field or "")
        return Sign(self.condition, field, tuple(self.values), path_of(self.message))


class ExternalStatus(WireModel):
    """What the status says of a job."""

    complete: list[ExternalSign] = Field(default_factory=list)
    failed: list[ExternalSign] = Field(default_factory=list)
    ready: list[ExternalSign] = Field(default_factory=list)
    stopped: list[ExternalSign] = Field(default_factory=list)
    """How a suspended one says that its pods are gone."""
    active: list[PathText] = Field(default_factory=list)
    """Numbers of pods that are there."""


class ExternalPodSet(WireModel):
    """Pods of one sort. `at` leads to what describes them; `template` and `count` begin there."""

    at: PathText = "spec"
    name: str = "main"
    """The name of the pod set, or with `nameFrom` what stands in for it."""
    name_from: str | None = None
    """The field beside the template that has the name."""
    template: PathText = "template"
    count: list[PathText] = Field(default_factory=lambda: ["replicas"])
    """Their number is the product of these; each is 1 where it is absent."""

    def role(self) -> Role:
        """As the adapter reads it."""
        return Role(
            path_of(self.at),
            self.name_from or self.name,
            fixed=self.name_from is None,
            template=path_of(self.template),
            counts=tuple(map(path_of, self.count)),
        )


_NAME = r"^[A-Z][A-Za-z0-9]*\.v[a-z0-9]+\.[a-z0-9][-a-z0-9]*(\.[a-z0-9][-a-z0-9]*)+$"
_COMPLETE = tuple(Sign(kind) for kind in ("Complete", "Completed", "Succeeded"))


class ExternalFramework(WireModel):
    """One kind, named `Kind.version.group`."""

    name: str = Field(pattern=_NAME)
    plural: str | None = None
    """The name of its resource; by default the kind in small letters, with an s."""
    suspend: SpecField = "spec.suspend"
    managed_by: SpecField | Literal[""] = "spec.managedBy"
    """Empty if its controller heeds no such field."""
    pod_sets: list[ExternalPodSet] = Field(default_factory=lambda: [ExternalPodSet()])
    status: ExternalStatus | None = None

    def row(self) -> Row:
        """As the adapter reads it."""
        kind, version, group = self.name.split(".", 2)
        said = self.status or ExternalStatus()
        return Row(
            kind,
            group,
            version,
            self.plural or f"{kind.lower()}s",
            tuple(pods.role() for pods in self.pod_sets),
            suspend=path_of(self.suspend),
            managed_by=path_of(self.managed_by),
            complete=_signs(said.complete) or (() if self.status else _COMPLETE),
            failed=_signs(said.failed) or (() if self.status else (Sign("Failed"),)),
            ready=_signs(said.ready),
            stopped=_signs(said.stopped),
            active=_paths(said.active) or (("status", "active"),),
            note="by configuration",
        )


def _signs(found: list[ExternalSign]) -> tuple[Sign, ...]:
    return tuple(one.sign() for one in found)


def _paths(found: list[str]) -> tuple[Path, ...]:
    return tuple(map(path_of, found))


_JOB = "Job.v1.batch"
_SWITCHES: Final = {_JOB: framework("batch", "Job")} | {
    row.name: row.framework for row in (*ROWS, PODS, *SCALED)
}


def switched_off(
    frameworks: list[str] | None, named: list[str], added: list[ExternalFramework]
) -> frozenset[str]:
    """Kinds that a Configuration does not switch on, as Kind.version.group. `named` are those that
    are switched on by that name; those `added` always are.
    """
    if frameworks is None:
        return frozenset()
    on = {*named, *(found.name for found in added)}
    return frozenset(
        name for name, switch in _SWITCHES.items() if switch not in frameworks and name not in on
    )


def undescribed(named: list[str], added: list[ExternalFramework]) -> list[int]:
    """Indices of those `named` of which nothing is known."""
    known = {*_SWITCHES, *(found.name for found in added)}
    return [index for index, name in enumerate(named) if name not in known]


def external_problem(frameworks: list[ExternalFramework]) -> tuple[int, str] | None:
    """The first that is named twice or built in, by its index, and what is wrong with it."""
    seen = set(_SWITCHES)
    built_in = frozenset(seen)
    for index, found in enumerate(frameworks):
        if found.name in seen:
            why = "is built in" if found.name in built_in else "is listed twice"
            return index, f"{found.name} {why}: remove it"
        seen.add(found.name)
    return None
