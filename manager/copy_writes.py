"""What the worker of a cluster writes there: copies are made, changed and removed.

Success of a command means that the cluster's API server stored it. An outcome tells the copy as it
is then, where that is known. Commands are safe to repeat.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from federation.api.names import Label, Mirror
from federation.core.bound import has_pods
from federation.core.facts import BATCH_JOB, RemoteJob
from federation.edge.errors import (
    REFUSED,
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from federation.edge.kind_informers import served
from federation.edge.kind_objects import Objects, Whose, objects
from federation.edge.kube import KubeClient
from federation.edge.resources import Json
from federation.jobs import elastic
from federation.jobs.kinds.kind import JobKind, Kinds
from federation.jobs.kinds.parts import merged
from federation.jobs.kinds.pod_groups import whole
from manager.protocol import (
    AdoptCopy,
    ChangeCopy,
    ClusterSpec,
    Command,
    CreateCopy,
    DeleteCopy,
    Outcome,
    Result,
)


class CopyWrites:
    """`copy` reads a copy; `on_made` hears of one that was made, before its watch does."""

    def __init__(
        self,
        client: KubeClient,
        kinds: Kinds,
        spec: ClusterSpec,
        copy: Callable[[Json], RemoteJob],
        on_made: Callable[[RemoteJob], None],
    ) -> None:
        self._client, self._kinds, self._spec = client, kinds, spec
        self._copy, self._on_made = copy, on_made

    async def run(self, command: Command) -> Outcome:
        """Carry out a command. Raises ApiError."""
        match command:
            case CreateCopy():
                return await self.create(command)
            case AdoptCopy():
                return await self.adopt(command)
            case ChangeCopy():
                return await self.change(command)
            case DeleteCopy():
                return await self.delete(command)

    async def create(self, command: CreateCopy) -> Outcome:
        """The copy, suspended. One of its name that is older and ours gives way."""
        namespace, kind = command.key.namespace, self._kinds.of(command.body)
        try:
            job = await objects(self._client, kind).create(command.body, namespace)
        except AlreadyExists:
            return await self._claim_existing(command, kind)
        except NotFound:
            if kind.name != BATCH_JOB and not await served(self._client, kind):
                return Outcome(
                    Result.REFUSED,
                    "KindMissing",
                    f"cluster {self._spec.name} does not serve {kind.plural}.{kind.group}: install"
                    " its custom resource definition and its controller there",
                )
            return Outcome(
                Result.REFUSED,
                "NamespaceMissing",
                f"namespace {namespace} does not exist on cluster {self._spec.name}: create it"
                " there, with the LocalQueue",
            )
        except REFUSED as error:
            return await self._made_before(command, kind, error)
        return self._made(job)

    async def _made_before(self, command: CreateCopy, kind: JobKind, no: ApiError) -> Outcome:
        """The no to an offer that is made again says nothing of the one before: it may be there.
        Raises the no if it is not.
        """
        try:
            job = await objects(self._client, kind).get(command.key.name, command.key.namespace)
        except (NotFound, Forbidden):
            raise no from None
        remote = self._copy(job)
        if not _is_of(command, job, remote):
            raise no
        if kind.bundled and not whole(job):  # the rest of a group is made with the next try
            return Outcome(Result.RETRY, no.reason, str(no))
        return Outcome(Result.OK, remote=remote)

    def _made(self, job: Json) -> Outcome:
        remote = self._copy(job)
        self._on_made(remote)
        return Outcome(Result.OK, remote=remote)

    async def _claim_existing(self, command: CreateCopy, kind: JobKind) -> Outcome:
        """One of that name is there: this attempt, an older one of ours, or somebody else's."""
        namespace, name = command.key
        try:
            job = await objects(self._client, kind).get(name, namespace)
        except NotFound:
            return Outcome(Result.RETRY, "Gone", f"{command.key} was just deleted")
        meta = job["metadata"]
        origin = (meta.get("labels") or {}).get(Label.MULTIKUEUE_ORIGIN.value)
        if origin != self._spec.origin:
            return Outcome(
                Result.REFUSED,
                "NameTaken",
                f"a {kind.kind} {command.key} that is not ours exists on cluster {self._spec.name}:"
                " rename one of the two, or keep this job off that cluster",
            )
        remote = self._copy(job)
        if _is_of(command, job, remote):
            return Outcome(Result.OK, remote=remote)
        if local_uid(job) == command.local_uid and remote.attempt > command.attempt:
            return Outcome(Result.REFUSED, "Superseded", f"attempt {remote.attempt} is there")
        left = await objects(self._client, kind).delete(  # as it was seen: the agent may start it
            name, namespace,
            uid=remote.uid, resource_version=str(remote.version),
            propagation="Foreground" if has_pods(remote) else "Background",
        )  # fmt: skip
        if left.get("kind") != kind.kind:  # it is gone: the name is free
            with contextlib.suppress(AlreadyExists):
                return self._made(await objects(self._client, kind).create(command.body, namespace))
        return Outcome(Result.RETRY, "Replacing", f"an older copy of {command.key} is stopping")

    async def adopt(self, command: AdoptCopy) -> Outcome:
        """Only the UID is a precondition: the agent may write at the same moment, and the policy
        fedq-epoch refuses an epoch that is over.
        """
        notes = {Mirror.EPOCH.value: str(command.epoch)}
        body = {"metadata": {"annotations": notes}}
        return await self.change(
            ChangeCopy(command.key, command.uid, body, command.kind, command.local_uid)
        )

    async def change(self, command: ChangeCopy) -> Outcome:
        """A merge patch of the copy that has the UID."""
        key, meta = command.key, {**command.body.get("metadata", {}), "uid": command.uid}
        try:
            stored = self._stored(command)
            body = {**command.body, "metadata": meta}
            if command.added is not None and not await self._added(stored, command, command.added):
                return Outcome(Result.ABSENT)
            if command.size is not None:
                body = merged(body, await self._resized(stored, command, command.size))
            job = await stored.patch(key.name, body, key.namespace)
        except (NotFound, Conflict, Invalid) as error:
            return await self._look(command, error)  # another one has the name, or it changed
        return Outcome(Result.OK, remote=self._copy(job))

    async def _resized(self, stored: Objects, command: ChangeCopy, size: Json) -> Json:
        """The patch of its numbers of pods, with the lists that they are in as these are now.
        Raises NotFound.
        """
        copy = await stored.get(command.key.name, command.key.namespace)
        patch = elastic.resize_patch(self._kinds[command.kind], copy, size)
        patch["metadata"]["uid"] = command.uid
        return patch

    async def _added(self, stored: Objects, command: ChangeCopy, pods: Json) -> bool:
        """Whether the copy is there to get more pods, which wait for its agent. Raises NotFound."""
        copy = await stored.get(command.key.name, command.key.namespace)
        if copy["metadata"]["uid"] != command.uid or "deletionTimestamp" in copy["metadata"]:
            return False
        await stored.create(pods, command.key.namespace)
        return True

    async def delete(self, command: DeleteCopy) -> Outcome:
        """The copy that has the UID, as it was seen if the command names a version."""
        key, kind = command.key, self._kinds[command.kind]
        version = str(command.version) if command.version else ""
        try:
            if command.wait and kind.remade:
                version = await self._suspended(command, version)
            answer = await self._stored(command).delete(
                key.name,
                key.namespace,
                uid=command.uid,
                resource_version=version,
                propagation="Foreground" if command.wait else "Background",
            )
        except NotFound:
            return Outcome(Result.ABSENT)
        except Conflict as error:
            return await self._look(command, error)
        if answer.get("kind") == kind.kind:
            return Outcome(Result.OK, remote=self._copy(answer))
        return Outcome(Result.ABSENT)

    async def _suspended(self, command: DeleteCopy, version: str) -> str:
        """Suspend a copy that is to be deleted, so that nothing runs of what its operator makes
        anew; its version then, if one is a precondition.
        """
        held: Json = {"uid": command.uid} | ({"resourceVersion": version} if version else {})
        body = {"metadata": held, "spec": self._kinds[command.kind].suspend(suspend=True)}
        with contextlib.suppress(Forbidden, Invalid):  # it can be deleted all the same
            copy = await self._stored(command).patch(command.key.name, body, command.key.namespace)
            return str(copy["metadata"]["resourceVersion"]) if version else ""
        return version

    def _stored(self, command: ChangeCopy | DeleteCopy) -> Objects:
        whose = Whose(command.local_uid, command.uid)
        return objects(self._client, self._kinds[command.kind], whose=whose)

    async def _look(
        self, command: ChangeCopy | DeleteCopy, error: NotFound | Conflict | Invalid
    ) -> Outcome:
        """Another object has the name (ours is gone), or ours changed: let the caller look."""
        try:
            job = await self._stored(command).get(command.key.name, command.key.namespace)
        except NotFound:
            return Outcome(Result.ABSENT)
        if job["metadata"]["uid"] != command.uid:
            return Outcome(Result.ABSENT)
        return Outcome(Result.RETRY, error.reason, str(error), self._copy(job))


def _is_of(command: CreateCopy, copy: Json, remote: RemoteJob) -> bool:
    """Whether a copy is that of this job and attempt."""
    return local_uid(copy) == command.local_uid and remote.attempt == command.attempt


def local_uid(copy: Json) -> str:
    """UID of the object on the management cluster that a copy is of; '' if it names none."""
    annotations = copy["metadata"].get("annotations") or {}
    return str(annotations.get(Mirror.LOCAL_UID.value, ""))
