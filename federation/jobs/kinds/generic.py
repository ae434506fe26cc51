"""Any kind that has a field to suspend it and pod templates in its spec, as a row describes it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

from federation.api.convert import preemptible
from federation.api.disconnect import read_wishes
from federation.api.epochs import read_epoch
from federation.api.kinds.paths import Place, first, mapping, number, places, put, total
from federation.api.kinds.row import Row, at_all, said
from federation.api.names import Controller, Label, Mirror
from federation.core.devices.wire.vendors import Vendors
from federation.core.facts import Eviction, LocalJob, ObjectKey, RemoteJob
from federation.core.failover import OnDisconnect
from federation.core.pod_updates import PodSetUpdate
from federation.core.quantity import QuantityError
from federation.core.sizes import Size
from federation.core.types import Admission, PodSet, ResourceFlavor
from federation.jobs import admissibility, answers, elastic, template
from federation.jobs.admission_note import encode_admission
from federation.jobs.batch_job import max_execution_seconds, time_problem, timestamp
from federation.jobs.containers import PodDefaults
from federation.jobs.device_pins import Template as Cards
from federation.jobs.devices import canonical
from federation.jobs.eviction_note import read_eviction
from federation.jobs.kinds.elastic_sets import ElasticSets
from federation.jobs.kinds.kind import PodRole, Running
from federation.jobs.kinds.parts import (
    count_of,
    given_to,
    merged,
    name_of,
    put_back,
    replaced,
    spread,
    unplaced,
    unread,
)
from federation.jobs.kinds.shape import shaped
from federation.jobs.mirror import (
    Identity,
    copy_metadata,
    mirrored_attempt,
    mirrored_epoch,
    mirrored_priority,
)
from federation.jobs.pauses import read_pauses
from federation.jobs.pods import pod_set

Json = dict[str, Any]

MANAGED_BY = Controller.MULTIKUEUE.value


class GenericKind(ElasticSets):
    """See JobKind. Kinds of their own override what the row cannot say."""

    seats = bundled = deletes = deletes_copies = remade = lets_go = False

    def __init__(self, row: Row) -> None:
        self.row = row
        self.name, self.kind = row.name, row.kind
        self.group, self.version, self.plural = row.group, row.version, row.plural
        self.api_version = row.api_version

    # Pods

    def roles(self, obj: Json) -> tuple[PodRole, ...]:
        """See JobKind."""
        return tuple(PodRole(r.name, r.count, r.template) for _, r in self.placed(obj))

    def placed(self, obj: Json) -> Iterator[tuple[Place, PodRole]]:
        """The pod sets, with the place of each template."""
        for role in self.row.roles:
            for place, holder in places(obj, role.at):
                found = first(holder, role.template)
                if isinstance(holder, dict) and shaped(found):
                    pods = PodRole(name_of(role, holder), count_of(role, holder), found)
                    yield (*place, *role.template), pods

    def with_templates(self, obj: Json, templates: Mapping[str, Json]) -> Json:
        """See JobKind."""
        for place, role in list(self.placed(obj)):
            if role.name in templates:
                obj = put(obj, place, templates[role.name])
        return obj

    def original(self, obj: Json) -> Json:
        """See JobKind."""
        text = (obj["metadata"].get("annotations") or {}).get(Mirror.ADMISSION.value, "")
        try:
            given = json.loads(text)["original"]["templates"]
            parts = {name: dict(part) for name, part in given.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return obj
        roles = {role.name: role.template for role in self.roles(obj)}
        known = {name: put_back(roles[name], part) for name, part in parts.items() if name in roles}
        return self.with_templates(obj, known)

    def pod_sets(self, obj: Json, defaults: PodDefaults | None = None) -> tuple[PodSet, ...]:
        """See JobKind."""
        roles = self.roles(self.original(obj))
        return tuple(pod_set(r.name, r.count, r.template, defaults=defaults) for r in roles)

    def problem(self, obj: Json, defaults: PodDefaults | None = None) -> str:
        """See JobKind."""
        roles = self.roles(self.original(obj))
        if text := self.unread(obj):
            return text
        if not roles:
            return (
                f"no pods were found in this {self.kind}: nothing that can be read says what it"
                " asks for"
            )
        sets = [(role.name, role.count, role.template) for role in roles]
        return admissibility.problem(sets, defaults) or unplaced(roles) or time_problem(obj)

    def unread(self, obj: Json) -> str:
        """What describes pods and cannot be read; '' if nothing."""
        return unread(self.row.roles, obj)

    def pod_class(self, obj: Json) -> str:
        """See JobKind. The kind's own field, else the first template that names one."""
        own = (first(obj, path) for path in self.row.priority)
        named = ((r.template.get("spec") or {}).get("priorityClassName") for r in self.roles(obj))
        return str(next(filter(None, (*own, *named)), ""))

    # On the management cluster

    def local_job(self, obj: Json, defaults: PodDefaults | None = None) -> LocalJob:
        """See JobKind."""
        meta, labels = obj["metadata"], obj["metadata"].get("labels") or {}
        status, wishes = mapping(obj, ("status",)), read_wishes(obj)
        sets: tuple[PodSet, ...] = ()
        with suppress(QuantityError):  # told in `problem`
            sets = self.pod_sets(obj, defaults)
        return LocalJob(
            uid=meta["uid"],
            key=ObjectKey(meta["namespace"], meta["name"]),
            version=int(meta["resourceVersion"]),
            queue=labels.get(Label.QUEUE_NAME.value, ""),
            priority_class=labels.get(Label.PRIORITY_CLASS.value, ""),
            created=timestamp(meta["creationTimestamp"]),
            suspended=self._shown_suspended(obj),
            terminating="deletionTimestamp" in meta,
            started=self._started(obj),
            finished=self.finished(obj),
            problem=self._management_problem(obj) or self.problem(obj, defaults) or wishes.problem,
            max_execution_s=max_execution_seconds(obj),
            pod_sets=sets,
            status=status,
            preemptible=preemptible(obj),
            wishes=wishes,
            grace_s=self._grace(obj),
            kind=self.name,
            elastic=self.elastic(obj),
            steps=self.steps(obj),
            live=self._live(obj),
        )

    def _live(self, obj: Json) -> str:
        """See LocalJob."""
        if not self.row.live:
            return ""
        text = json.dumps([first(obj, path) for path in self.row.live], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def live_patch(self, obj: Json) -> Json:
        """See JobKind. A field that is gone is taken away."""
        body: Json = {}
        for path in self.row.live:
            holder = body
            for field in path[:-1]:
                holder = holder.setdefault(field, {})
            holder[path[-1]] = first(obj, path)
        return {**body, "metadata": {"annotations": {Mirror.LIVE.value: self._live(obj)}}}

    def _started(self, obj: Json) -> bool:
        """Whether it shows that it has run here since it was reset."""
        return bool(mapping(obj, ("status",)))

    def _shown_suspended(self, obj: Json) -> bool:
        if self.row.managed_by:
            return self.suspended(obj)
        return Mirror.RUNS.value not in (obj["metadata"].get("annotations") or {})

    def _grace(self, obj: Json) -> int:
        return max((template.grace_seconds(r.template) for r in self.roles(obj)), default=30)

    def _management_problem(self, obj: Json) -> str:
        if not self.row.managed_by:
            if self.suspended(obj):
                return ""
            return (
                f"it is not suspended, so this cluster's own controller of {self.kind}s runs it:"
                f" set {'.'.join(self.row.suspend)} to true"
            )
        manager = first(obj, self.row.managed_by, "")
        if manager == MANAGED_BY:
            return ""
        field = ".".join(self.row.managed_by)
        return (
            f"{field} is {manager or 'not set'}, so this cluster's own controller of {self.kind}s"
            f" runs it: delete it and create it again with {field}: {MANAGED_BY} (the admission"
            " policy in deploy/policies sets it by itself)"
        )

    def local_suspend(self, *, suspend: bool) -> Json:
        """See JobKind. Of a kind that heeds no managedBy only a note says that it runs."""
        if self.row.managed_by:
            return {"spec": self.suspend(suspend=suspend)}
        return {"metadata": {"annotations": {Mirror.RUNS.value: None if suspend else "true"}}}

    def remote_manifest(
        self, obj: Json, identity: Identity, admission: Admission | None, vendors: Vendors
    ) -> Json:
        """See JobKind. Suspended, without what only concerns the management cluster. An elastic one
        that was edited since is no larger than what it was given.
        """
        body: Json = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": copy_metadata(obj, identity),
            "spec": deepcopy(mapping(obj, ("spec",))),
        }
        for path in (self.row.managed_by, *self.row.dropped):
            if path and at_all(body, path):
                body = put(body, path, None)
        if live := self._live(obj):
            body["metadata"]["annotations"][Mirror.LIVE.value] = live
        if admission is not None and self.elastic(obj):
            body = self.no_larger(body, admission)
        body = self._held(body)
        made = {r.name: canonical(r.template, vendors) for r in self.roles(body)}
        return self.with_templates(body, made)

    def _held(self, body: Json) -> Json:
        """The copy, held back."""
        held: Json = put(body, self.row.suspend, True)
        return held

    def limit_time(self, body: Json, used_s: int) -> None:
        """See JobKind."""
        limit = number(body, self.row.deadline, 0) if self.row.deadline else 0
        if limit:
            body["spec"] = put(body, self.row.deadline, max(1, limit - used_s))["spec"]

    def remote_job(self, cluster: str, obj: Json, *, gone: bool = False) -> RemoteJob:
        """See JobKind."""
        meta, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
        wishes, note = read_wishes(obj), read_eviction(obj)
        refusal = annotations.get(Mirror.REFUSED.value, "")
        reason, _, message = refusal.partition(": ")
        ended, pauses = self._ended(obj), read_pauses(annotations)
        counts = self.at_once(obj)
        return RemoteJob(
            cluster=cluster,
            key=ObjectKey(meta["namespace"], meta["name"]),
            uid=meta["uid"],
            version=int(meta["resourceVersion"]),
            attempt=mirrored_attempt(obj),
            suspended=self.suspended(obj),
            refused=message or refusal,
            refused_reason=reason,
            deciding_until=timestamp(annotations.get(Mirror.DECIDING.value)),
            waits_for=answers.waits_for(annotations),
            retry_after=answers.retry_after(annotations),
            evicted=None if note is None else Eviction(note.reason, note.message),
            ready=self.ready(obj),
            reclaimable=self.reclaimable(obj, obj),
            terminating="deletionTimestamp" in meta,
            finished=ended[0],
            gone=gone,
            epoch=mirrored_epoch(obj),
            held=annotations.get(Mirror.HELD.value, ""),
            held_s=pauses.seconds,
            ran_s=pauses.ran(None),
            policy=wishes.policy or OnDisconnect.STOP,
            rerun_after=wishes.rerun_after,
            breaks=read_epoch(annotations.get(Mirror.BREAKS.value, "")),
            priority=mirrored_priority(obj),
            size=Size(counts, counts, counts, self.steps(obj)) if self.elastic(obj) else None,
            growth=elastic.asked(obj, self.sized),
            live=annotations.get(Mirror.LIVE.value, ""),
            status=mapping(obj, ("status",)),
            kind=self.name,
            busy=self._lingers(obj),
            ending=ended[1],
            lacking=self._lacking(obj),
            torn=self._torn(obj),
        )

    def in_transit(self, status: Mapping[str, Any]) -> bool:
        """See JobKind."""
        return False

    def merge_status(self, local: Mapping[str, Any], remote: Mapping[str, Any]) -> Json:
        """See JobKind. The whole status: nothing forbids to take a custom resource's back."""
        return dict(remote)

    def is_behind(self, local: LocalJob, remote: RemoteJob) -> bool:
        """See JobKind."""
        return bool(remote.status) and dict(remote.status) != dict(local.status)

    def reset_status(self, status: Mapping[str, Any], now: str) -> Json:
        """See JobKind."""
        return {}

    # On a worker

    def managed_elsewhere(self, obj: Json) -> bool:
        """See JobKind. Only our own mark: other managers are controllers of that cluster."""
        return bool(self.row.managed_by) and first(obj, self.row.managed_by) == MANAGED_BY

    def suspended(self, obj: Json) -> bool:
        """See JobKind."""
        return bool(first(obj, self.row.suspend))

    def suspend(self, *, suspend: bool) -> Json:
        """See JobKind."""
        patch: Json = put({}, self.row.suspend, suspend)["spec"]
        return patch

    def running(self, obj: Json) -> Running:
        """See JobKind."""
        counts = sum(role.count for role in self.roles(obj))
        busy, held = self._busy(obj), self.suspended(obj)
        started = busy if self.row.stopped else not held
        return Running(
            active=int(busy),
            ready=counts if self.ready(obj) else 0,
            started=started,
            suspended=True,
        )

    def _lingers(self, obj: Json) -> bool:
        """Whether pods may be there, whatever it says: JobSet's controller, for one, says that it
        is suspended before they have ended. What is stopped by deletion is not suspended again.
        """
        if self.deletes:
            return self._busy(obj)
        return bool(mapping(obj, ("status",))) and not self.finished(obj)

    def _lacking(self, obj: Json) -> bool:
        """Whether nothing of it runs until other pods come in the place of some that failed."""
        return False

    def _torn(self, obj: Json) -> bool:
        """Whether some of its pods were deleted there, and no other runs."""
        return False

    def _busy(self, obj: Json) -> bool:
        """Whether pods of it may be there, by its status: until its controller says that they are
        gone, once it has said anything.
        """
        if not mapping(obj, ("status",)) or self.finished(obj):
            return False
        if any(total(obj, path) > 0 for path in self.row.active):
            return True
        return bool(self.row.stopped) and said(self.row.stopped, obj) is None

    def finished(self, obj: Json) -> str:
        """See JobKind."""
        return self._ended(obj)[0]

    def _ended(self, obj: Json) -> tuple[str, str]:
        """How it has ended, and what it says of that."""
        for ended, signs in (("Failed", self.row.failed), ("Complete", self.row.complete)):
            if (found := said(signs, obj)) is not None:
                return ended, str(found.get("message") or "")
        return "", ""

    def ready(self, obj: Json) -> bool:
        """Whether its pods are ready or have done their work, as far as it says such a thing."""
        if self.finished(obj):
            return True
        if self.row.ready:
            return said(self.row.ready, obj) is not None
        return not self.suspended(obj) and bool(mapping(obj, ("status",)))

    def reclaimable(self, asked: Json, obj: Json) -> dict[str, int]:
        """See JobKind."""
        return {}

    def start_writes(self, patch: Json) -> tuple[Json, ...]:
        """See JobKind."""
        return (patch,)

    def admission_patch(
        self,
        obj: Json,
        admission: Admission,
        flavors: Iterable[ResourceFlavor],
        updates: Iterable[PodSetUpdate] = (),
        cards: Cards | None = None,
    ) -> Json:
        """See JobKind. Lists are replaced as wholes, so that the version is a precondition."""
        asked, flavors, admission = self.original(obj), list(flavors), spread(admission)
        before = {role.name: role.template for role in self.roles(asked)}
        after, parts = dict(before), {}
        for given in given_to(admission, before):
            was, added = before[given.name], template.additions(given, flavors, updates)
            after[given.name] = template.started(was, given, added)
            if part := replaced(was, after[given.name]):
                parts[given.name] = part
        started = self.with_templates(asked, after)
        note = encode_admission(admission, {"templates": parts} if parts else None)
        spec = template.merge_patch(mapping(obj, ("spec",)), mapping(started, ("spec",)))
        return {
            "metadata": {
                "uid": obj["metadata"]["uid"],
                "resourceVersion": obj["metadata"]["resourceVersion"],
                "annotations": {Mirror.ADMISSION.value: note},
            },
            "spec": merged(spec, self.suspend(suspend=False)),
        }

    def start_problem(
        self,
        obj: Json,
        admission: Admission,
        flavors: Iterable[ResourceFlavor],
        updates: Iterable[PodSetUpdate] = (),
    ) -> str:
        """See JobKind."""
        known, flavors = {r.name: r.template for r in self.roles(self.original(obj))}, list(flavors)
        for given in given_to(admission, known):
            added = template.additions(given, flavors, updates)
            if text := template.conflict(known[given.name], given, added):
                return f"pod set {given.name}: {text}"
        return ""

    def late_patch(self, obj: Json, flavors: Iterable[ResourceFlavor]) -> Json | None:
        """See JobKind. Its controller makes its pods."""
        return None

    def pod_patch(self, obj: Json, pod: Json) -> Json | None:
        """See JobKind. They start with their template."""
        return None

    def restore_patch(self, obj: Json) -> Json | None:
        """See JobKind."""
        if Mirror.ADMISSION.value not in (obj["metadata"].get("annotations") or {}):
            return None
        patch: Json = {
            "metadata": {
                "uid": obj["metadata"]["uid"],
                "resourceVersion": obj["metadata"]["resourceVersion"],
                "annotations": {Mirror.ADMISSION.value: None},
            }
        }
        now, before = mapping(obj, ("spec",)), mapping(self.original(obj), ("spec",))
        if spec := template.merge_patch(now, before):
            patch["spec"] = spec
        return patch
