"""An informer handler that makes bundles of the pods of a group; see `federation.jobs.kinds`."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence

from federation.api.names import Mirror
from federation.edge.informer import Handler
from federation.edge.resources import Json
from federation.jobs.kinds.pod_groups import (
    bundle,
    copied,
    group_of,
    head_of,
    members,
    own_job,
    settled,
    succeeded,
)

Key = tuple[str, str]


class Bundles:
    """Hands on bundles. One that was handed on keeps its head until all of its pods are gone, and
    its pods: those in excess take the place of none.

    Groups of which pods are missing are kept back, unless `partial`: who removes them has to know
    of them. Where pods are `held` for good, and run elsewhere, a group that loses one is gone: it
    is another one when it is whole again.
    """

    def __init__(self, handler: Handler, *, partial: bool = False, held: bool = False) -> None:
        self._handler, self._partial, self._held = handler, partial, held
        self._pods: dict[Key, dict[str, Json]] = {}
        self._heads: dict[Key, Json] = {}
        self._members: dict[Key, set[str]] = {}
        """UIDs of the pods that a group was handed on with."""
        self._seen: dict[Key, set[str]] = {}
        """UIDs of all that were there then."""
        self._where: dict[str, Key] = {}
        """The group in which a pod was seen last, by UID: labels and owners can be changed."""

    def on_list(self, items: Sequence[Json], resource_version: str) -> Awaitable[None] | None:
        """See Handler."""
        self._pods.clear()
        self._where.clear()
        for pod in filter(own_job, items):
            self._put(pod)
        for key, known in list(self._members.items()):
            there = _uids(self._pods.get(key, {}).values())
            if not there or (self._held and known - there):
                del self._heads[key], self._members[key]
        self._seen = {key: seen for key, seen in self._seen.items() if key in self._pods}
        found = [made for key in list(self._pods) if (made := self._bundle(key)) is not None]
        return self._handler.on_list(found, resource_version)

    def on_event(self, type: str, obj: Json) -> None:
        """See Handler."""
        uid, version = obj["metadata"]["uid"], _version(obj)
        was = self._where.get(uid)
        now = self._key(obj) if type != "DELETED" and own_job(obj) else None
        if was is not None and was != now:
            self._take(was, obj)
            # The pod as it is now may be another group's, which is not gone at that version.
            self._changed(was, uid, version - (type != "DELETED"), left=True)
        if now is not None:
            self._put(obj)
            self._changed(now, uid, version)

    def _changed(self, key: Key, uid: str, version: int, *, left: bool = False) -> None:
        """Hand on what a group has become by the change of a pod, or that it is gone."""
        lost = left and uid in self._members.get(key, ())
        if key in self._pods and not (lost and self._held):
            before = self._members.get(key, set())
            made = self._bundle(key)
            after = self._members.get(key, set())
            if made is not None and (uid in after or before != after):
                version = max(int(made["metadata"]["resourceVersion"]), version)
                made["metadata"]["resourceVersion"] = str(version)
                self._handler.on_event("MODIFIED", made)
        elif (head := self._heads.pop(key, None)) is not None:
            del self._members[key]
            made = bundle([], head=head)
            made["metadata"]["resourceVersion"] = str(version)
            self._handler.on_event("DELETED", made)
        if key not in self._pods:
            self._seen.pop(key, None)

    def _put(self, pod: Json) -> None:
        key, name, uid = self._key(pod), pod["metadata"]["name"], pod["metadata"]["uid"]
        self._where[uid] = key
        self._pods.setdefault(key, {})[name] = pod
        head = self._heads.get(key)
        if head is not None and head["metadata"]["uid"] == uid:
            self._heads[key] = pod

    def _take(self, key: Key, pod: Json) -> None:
        members, name = self._pods.get(key, {}), pod["metadata"]["name"]
        del self._where[pod["metadata"]["uid"]]
        known = members.get(name)
        if known is not None and known["metadata"]["uid"] == pod["metadata"]["uid"]:
            del members[name]
        if not members:
            self._pods.pop(key, None)

    def _bundle(self, key: Key) -> Json | None:
        there = list(self._pods[key].values())
        grown = _uids(there) - self._seen.get(key, set())
        if key not in self._heads:
            total = group_of(there[0]).total
            whole = total and len(there) >= total and grown
            if not (whole or self._partial):
                return None
            self._heads[key] = head_of(members(there))
        head, known = self._heads[key], self._members.get(key, set())
        kept = [pod for pod in there if pod["metadata"]["uid"] in known]
        if grown and len(kept) < max(1, group_of(head).total):
            kept = members(there, head)
        kept = settled(succeeded(kept, there, head), head)
        self._members[key], self._seen[key] = _uids(kept), _uids(there)
        return bundle(kept, head=head)

    def _key(self, pod: Json) -> Key:
        """A copy is in no group with pods of that cluster, whatever their names."""
        group, notes = group_of(pod), pod["metadata"].get("annotations") or {}
        whose = notes.get(Mirror.LOCAL_UID.value, "") if copied(pod) else ""
        return group.namespace, f"{group.name}@{whose}"


def _uids(pods: Iterable[Json]) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in pods}


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])
