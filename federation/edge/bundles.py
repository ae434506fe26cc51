"""An informer handler that makes bundles of the pods of a group; see `federation.jobs.kinds`."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from federation.api.names import Mirror
from federation.edge.informer import Handler
from federation.edge.resources import Json
from federation.jobs.kinds.pod_groups import bundle, copied, group_of, own_job

Key = tuple[str, str]


class Bundles:
    """Hands on bundles. One that was handed on keeps its head until all of its pods are gone.

    Groups of which pods are missing are kept back, unless `partial`: who removes them has to know
    of them.
    """

    def __init__(self, handler: Handler, *, partial: bool = False) -> None:
        self._handler, self._partial = handler, partial
        self._pods: dict[Key, dict[str, Json]] = {}
        self._heads: dict[Key, Json] = {}

    def on_list(self, items: Sequence[Json], resource_version: str) -> Awaitable[None] | None:
        """See Handler."""
        self._pods.clear()
        for pod in filter(own_job, items):
            self._put(pod)
        self._heads = {key: head for key, head in self._heads.items() if key in self._pods}
        found = [made for key in list(self._pods) if (made := self._bundle(key)) is not None]
        return self._handler.on_list(found, resource_version)

    def on_event(self, type: str, obj: Json) -> None:
        """See Handler."""
        if not own_job(obj):
            return
        key = self._key(obj)
        if type != "DELETED":
            self._put(obj)
        else:
            self._take(key, obj)
        if key in self._pods:
            made = self._bundle(key)
            if made is not None:
                version = max(int(made["metadata"]["resourceVersion"]), _version(obj))
                made["metadata"]["resourceVersion"] = str(version)
                self._handler.on_event("MODIFIED", made)
        elif (head := self._heads.pop(key, None)) is not None:
            made = bundle([], head=head)
            made["metadata"]["resourceVersion"] = str(_version(obj))
            self._handler.on_event("DELETED", made)

    def _put(self, pod: Json) -> None:
        key, name = self._key(pod), pod["metadata"]["name"]
        self._pods.setdefault(key, {})[name] = pod
        head = self._heads.get(key)
        if head is not None and head["metadata"]["uid"] == pod["metadata"]["uid"]:
            self._heads[key] = pod

    def _take(self, key: Key, pod: Json) -> None:
        members, name = self._pods.get(key, {}), pod["metadata"]["name"]
        known = members.get(name)
        if known is not None and known["metadata"]["uid"] == pod["metadata"]["uid"]:
            del members[name]
        if not members:
            self._pods.pop(key, None)

    def _bundle(self, key: Key) -> Json | None:
        members = list(self._pods[key].values())
        total = group_of(members[0]).total
        if key not in self._heads:
            if not self._partial and (total == 0 or len(members) < total):
                return None
            self._heads[key] = min(members, key=lambda pod: str(pod["metadata"]["name"]))
        return bundle(members, head=self._heads[key])

    def _key(self, pod: Json) -> Key:
        """A copy is in no group with pods of that cluster, whatever their names."""
        group, notes = group_of(pod), pod["metadata"].get("annotations") or {}
        whose = notes.get(Mirror.LOCAL_UID.value, "") if copied(pod) else ""
        return group.namespace, f"{group.name}@{whose}"


def _version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])
