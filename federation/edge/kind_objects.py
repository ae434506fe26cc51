"""Reading and writing the objects of a kind, where one of them may be several: groups of pods.

A group is written pod by pod, its head last: what the head says holds for all of them. A write that
ends in between is safe to repeat, and what was seen of the group before tells that it changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final, NamedTuple

from federation.api.names import Label, Mirror
from federation.core.facts import BATCH_JOB
from federation.edge.bundles import Bundles
from federation.edge.errors import AlreadyExists, Conflict, NotFound
from federation.edge.informer import Calls
from federation.edge.kube import KubeClient
from federation.edge.resources import Json, resource_of
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.pod_groups import (
    bundle,
    copied,
    group_of,
    members,
    own_job,
    settled,
)


class Whose(NamedTuple):
    """A copy: UID of the job on the management cluster, and its own."""

    local_uid: str
    uid: str


NOBODY: Final = Whose("", "")


class PartOfAnother(NotFound):
    """A pod of that name is part of something that is queued as a whole."""


class Objects:
    """Those of a kind on one cluster. Errors are those of the client."""

    def __init__(self, client: KubeClient, kind: JobKind) -> None:
        self._client, self._resource = client, resource_of(kind)

    async def create(self, body: Json, namespace: str) -> Json:
        """Create one."""
        return await self._client.create(self._resource, body, namespace)

    async def get(self, name: str, namespace: str) -> Json:
        """One as it is."""
        return await self._client.get(self._resource, name, namespace)

    async def patch(self, name: str, body: Json, namespace: str, *, subresource: str = "") -> Json:
        """Change parts of one, by a merge patch whose metadata may have preconditions."""
        return await self._client.patch(
            self._resource, name, body, namespace, subresource=subresource
        )

    async def put_status(self, name: str, was: Json, status: Json, namespace: str) -> Json:
        """Replace the status: a merge patch could not take fields away that are gone. `was` are
        the uid and resourceVersion that it was decided on; an empty status is taken away.
        """
        last: Json = {"op": "add", "path": "/status", "value": status}
        operations: list[Json] = [
            *({"op": "replace", "path": f"/metadata/{k}", "value": v} for k, v in was.items()),
            last if status else {"op": "remove", "path": "/status"},
        ]
        return await self._client.patch(
            self._resource, name, operations, namespace, kind="json", subresource="status"
        )

    async def delete(self, name: str, namespace: str, **preconditions: Any) -> Json:
        """Delete one; see KubeClient."""
        preconditions.pop("at_once", None)
        return await self._client.delete(self._resource, name, namespace, **preconditions)


class Groups(Objects):
    """Groups of pods, each by the name of its head. Who has seen which pods are in the group says
    their names: of pods that were made in the same second nothing else tells.
    """

    def __init__(
        self, client: KubeClient, kind: JobKind, names: Collection[str] = (), whose: Whose = NOBODY
    ) -> None:
        super().__init__(client, kind)
        self._names, self._whose = names, whose

    async def create(self, body: Json, namespace: str) -> Json:
        """See Objects. Pods of the same attempt that are there already are taken for ours."""
        pods = [_with_notes(body, pod) for pod in body["spec"]["pods"]]
        made = [await self._create(pod, namespace) for pod in pods]
        return bundle(made)

    async def _create(self, pod: Json, namespace: str) -> Json:
        try:
            return await self._client.create(self._resource, pod, namespace)
        except AlreadyExists:
            known = await self._client.get(self._resource, pod["metadata"]["name"], namespace)
            if _marks(known) != _marks(pod):
                raise
            return known

    async def get(self, name: str, namespace: str) -> Json:
        """See Objects."""
        try:
            head = await self._client.get(self._resource, name, namespace)
        except NotFound:
            return await self._headless(name, namespace)
        return bundle(self._chosen(await self._members(head), head), head=head)

    async def _headless(self, name: str, namespace: str) -> Json:
        """What is left of a copy whose head somebody has deleted. Raises NotFound if nothing is."""
        local_uid, uid = self._whose
        left: list[Json] = []
        if local_uid:
            selector = Label.MULTIKUEUE_ORIGIN.value
            found = await self._client.list(self._resource, namespace, label_selector=selector)
            left = [pod for pod in found.items if _owner(pod) == local_uid]
        if not left:
            raise NotFound(f"pods {namespace}/{name} are gone", status=404, reason="NotFound")
        known = {**left[0]["metadata"], "name": name, "uid": uid}
        return bundle(left, head={**left[0], "metadata": known})

    def _chosen(
        self, pods: list[Json], head: Json, named: Collection[str] = (), seen: int | None = None
    ) -> list[Json]:
        """Those of the group. `named` are pods in it, `seen` the version up to which it was: pods
        that are in excess may be later.
        """
        names = {head["metadata"]["name"], *(self._names or named)}
        if len(names) >= min(len(pods), group_of(head).total or len(pods)):
            return [pod for pod in pods if pod["metadata"]["name"] in names]
        return members(pods, head, seen)

    async def _members(self, head: Json) -> list[Json]:
        group, labels = group_of(head), head["metadata"].get("labels") or {}
        if group.total == 1:
            return [head]
        selector = f"{Label.QUEUE_NAME}={labels.get(Label.QUEUE_NAME.value, '')}"
        namespace = head["metadata"]["namespace"]
        found = await self._client.list(self._resource, namespace, label_selector=selector)
        return [
            pod
            for pod in found.items
            if group_of(pod)[:2] == group[:2] and _owner(pod) == _owner(head)
        ]

    async def patch(self, name: str, body: Json, namespace: str, *, subresource: str = "") -> Json:
        """See Objects. `spec.pods` has a patch for each pod, by name."""
        meta = dict(body.get("metadata") or {})
        parts: Json = (body.get("spec") or {}).get("pods") or {}
        known = await self._expect(name, namespace, meta, parts)
        head = _head(known["spec"]["pods"], name)
        others = [pod for pod in known["spec"]["pods"] if pod["metadata"]["name"] != name]
        written = [await self._patch(pod, parts) for pod in others]
        own: Json = dict(parts.get(name) or {})
        own["metadata"] = _merged(own.get("metadata") or {}, meta)
        own["metadata"]["resourceVersion"] = head["metadata"]["resourceVersion"]
        made = await self._client.patch(self._resource, name, own, namespace)
        return await self._as_of_now([*written, made], made)

    async def _as_of_now(self, written: list[Json], head: Json) -> Json:
        """A group after a write. While one pod is written others may be changed or deleted: with
        what was read of them before, it would say of later news that they are old. So it is read
        again; news of what has changed since the write are later than it all the same.
        """
        if len(written) < 2:
            return bundle(written, head=head)
        version = bundle(written, head=head)["metadata"]["resourceVersion"]
        uids, own = {pod["metadata"]["uid"] for pod in written}, head["metadata"]["uid"]
        there = [pod for pod in await self._members(head) if pod["metadata"]["uid"] in uids]
        head = next((pod for pod in there if pod["metadata"]["uid"] == own), head)
        found = bundle(there, head=head)
        return {**found, "metadata": {**found["metadata"], "resourceVersion": version}}

    async def _patch(self, pod: Json, parts: Json) -> Json:
        meta = pod["metadata"]
        if not (part := parts.get(meta["name"])):
            return pod
        body = {**part, "metadata": {**(part.get("metadata") or {}), "uid": meta["uid"]}}
        return await self._client.patch(self._resource, meta["name"], body, meta["namespace"])

    async def put_status(self, name: str, was: Json, status: Json, namespace: str) -> Json:
        """See Objects."""
        told: Json = status.get("pods") or {}
        known = await self._expect(name, namespace, was, told)
        made = []
        for pod in known["spec"]["pods"]:
            meta = pod["metadata"]
            wanted = told.get(meta["name"])
            if wanted and wanted != pod.get("status"):
                own = {key: meta[key] for key in ("uid", "resourceVersion")}
                pod = await super().put_status(meta["name"], own, wanted, namespace)
            made.append(pod)
        head = _head(made, name)
        return await self._as_of_now(settled(made, head), head)

    async def delete(self, name: str, namespace: str, **preconditions: Any) -> Json:
        """See Objects. The head goes when the others are gone, those in excess as well: it stands
        for them. With `at_once` all are told at once.
        """
        at_once = bool(preconditions.pop("at_once", False))
        wanted = {"uid": preconditions.get("uid"), "resourceVersion": ""}
        wanted["resourceVersion"] = preconditions.get("resource_version") or ""
        known = await self._expect(name, namespace, {k: v for k, v in wanted.items() if v})
        heads = [pod for pod in known["spec"]["pods"] if pod["metadata"]["name"] == name]

        async def remove(pod: Json) -> None:
            meta = pod["metadata"]
            with suppress(NotFound):
                await self._client.delete(
                    self._resource,
                    meta["name"],
                    namespace,
                    uid=meta["uid"],
                    resource_version=meta["resourceVersion"] if wanted["resourceVersion"] else "",
                )

        there = await self._members(heads[0]) if heads else known["spec"]["pods"]
        others = [pod for pod in there if pod["metadata"]["name"] != name]
        await asyncio.gather(*map(remove, [*others, *heads] if at_once else others))
        if others and heads and not at_once:
            left = await self._members(heads[0])
            heads = left if len(left) == 1 else []
        for head in heads if not at_once else ():
            await remove(head)
        return await self.get(name, namespace)  # NotFound: all is gone

    async def _expect(
        self, name: str, namespace: str, wanted: Json, named: Collection[str] = ()
    ) -> Json:
        """A group as it is. Conflict unless it is what was seen: the deletion of a pod counts in
        what was seen, and in no pod that is left.
        """
        seen = int(wanted["resourceVersion"]) if wanted.get("resourceVersion") else None
        try:
            head = await self._client.get(self._resource, name, namespace)
        except NotFound:
            known = await self._headless(name, namespace)
        else:
            pods = self._chosen(await self._members(head), head, named, seen)
            known = bundle(pods, head=head)
        later = seen is not None and int(known["metadata"]["resourceVersion"]) > seen
        for key, differs in {
            "uid": wanted.get("uid") not in (None, known["metadata"]["uid"]),
            "resourceVersion": later,
        }.items():
            if differs:
                raise Conflict(
                    f"pods {namespace}/{name} on cluster {self._client.cluster}: the {key} in the"
                    " precondition does not match",
                    status=409,
                    reason="Conflict",
                    cluster=self._client.cluster,
                )
        return known


def objects(
    client: KubeClient, kind: JobKind, names: Collection[str] = (), whose: Whose = NOBODY
) -> Objects:
    """Those of a kind; `names` are those of the pods of the group that is written, `whose` which
    copy it is: what is left of it can be found if its head is gone.
    """
    return Groups(client, kind, names, whose) if kind.bundled else Objects(client, kind)


async def listed(client: KubeClient, kind: JobKind, namespace: str | None) -> list[Json]:
    """All batch/v1 Jobs of a namespace, or of all (None); of other kinds those that name a queue.
    Groups of pods are bundles, also those of which pods are missing.
    """
    queued = "" if kind.name == BATCH_JOB else Label.QUEUE_NAME.value
    page = await client.list(resource_of(kind), namespace, label_selector=queued)
    typed = {"apiVersion": kind.api_version, "kind": kind.kind}
    items = [{**item, **typed} for item in page.items]
    return grouped(items) if kind.bundled else items


def grouped(pods: list[Json]) -> list[Json]:
    """Pods that are jobs of their own as bundles."""
    found: list[Json] = []
    taking = Calls(lambda items, version: found.extend(items), lambda obj: None, lambda obj: None)
    Bundles(taking, partial=True).on_list(pods, "")
    return found


async def named(client: KubeClient, kind: JobKind, name: str, namespace: str) -> Json:
    """One object. A group of pods is known by the name of any of its pods, and by its own. Raises
    NotFound, of a pod that is part of something else PartOfAnother.
    """
    if not kind.bundled:
        return await client.get(resource_of(kind), name, namespace)
    for found in await listed(client, kind, namespace):
        if name in names_of(found):
            return found
    pod = await client.get(resource_of(kind), name, namespace)
    if own_job(pod):
        return bundle([pod])
    owners = pod["metadata"]["ownerReferences"]
    owner = next(one for one in owners if one.get("controller"))
    text = f"pod {namespace}/{name} is part of {owner['kind']} {owner['name']}: name that"
    raise PartOfAnother(text, status=404, reason="NotFound")


def names_of(obj: Json) -> set[str]:
    """The names by which a bundle of pods is known."""
    pods = [pod["metadata"]["name"] for pod in obj["spec"]["pods"]]
    return {obj["metadata"]["name"], *pods, group_of(obj).name.partition("/")[2]}


def _head(pods: list[Json], name: str) -> Json:
    """The head among them, which may have been deleted at this moment. Raises NotFound."""
    for pod in pods:
        if pod["metadata"]["name"] == name:
            return pod
    raise NotFound(f"pod {name}, the head of its group, is gone", status=404, reason="NotFound")


def _with_notes(body: Json, pod: Json) -> Json:
    """What was added to the bundle is added to its head."""
    meta = body["metadata"]
    if pod["metadata"]["name"] != meta["name"]:
        return pod
    return {**pod, "metadata": _merged(pod["metadata"], meta)}


def _merged(meta: Json, more: Json) -> Json:
    made = {**meta, **more}
    for part in ("labels", "annotations"):
        if both := {**(meta.get(part) or {}), **(more.get(part) or {})}:
            made[part] = both
    return made


def _marks(pod: Json) -> tuple[object, ...]:
    notes = pod["metadata"].get("annotations") or {}
    return (_owner(pod), notes.get(Mirror.ATTEMPT.value))


def _owner(pod: Json) -> object:
    notes = pod["metadata"].get("annotations") or {}
    return copied(pod) and notes.get(Mirror.LOCAL_UID.value)
