"""The storage of the fake API server: objects, their history and the rules of their metadata."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from federation.edge.resources import JOBS, NAMESPACES, Resource
from tests.fakes import job_rules
from tests.fakes.patches import Json, Refused, copied

Key = tuple[str, str]
FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True)
class Change:
    """One entry of the history; `old` is None for ADDED, `new` for DELETED."""

    version: int
    resource: Resource
    old: Json | None
    new: Json | None
    gone: Json | None = None
    """The last state of a deleted object, in the version of its deletion."""


class Objects:
    """All objects of one cluster. Objects handed out are never changed afterwards."""

    def __init__(self, clock: Callable[[], datetime], with_status: set[Resource]) -> None:
        self.version = 100
        self.oldest = 100
        self.history: list[Change] = []
        self.data: dict[Resource, dict[Key, Json]] = {}
        self.listeners: list[Callable[[], None]] = []
        self.followers: dict[Resource, list[Callable[[], None]]] = {}
        """As listeners, of the changes of one type."""
        self.blocked: Callable[[Resource, Json], bool] = lambda res, obj: False
        """Whether something outside this store (pods of a model) has to go before an object whose
        deletion is a Foreground one; whoever says so takes the finalizer away afterwards."""
        self._clock = clock
        self._with_status = with_status

    def get(self, res: Resource, key: Key) -> Json:
        found = self.data.get(res, {}).get(key)
        if found is None:
            raise Refused(404, "NotFound", f'{_of(res)} "{key[1]}" not found')
        return found

    def create(self, res: Resource, namespace: str, body: Json) -> Json:
        obj = copied(body)
        meta = obj.setdefault("metadata", {})
        if meta.get("namespace", namespace) != namespace:
            raise Refused(400, "BadRequest", "the namespace of the object does not match")
        if not meta.get("name") and not meta.get("generateName"):
            raise Refused(422, "Invalid", "name or generateName is required")
        if not meta.get("name"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        if res.namespaced:
            self._check_namespace(namespace)
            meta["namespace"] = namespace
        key = (namespace, meta["name"])
        if key in self.data.get(res, {}):
            raise Refused(409, "AlreadyExists", f'{_of(res)} "{key[1]}" already exists')
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=self._now())
        if res in self._with_status:
            meta["generation"] = 1
            obj.pop("status", None)
        if res == JOBS:
            job_rules.on_create(obj)
        return self._store(res, key, None, obj)

    def update(self, res: Resource, key: Key, body: Json, *, status: bool) -> Json:
        old = self.get(res, key)
        given = body["metadata"].get("resourceVersion")
        if given and given != old["metadata"]["resourceVersion"]:
            raise Refused(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {_of(res)} "{key[1]}": the object has been '
                "modified; please apply your changes to the latest version and try again",
            )
        new = self._status_of(res, old, body) if status else self._rest_of(res, old, body)
        self._keep_meta(old, new)
        if res == JOBS:
            (job_rules.on_status if status else job_rules.on_update)(old, new)
        if new == old:
            return old
        if res in self._with_status and not status and _content(old) != _content(new):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
            return self._remove(res, key, new)
        return self._store(res, key, old, new)

    def delete(self, res: Resource, key: Key, options: Json) -> Json:
        old = self.get(res, key)
        for field, wanted in (options.get("preconditions") or {}).items():
            if old["metadata"][field] != wanted:
                raise Refused(409, "Conflict", f"the {field} in the precondition does not match")
        dependents = self._dependents(old["metadata"]["uid"])
        if options.get("propagationPolicy") == "Orphan":
            for other, name, obj in dependents:
                self._strip_owner(other, name, obj, old["metadata"]["uid"])
        if options.get("propagationPolicy") == "Foreground" and self.blocked(res, old):
            old = self._block(res, key, old)
        if old["metadata"].get("finalizers"):
            if old["metadata"].get("deletionTimestamp"):
                return old
            new = copied(old)
            new["metadata"].update(deletionTimestamp=self._now(), deletionGracePeriodSeconds=0)
            return self._store(res, key, old, new)
        return self._remove(res, key, old)

    def _block(self, res: Resource, key: Key, old: Json) -> Json:
        """Add the finalizer of a deletion that waits for its dependents; it counts as no write."""
        meta = old["metadata"]
        if FOREGROUND in meta.get("finalizers", ()):
            return old
        held = [*meta.get("finalizers", ()), FOREGROUND]
        blocked = {**old, "metadata": {**meta, "finalizers": held}}
        if not meta.get("deletionTimestamp"):
            return blocked
        return self._store(res, key, old, copied(blocked))

    def _remove(self, res: Resource, key: Key, last: Json) -> Json:
        old = self.data[res].pop(key)
        self.version += 1
        gone: Json = copied(last)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._record(Change(self.version, res, old, None, gone))
        for other, name, obj in self._dependents(old["metadata"]["uid"]):
            if name in self.data[other] and len(obj["metadata"]["ownerReferences"]) == 1:
                self.delete(other, name, {})
        if res == NAMESPACES:
            for other, objects in self.data.items():
                for name in [name for name in objects if name[0] == key[1]]:
                    self._remove(other, name, objects[name])
        return gone

    def _dependents(self, uid: str) -> list[tuple[Resource, Key, Json]]:
        return [
            (res, key, obj)
            for res, objects in self.data.items()
            for key, obj in objects.items()
            if "ownerReferences" in obj["metadata"]
            and any(o["uid"] == uid for o in obj["metadata"]["ownerReferences"])
        ]

    def _strip_owner(self, res: Resource, key: Key, obj: Json, uid: str) -> None:
        new = copied(obj)
        owners = [o for o in new["metadata"].pop("ownerReferences") if o["uid"] != uid]
        if owners:
            new["metadata"]["ownerReferences"] = owners
        self._store(res, key, obj, new)

    def _status_of(self, res: Resource, old: Json, body: Json) -> Json:
        """A status write: built-in types take metadata along, custom ones do not."""
        new: Json = copied(old)
        new["status"] = copied(body.get("status") or {})
        if res.group in ("", "batch"):
            for key in ("labels", "annotations"):
                new["metadata"].pop(key, None)
                if body["metadata"].get(key):
                    new["metadata"][key] = body["metadata"][key]
        elif not new["status"]:
            del new["status"]
        return new

    def _rest_of(self, res: Resource, old: Json, body: Json) -> Json:
        new: Json = copied(body)
        if res in self._with_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = copied(old["status"])
        return new

    def _keep_meta(self, old: Json, new: Json) -> None:
        for key in (
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "resourceVersion",
        ):
            new["metadata"].pop(key, None)
            if key in old["metadata"]:
                new["metadata"][key] = old["metadata"][key]
        for key in ("labels", "annotations", "finalizers", "ownerReferences"):
            if not new["metadata"].get(key):
                new["metadata"].pop(key, None)

    def _store(self, res: Resource, key: Key, old: Json | None, new: Json) -> Json:
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        self.data.setdefault(res, {})[key] = new
        self._record(Change(self.version, res, old, new))
        return new

    def _record(self, change: Change) -> None:
        self.history.append(change)
        for wake in (*self.followers.get(change.resource, ()), *self.listeners):
            wake()

    def _check_namespace(self, namespace: str) -> None:
        if ("", namespace) not in self.data.get(NAMESPACES, {}):
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')

    def _now(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")


def _of(res: Resource) -> str:
    return f"{res.plural}.{res.group}" if res.group else res.plural


def _content(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}
