"""What the generic adapter has to know of a kind: one row of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.api.kinds.paths import EACH, Path, first, places

Json = dict[str, Any]

SUSPEND: Path = ("spec", "suspend")
ITSELF: Path = ()
MANAGED_BY: Path = ("spec", "managedBy")


@dataclass(frozen=True, slots=True)
class Sign:
    """One way in which an object says something: by a condition of type `condition` that is True,
    or by one of `values` at `field`, with its `message` beside it.
    """

    condition: str = ""
    field: Path = ()
    values: tuple[str, ...] = ()
    message: Path = ("status", "message")

    def found(self, obj: Mapping[str, Any]) -> Json | None:
        """What says it, as a mapping with `reason` and `message` as far as there are such; None if
        it is not said.
        """
        if self.condition:
            wanted = (self.condition, "True")
            for _, found in places(obj, ("status", "conditions", EACH)):
                if isinstance(found, dict) and (found.get("type"), found.get("status")) == wanted:
                    return found
            return None
        value = first(obj, self.field)
        if not isinstance(value, str) or value not in self.values:
            return None
        return {"reason": str(value), "message": str(first(obj, self.message, ""))}


@dataclass(frozen=True, slots=True)
class Role:
    """Where pods of a kind are described: `at` leads to each description.

    `name` is the field with the name of the pod set, or the name itself where `fixed`. Within the
    description `template` leads to the pod template, and the number of pods is the product of
    `counts`, each 1 where it is absent, times `hosts` where that is above 1, times the pods at once
    of the Job whose spec is at `job`.
    """

    at: Path
    name: str
    fixed: bool = True
    template: Path = ("template",)
    counts: tuple[Path, ...] = (("replicas",),)
    hosts: Path = ()
    job: Path | None = None
    elastic: tuple[str, ...] = ()
    """Of pods whose number may change while they run: the field with the number, which is the only
    one of `counts`, its least and its most."""


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of job. Paths in `status` begin with it.

    `managed_by` is empty where no controller of the kind heeds such a field: then the object on the
    management cluster stays suspended for good, and an annotation says that it runs elsewhere.
    `stopped` is how a suspended one says that its pods are gone; without any, that none is counted
    by `active` says it. A kind without `complete` never ends. `dropped` is not copied to workers.
    """

    kind: str
    group: str
    version: str
    plural: str
    roles: tuple[Role, ...]
    suspend: Path = SUSPEND
    managed_by: Path = MANAGED_BY
    controller: str = ""
    """The value of `managed_by` that means the same as leaving it out."""
    complete: tuple[Sign, ...] = ()
    failed: tuple[Sign, ...] = ()
    ready: tuple[Sign, ...] = ()
    stopped: tuple[Sign, ...] = ()
    active: tuple[Path, ...] = ()
    priority: tuple[Path, ...] = ()
    dropped: tuple[Path, ...] = ()
    scale: tuple[Path, ...] = ()
    """Numbers that are 0 in a copy that is held back (module `scaled`)."""
    wanted: Path = ()
    """How many of those that `active` counts make it ready (module `scaled`)."""
    live: tuple[Path, ...] = ()
    """Fields of the spec that copies follow while they run: what they say changes no pod."""
    deadline: Path = ()
    """How many seconds it may run in all."""
    module: str = ""
    """Which code adds to the adapter: a name in `kinds.MODULES`; '' for none."""
    note: str = ""
    """What people have to know of it."""

    @property
    def name(self) -> str:
        """Kind.version.group, as Kueue's Configuration names kinds."""
        return ".".join(part for part in (self.kind, self.version, self.group) if part)

    @property
    def framework(self) -> str:
        """The name of its switch in a Configuration (`integrations.frameworks`)."""
        return framework(self.group, self.kind)

    @property
    def api_version(self) -> str:
        """As objects have it."""
        return f"{self.group}/{self.version}" if self.group else self.version


def framework(group: str, kind: str) -> str:
    """What Kueue's Configuration calls an integration; those of Kubernetes itself by its names."""
    if group == "batch":
        return "batch/job"
    return f"{group}/{kind.lower()}" if "." in group else kind.lower()


def said(signs: tuple[Sign, ...], obj: Mapping[str, Any]) -> Json | None:
    """What the first of the signs says that is there; None if none is."""
    return next((found for sign in signs if (found := sign.found(obj)) is not None), None)


def at_all(obj: Mapping[str, Any], path: Path) -> bool:
    """Whether anything is at a path."""
    return next(places(obj, path), None) is not None
