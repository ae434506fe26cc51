"""What the programs ask of a kind of job, and how an object finds its kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from federation.api.kinds.row import Row
from federation.core.devices.wire.vendors import Vendors
from federation.core.facts import LocalJob, RemoteJob
from federation.core.pod_updates import PodSetUpdate
from federation.core.sizes import Counts
from federation.core.types import Admission, PodSet, ResourceFlavor
from federation.jobs.containers import PodDefaults
from federation.jobs.device_pins import Template as Cards
from federation.jobs.mirror import Identity

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodRole:
    """One pod set of an object: its name, how many pods it has, and their template."""

    name: str
    count: int
    template: Json


@dataclass(frozen=True, slots=True)
class Running:
    """The pods of an object, by its status. `suspended` is that it says of itself that they were
    deleted, `started` the start time; `uncounted` have ended, and its controller has yet to count
    them.
    """

    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    uncounted: int = 0
    started: bool = False
    suspended: bool = False

    @property
    def gone(self) -> bool:
        """Whether none is left of an object that is suspended.

        The Job controller says Suspended once it has deleted them; before a start time it has
        made none.
        """
        busy = self.active or self.terminating or self.uncounted
        return not busy and (self.suspended or not self.started)


class JobKind(Protocol):
    """One kind. Objects are those of the API server; nothing here changes one in place.

    `name` is Kind.version.group, `seats` whether the agent gives each of its pods its own cards and
    its own place in a topology. One that is `bundled` stands for several pods (`pod_groups`). One
    that `deletes` cannot be held back again: it is stopped by deleting it; where it only
    `deletes_copies`, what people have created on a worker is not. Of one that is `remade` the
    operator makes anew what it is made of while it is being deleted. Of one that
    `lets_go` the agent lets each pod of a copy go, as `pod_patch` says.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def plural(self) -> str: ...
    @property
    def api_version(self) -> str: ...
    @property
    def seats(self) -> bool: ...
    @property
    def bundled(self) -> bool: ...
    @property
    def deletes(self) -> bool: ...
    @property
    def deletes_copies(self) -> bool: ...
    @property
    def remade(self) -> bool: ...
    @property
    def lets_go(self) -> bool: ...

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """Its pods as its spec is now."""

    def with_templates(self, obj: Json, templates: Mapping[str, Json]) -> Json:
        """The object with other pod templates, by pod set."""

    def original(self, obj: Json) -> Json:
        """The object as it was before it was started."""

    def pod_sets(self, obj: Json, defaults: PodDefaults | None = None) -> tuple[PodSet, ...]:
        """What it asks for. Raises QuantityError."""

    def elastic(self, obj: Json) -> bool:
        """Whether its numbers of pods may change while it runs: it says so, and its kind can."""

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """Why its pods cannot be admitted anywhere; '' if they can."""

    def pod_class(self, obj: Json) -> str:
        """The PriorityClass that it names; '' if none."""

    # On the management cluster

    def local_job(self, obj: Json, defaults: PodDefaults | None = None) -> LocalJob:
        """Facts of an object on the management cluster."""

    def local_suspend(self, *, suspend: bool) -> Json:
        """The merge patch by which an object there shows whether it runs on some cluster."""

    def remote_manifest(
        self,
        obj: Json,
        identity: Identity,
        admission: Admission | None,
        vendors: Vendors,
    ) -> Json:
        """The suspended copy to create on a worker."""

    def live_patch(self, obj: Json) -> Json:
        """The merge patch of a copy by which it follows what may be edited while it runs."""

    def resized(self, obj: Json, pods: Counts) -> Json:
        """What says how a copy is to have so many pods: an object for `resize` and `sized`, by what
        the job says now.
        """

    def limit_time(self, body: Json, used_s: int) -> None:
        """Take off in place what earlier runs have used of a time limit in the spec."""

    def remote_job(self, cluster: str, obj: Json, *, gone: bool = False) -> RemoteJob:
        """Facts of a copy on a worker."""

    def in_transit(self, status: Mapping[str, Any]) -> bool:
        """Whether the worker's controller is about to write the status again."""

    def merge_status(self, local: Mapping[str, Any], remote: Mapping[str, Any]) -> Json:
        """The status that the local object should have."""

    def is_behind(self, local: LocalJob, remote: RemoteJob) -> bool:
        """Whether the local status has to be written to show the copy's."""

    def reset_status(self, status: Mapping[str, Any], now: str) -> Json:
        """The status of an object that has left a cluster; empty takes it away."""

    # On a worker

    def managed_elsewhere(self, obj: Json) -> bool:
        """Whether another controller than that of this cluster runs it."""

    def suspended(self, obj: Json) -> bool:
        """Whether it is held back."""

    def suspend(self, *, suspend: bool) -> Json:
        """The merge patch of `spec` that holds it back, or starts it again as it is."""

    def running(self, obj: Json) -> Running:
        """Its pods."""

    def at_once(self, obj: Json) -> Counts:
        """The pods that it runs at one time as its spec is now, by pod set; of kinds whose numbers
        do not change nothing.
        """

    def sized(self, copy: Json, said: Json) -> Counts:
        """All pods that a copy would have; empty if what `resized` says cannot be read."""

    def resize(self, copy: Json, said: Json) -> Json:
        """The merge patch of `spec` that does what `resized` says."""

    def finished(self, obj: Json) -> str:
        """Complete, Failed, or '' while it has not ended."""

    def reclaimable(self, asked: Json, obj: Json) -> dict[str, int]:
        """Pods that need no quota any more, by pod set; `asked` is the object before its start."""

    def start_writes(self, patch: Json) -> tuple[Json, ...]:
        """The merge patches that do what one `admission_patch` says, in order; between two of them
        it is as one that has reserved what it got.
        """

    def admission_patch(
        self,
        obj: Json,
        admission: Admission,
        flavors: Iterable[ResourceFlavor],
        updates: Iterable[PodSetUpdate] = (),
        cards: Cards | None = None,
    ) -> Json:
        """One merge patch that starts it where it was admitted, and notes what was charged."""

    def start_problem(
        self,
        obj: Json,
        admission: Admission,
        flavors: Iterable[ResourceFlavor],
        updates: Iterable[PodSetUpdate] = (),
    ) -> str:
        """Why it cannot be started as admitted; '' if it can."""

    def late_patch(self, obj: Json, flavors: Iterable[ResourceFlavor]) -> Json | None:
        """The merge patch that lets those of its pods go that came after its start, in the place of
        others; None if there are none.
        """

    def pod_patch(self, obj: Json, pod: Json) -> Json | None:
        """The merge patch that lets a pod of a started copy go where it was admitted; None if it is
        not to go, or does not wait.
        """

    def restore_patch(self, obj: Json) -> Json | None:
        """The merge patch that undoes what a start changed; None if there is nothing."""


class Kinds:
    """The kinds that are known, in order: batch/v1 Job comes first."""

    def __init__(
        self,
        kinds: Iterable[JobKind],
        external: tuple[Row, ...] | None = (),
        off: frozenset[str] = frozenset(),
    ) -> None:
        """`external` are the rows of those among them that a configuration has added, None where
        there is nothing but batch/v1 Job; `off` the names of those that it has switched off: no
        object is found to be of one of them.
        """
        found = list(kinds)
        self.external = external
        self.off = tuple(kind for kind in found if kind.name in off)
        self._by_name = {kind.name: kind for kind in found if kind.name not in off}
        self._by_type = {(kind.api_version, kind.kind): kind for kind in self._by_name.values()}

    @property
    def complete(self) -> Kinds:
        """The same with all of them switched on."""
        return Kinds((*self, *self.off), self.external)

    def __iter__(self) -> Iterator[JobKind]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> JobKind:
        """The kind of a name; KeyError if there is none."""
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        """Whether there is a kind of that name, and switched on."""
        return name in self._by_name

    def of(self, obj: Mapping[str, Any]) -> JobKind:
        """The kind of an object. KeyError if it is none of these."""
        return self._by_type[obj["apiVersion"], obj["kind"]]

    def find(self, api_version: str, kind: str) -> JobKind | None:
        """The kind of a type; None if it is none of these."""
        return self._by_type.get((api_version, kind))

    # What is asked by the name in the facts

    def is_behind(self, local: LocalJob, remote: RemoteJob) -> bool:
        """See JobKind."""
        return self[local.kind].is_behind(local, remote)
