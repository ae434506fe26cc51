"""What the worker of a cluster that plain Kueue runs writes there: see `manager.copy_writes`.

An offer is made twice: the first time it is the Workload, and once Kueue has admitted that, the Job
that names it. What is removed is the Job first, and the Workload when its pods are gone. Success
means as ever that the API server stored it, and every command may be repeated.
"""

from __future__ import annotations

import contextlib

from federation.api.names import RESOURCE_IN_USE, Label, Mirror
from federation.edge.errors import (
    REFUSED,
    AlreadyExists,
    Conflict,
    Invalid,
    NotFound,
)
from federation.edge.kube import KubeClient
from federation.edge.resources import JOBS, WORKLOADS, Json, Resource
from federation.jobs.mirror import mirrored_attempt
from federation.jobs.plain_kueue import grantable, pair_key
from manager.copy_writes import local_uid
from manager.plain_copies import PlainCopies
from manager.protocol import (
    AdoptCopy,
    ChangeCopy,
    ClusterSpec,
    Command,
    CreateCopy,
    DeleteCopy,
    Outcome,
    Reply,
    Result,
)


class PlainWrites:
    """Carries out commands; `copies` are those that were seen."""

    def __init__(self, client: KubeClient, spec: ClusterSpec, copies: PlainCopies) -> None:
        self._client, self._spec, self._copies = client, spec, copies

    async def run(self, command: Command) -> Outcome:
        """Carry out a command. Raises ApiError."""
        if not self._copies.known:
            text = "the copies there have not been listed yet"
            return Outcome(Result.RETRY, "Connecting", text, reply=Reply.UNSENT)
        match command:
            case CreateCopy():
                return await self.create(command)
            case DeleteCopy():
                return await self.delete(command)
            case AdoptCopy():
                notes = {Mirror.EPOCH.value: str(command.epoch)}
                body: Json = {"metadata": {"annotations": notes}}
                return await self.change(ChangeCopy(command.key, command.uid, body))
            case ChangeCopy():
                return await self.change(command)

    # Offers

    async def create(self, command: CreateCopy) -> Outcome:
        """The Workload; if it is there and admitted, the Job."""
        assert command.clone is not None
        namespace, name = command.key.namespace, command.clone["metadata"]["name"]
        key = pair_key(command.clone)
        job = self._copies.job(key)
        if job is not None and (no := await self._not_of(command, JOBS, job)) is not None:
            return no
        if self._copies.clone(key) is None:
            try:
                clone = await self._client.create(WORKLOADS, command.clone, namespace)
            except AlreadyExists:
                pass
            except REFUSED:
                if await self._made_before(command, WORKLOADS, name) is None:
                    raise
            except NotFound:
                return Outcome(
                    Result.REFUSED,
                    "NamespaceMissing",
                    f"namespace {namespace} does not exist on cluster {self._spec.name}: create it"
                    " there, with the LocalQueue",
                )
            else:
                return self._made(WORKLOADS, clone)
        try:
            clone = await self._client.get(WORKLOADS, name, namespace)
        except NotFound:  # a watch has yet to show that
            return self._as_seen(key)
        if (no := await self._not_of(command, WORKLOADS, clone)) is not None:
            return no
        self._copies.see(WORKLOADS, clone)
        if self._copies.job(key) is None and grantable(clone):
            return await self._create_job(command, clone)
        return self._as_seen(key)

    async def _create_job(self, command: CreateCopy, clone: Json) -> Outcome:
        namespace, name = command.key
        try:
            job = await self._client.create(JOBS, command.body, namespace)
        except AlreadyExists:
            try:
                job = await self._client.get(JOBS, name, namespace)
            except NotFound:
                return Outcome(Result.RETRY, "Gone", f"{command.key} was just deleted")
            if (no := await self._not_of(command, JOBS, job)) is not None:
                if no.result is Result.REFUSED:
                    await self._delete_clone(clone)  # it holds quota for nothing
                return no
        except REFUSED:
            if (found := await self._made_before(command, JOBS, name)) is None:
                await self._delete_clone(clone)
                raise
            job = found
        return self._made(JOBS, job)

    async def _made_before(self, command: CreateCopy, kind: Resource, name: str) -> Json | None:
        """What an offer has made of which no answer came: the no to the next try says nothing of
        that. None if it is not there.
        """
        try:
            found = await self._client.get(kind, name, command.key.namespace)
        except NotFound:
            return None
        origin = (found["metadata"].get("labels") or {}).get(Label.MULTIKUEUE_ORIGIN.value)
        ours = origin == self._spec.origin and local_uid(found) == command.local_uid
        return found if ours and mirrored_attempt(found) == command.attempt else None

    async def _not_of(self, command: CreateCopy, kind: Resource, found: Json) -> Outcome | None:
        """What follows if what has the name is another one; None if it is of this attempt."""
        what = "Job" if kind is JOBS else "Workload"
        name, cluster = f"{command.key.namespace}/{found['metadata']['name']}", self._spec.name
        if (found["metadata"].get("labels") or {}).get(
            Label.MULTIKUEUE_ORIGIN.value
        ) != self._spec.origin:
            return Outcome(
                Result.REFUSED,
                "NameTaken",
                f"a {what} {name} that is not ours exists on cluster {cluster}: rename one of the"
                " two, or keep this job off that cluster",
            )
        attempt, same = mirrored_attempt(found), local_uid(found) == command.local_uid
        if same and attempt == command.attempt:
            return None
        if same and attempt > command.attempt:
            return Outcome(Result.REFUSED, "Superseded", f"attempt {attempt} is there")
        if kind is JOBS:
            await self._delete_job(found, wait=True)
        elif (job := self._copies.job(pair_key(found))) is not None:
            await self._delete_job(job, wait=True)
        else:
            await self._delete_clone(found)
        return Outcome(Result.RETRY, "Replacing", f"an older copy of {command.key} is stopping")

    def _made(self, kind: Resource, obj: Json) -> Outcome:
        self._copies.see(kind, obj)
        return self._as_seen(pair_key(obj))

    def _as_seen(self, key: str) -> Outcome:
        """How a copy is now: a watch may have told of its end before the answer came."""
        if self._copies.clone(key) is None and self._copies.job(key) is None:
            return Outcome(Result.RETRY, "Gone", "the copy was just deleted")
        return Outcome(Result.OK, remote=self._copies.facts(key))

    # Removals

    async def delete(self, command: DeleteCopy) -> Outcome:
        """The copy, as it was seen if the command names a version."""
        key = command.uid.rpartition(".")[0]
        clone, job = self._copies.clone(key), self._copies.job(key)
        if clone is None and job is None:
            return Outcome(Result.ABSENT)
        remote = self._copies.facts(key)
        if remote.uid != command.uid:
            return Outcome(Result.ABSENT)
        if command.version and command.version != remote.version:
            return Outcome(Result.RETRY, "Conflict", "it has changed meanwhile", remote)
        if job is not None:
            version = job["metadata"]["resourceVersion"] if command.version else ""
            try:
                left = await self._delete_job(job, wait=command.wait, version=version)
            except Conflict as error:
                return Outcome(Result.RETRY, error.reason, str(error), remote)
            if left:
                return self._as_seen(key)
        if clone is not None:
            await self._delete_clone(clone)
        return Outcome(Result.ABSENT)

    async def _delete_job(self, job: Json, *, wait: bool, version: str = "") -> bool:
        """Whether something of it is left, of which a watch tells. Raises Conflict."""
        meta = job["metadata"]
        try:
            left = await self._client.delete(
                JOBS,
                meta["name"],
                meta["namespace"],
                uid=meta["uid"],
                resource_version=version,
                propagation="Foreground" if wait else "Background",
            )
        except NotFound:
            left = {}
        except Conflict:
            if version:
                raise
            left = {}  # another one has the name
        if left.get("kind") == "Job":
            self._copies.see(JOBS, left)
            if (clone := self._copies.clone(pair_key(job))) is not None:
                await self._let_go(clone)  # it goes with the Job, whether Kueue runs or not
            return True
        self._copies.removed(JOBS, job)
        return False

    async def _let_go(self, clone: Json) -> None:
        """Take Kueue's finalizer off: it may not run there to do that. Those of others stay."""
        meta = clone["metadata"]
        found = meta.get("finalizers") or []
        left = [finalizer for finalizer in found if finalizer != RESOURCE_IN_USE]
        if left == found:
            return
        body: Json = {"metadata": {"uid": meta["uid"], "finalizers": left or None}}
        try:
            seen = await self._client.patch(WORKLOADS, meta["name"], body, meta["namespace"])
        except (NotFound, Conflict, Invalid):
            return  # it is gone, or another one has the name
        self._copies.see(WORKLOADS, seen)

    async def _delete_clone(self, clone: Json) -> None:
        meta = clone["metadata"]
        await self._let_go(clone)
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(WORKLOADS, meta["name"], meta["namespace"], uid=meta["uid"])
        self._copies.removed(WORKLOADS, clone)

    # Changes

    async def change(self, command: ChangeCopy) -> Outcome:
        """A merge patch of the Job, if there is one."""
        key = command.uid.rpartition(".")[0]
        job = self._copies.job(key)
        if job is None or self._copies.facts(key).uid != command.uid:
            return Outcome(Result.ABSENT)
        meta = {**command.body.get("metadata", {}), "uid": job["metadata"]["uid"]}
        body = {**command.body, "metadata": meta}
        try:
            job = await self._client.patch(JOBS, command.key.name, body, command.key.namespace)
        except NotFound:
            return Outcome(Result.ABSENT)
        except (Conflict, Invalid) as error:  # another one has the name: a watch will tell
            remote = self._as_seen(key).remote
            return Outcome(Result.RETRY, error.reason, str(error), remote)
        return self._made(JOBS, job)
