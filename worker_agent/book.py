"""All queue-labelled Jobs of this cluster, as the watch and our own writes tell of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from federation.core.facts import BATCH_JOB
from federation.edge.deletions import Deletions
from federation.edge.informer import Handler
from federation.edge.resources import Json
from federation.jobs.kinds.kind import JobKind, Kinds
from federation.jobs.kinds.registry import KINDS
from federation.jobs.pods import PodDefaults
from worker_agent.facts import Asked, WorkerJob, alike, asked, worker_job

OVER_KEPT = 10_000


class RestoredError(RuntimeError):
    """The versions of this cluster have gone back: all that is known of it has to be read anew."""


class Book:
    """Informer handler. `changed` hears of each Job that has to be looked at; `on_version` that the
    watch is further, even if it only confirms what the answer to a write said.
    """

    def __init__(
        self,
        changed: Callable[[str], None],
        defaults: Callable[[str], PodDefaults],
        kinds: Kinds = KINDS,
    ) -> None:
        """`defaults` are those of the pods of a namespace."""
        self.kinds = kinds
        self._seen: dict[str, int] = {}
        """How far each watch is."""
        self.jobs: dict[str, WorkerJob] = {}
        self.bodies: dict[str, Json] = {}
        self.seen_version = 0
        self.on_version: Callable[[], None] = lambda: None
        self._changed, self._defaults = changed, defaults
        self._known_defaults: dict[str, PodDefaults] = {}
        self._asked: dict[str, Asked] = {}
        self._newest: dict[str, int] = {}
        self._over: OrderedDict[str, tuple[int, str]] = OrderedDict()
        """Of copies that are gone: job to attempt and UID, those that went last."""
        self._deleted = Deletions()

    def of(self, kind: JobKind) -> Handler:
        """The informer handler of another kind than batch/v1 Job."""
        return OfKind(self, kind.name)

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """All Jobs there are. Raises RestoredError."""
        self.listed(items, int(resource_version), BATCH_JOB)

    def listed(self, items: Sequence[Json], version: int, kind: str) -> None:
        """All there are of a kind, as of a version. Raises RestoredError."""
        if version < self._seen.get(kind, 0):
            raise RestoredError(
                f"The API server of this cluster is at version {version}, and was at"
                f" {self._seen[kind]} before: its store was restored from a backup. What the agent"
                " knows of Jobs is no longer true, so it ends: start it again."
            )
        present = {item["metadata"]["uid"] for item in items}
        for uid in [uid for uid, job in self.jobs.items() if job.kind == kind]:
            if uid not in present:
                self._forget(uid, version)
        for item in items:
            self._hear(item)
        self._reached(version, kind)
        self.on_version()

    def on_event(self, type: str, obj: Json) -> None:
        """One change."""
        self.changed(type, obj, BATCH_JOB)

    def changed(self, type: str, obj: Json, kind: str) -> None:
        """One change of an object of a kind."""
        version = int(obj["metadata"]["resourceVersion"])
        self._reached(version, kind)
        if type == "DELETED":
            self._forget(obj["metadata"]["uid"], version)
        else:
            self._hear(obj)
        self.on_version()

    def _reached(self, version: int, kind: str) -> None:
        self._seen[kind] = max(self._seen.get(kind, 0), version)
        self.seen_version = max(self.seen_version, version)

    def see(self, obj: Json) -> None:
        """Take over what the API server answers about one Job, unless that is known."""
        meta = obj["metadata"]
        known = self.jobs.get(meta["uid"])
        if known is None or known.version < int(meta["resourceVersion"]):
            self._read(obj)

    def _hear(self, obj: Json) -> None:
        """Take over what the watch tells of one. Of which pods a group is it has the last word:
        the answer to a write has the same version.
        """
        known = self.jobs.get(obj["metadata"]["uid"])
        same = known is not None and known.version == int(obj["metadata"]["resourceVersion"])
        if same and self.kinds.of(obj).bundled:
            self._read(obj)
        else:
            self.see(obj)

    def _read(self, obj: Json) -> None:
        uid, namespace = obj["metadata"]["uid"], obj["metadata"]["namespace"]
        if namespace not in self._known_defaults:
            self._known_defaults[namespace] = self._defaults(namespace)
        before = self.bodies.get(uid)
        if before is None or uid not in self._asked or not alike(before, obj):
            self._asked[uid] = asked(obj, self._known_defaults[namespace], self.kinds)
        job = worker_job(obj, self._asked[uid], self.kinds)
        if job is None or self._deleted.covers(uid, job.version):
            if uid not in self.jobs:
                self._asked.pop(uid)
            return
        self.jobs[uid] = job
        self.bodies[uid] = obj
        if job.mirrored:  # what a local Job says of itself supersedes nothing
            attempt = max(self._newest.get(job.local_uid, 0), job.attempt)
            self._newest[job.local_uid] = attempt
        self._changed(uid)

    def refresh_defaults(self) -> None:
        """Read the Jobs again whose pods may request something else now."""
        before = self._known_defaults
        self._known_defaults = found = {name: self._defaults(name) for name in before}
        changed = {name for name, value in found.items() if value != before[name]}
        for body in list(self.bodies.values()) if changed else ():
            name = body["metadata"]["namespace"]
            if name in changed and self._concerned(body, found[name], before[name]):
                self._asked.pop(body["metadata"]["uid"])
                self._read(body)

    def _concerned(self, body: Json, now: PodDefaults, before: PodDefaults) -> bool:
        specs = (role.template.get("spec") or {} for role in self.kinds.of(body).roles(body))
        return any(now.matters(before, spec) for spec in specs)

    def superseded(self, job: WorkerJob) -> bool:
        """Whether a later attempt of the same job is here, or was: no attempt comes twice. A copy
        that is made again was sent by somebody who had been replaced, and was late.
        """
        if not job.mirrored:
            return False
        over, uid = self._over.get(job.local_uid, (0, ""))
        newest = self._newest.get(job.local_uid, 0)
        return job.attempt < newest or (job.attempt <= over and job.uid != uid)

    def _forget(self, uid: str, version: int) -> None:
        self._deleted.note(uid, version)
        job = self.jobs.pop(uid, None)
        self.bodies.pop(uid, None)
        self._asked.pop(uid, None)
        if job is not None and job.mirrored:
            self._newest.pop(job.local_uid, None)
            self._over[job.local_uid] = max(
                (job.attempt, uid), self._over.pop(job.local_uid, (0, ""))
            )
            if len(self._over) > OVER_KEPT:
                self._over.popitem(last=False)
        self._changed(uid)


class OfKind:
    """Informer handler: brings the objects of one kind into the book."""

    def __init__(self, book: Book, kind: str) -> None:
        self._book, self._kind = book, kind

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """See Book."""
        self._book.listed(items, int(resource_version), self._kind)

    def on_event(self, type: str, obj: Json) -> None:
        """See Book."""
        self._book.changed(type, obj, self._kind)
