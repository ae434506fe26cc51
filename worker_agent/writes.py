"""What the agent writes to Jobs: each a merge patch that is safe to repeat.

Writes about one Job are carried out one after the other, in the order they were asked for; of all
Jobs together at most `WRITES_IN_FLIGHT` at once. Urgent ones do not wait for those.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import structlog

from federation.api.life import moment
from federation.api.names import Mirror, Pin
from federation.core.dispatch import FOR_GOOD_S
from federation.core.reasons import Reason
from federation.edge.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unreachable,
)
from federation.edge.kind_objects import Whose, objects
from federation.edge.kube import KubeClient
from federation.edge.resources import Json
from federation.jobs import answers, offer
from federation.jobs.eviction_note import LONGEST, Eviction, encode_eviction
from federation.jobs.kinds.kind import Kinds
from federation.jobs.kinds.registry import KINDS
from federation.jobs.pauses import begins, goes_on
from worker_agent.facts import WorkerJob

log = structlog.get_logger(__name__)

WRITES_IN_FLIGHT = 32
URGENT_IN_FLIGHT = 64
HOLD_S = 5.0
"""How long the API server may take when a copy has to be stopped: then it is asked again."""
RETRY_S = 1.0

Write = Callable[[], Awaitable[None]]


class Queue:
    """Carries writes out. `done` hears of every Job about which there is no write any more."""

    def __init__(self, done: Callable[[str], None]) -> None:
        self._done = done
        self._pending = Counter[str]()
        self._locks: dict[str, asyncio.Lock] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._limit = asyncio.Semaphore(WRITES_IN_FLIGHT)
        self._urgent = asyncio.Semaphore(URGENT_IN_FLIGHT)
        self._tasks = set[asyncio.Task[None]]()

    def busy(self, uid: str) -> bool:
        """Whether a write about this Job is under way: its facts are about to change."""
        return uid in self._pending

    def heard(self, uid: str) -> None:
        """There is news of a Job: what did not apply to it may now."""
        if uid in self._news:
            self._news[uid].set()

    def add(
        self, tasks: asyncio.TaskGroup, job: WorkerJob, write: Write, *, urgent: bool = False
    ) -> None:
        """Have a write carried out. A failure is logged; the Job is then decided on again.

        `write` makes its request only when it is called: it sees what earlier ones have changed.
        """
        self._pending[job.uid] += 1
        lock = self._locks.setdefault(job.uid, asyncio.Lock())
        limit = self._urgent if urgent else self._limit
        task = tasks.create_task(self._run(job, write, lock, limit))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drained(self) -> None:
        """Until all writes are over that are under way or wait now."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _run(
        self, job: WorkerJob, write: Write, lock: asyncio.Lock, limit: asyncio.Semaphore
    ) -> None:
        try:
            async with lock, limit:
                await write()
        except (Conflict, NotFound):
            log.debug("job.changed_meanwhile", job=str(job.key))
            await self._next(job.uid)
        except ApiError as error:
            log.warning("job.not_written", job=str(job.key), why=str(error))
            await asyncio.sleep(RETRY_S)  # the API server refused; nothing will announce better
        finally:
            self._pending[job.uid] -= 1
            if not self._pending[job.uid]:
                del self._pending[job.uid], self._locks[job.uid]
                self._done(job.uid)

    async def _next(self, uid: str) -> None:
        """Until the watch tells what changed; not for ever, it may be what is behind."""
        news = self._news.setdefault(uid, asyncio.Event())
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S):
                await news.wait()
        self._news.pop(uid, None)


class Jobs:
    """The Jobs of this cluster, for writing. `see` takes what the API server made of a write,
    `breaks` is how often the lease may have ended (0: not known).
    """

    def __init__(
        self,
        client: KubeClient,
        see: Callable[[Json], None],
        breaks: Callable[[], int],
        kinds: Kinds = KINDS,
    ) -> None:
        self._client, self._see, self._breaks, self._kinds = client, see, breaks, kinds

    async def start(self, job: WorkerJob, patch: Json) -> None:
        """Unsuspend a Job with the patch that also notes what is charged.

        One that the API server will never take, or an admission policy forbids, is refused for
        good. If it is the agent that may write nothing, neither is the refusal written.
        """
        if job.mirrored:
            patch["metadata"]["annotations"] |= self._lives_under()
        first, *more = self._kinds[job.kind].start_writes(patch)
        try:
            written = await self._patch(job, first)
            for then in more:
                written = await self._follow(job, written, then)
        except (Forbidden, Invalid) as error:
            await self.refuse(job, f"{Reason.FAILED_TO_START}: {error.message}")
            return
        log.info("job.started", job=str(job.key), attempt=job.attempt, mirrored=job.mirrored)

    async def _follow(self, job: WorkerJob, before: Json, patch: Json) -> Json:
        """The next of several writes, to the object as the one before has left it: others may only
        have told its status since. Raises Conflict if they did more.
        """
        stored = objects(self._client, self._kinds[job.kind])
        while True:
            meta = {**patch["metadata"], "resourceVersion": before["metadata"]["resourceVersion"]}
            try:
                return await self._patch(job, {**patch, "metadata": meta})
            except Conflict:
                found = await stored.get(job.key.name, job.key.namespace)
                if _asked(found) != _asked(before):
                    raise
                before = found

    async def refuse(self, job: WorkerJob, why: str, retry_after: float | None = None) -> None:
        """The final answer about a copy, or about a Job that cannot be started as admitted: what a
        copy had reserved is free with it. See Mirror.RETRY_AFTER.
        """
        notes: dict[str, str | None] = {Mirror.REFUSED.value: why[:LONGEST]}
        if job.mirrored:
            notes |= unreserved(job)
        if job.deciding_until:
            notes[Mirror.DECIDING.value] = None
        if retry_after is not None:
            notes |= answers.write_retry_after(retry_after)
        await self._annotate(job, notes)
        log.info("job.refused", job=str(job.key), attempt=job.attempt, why=why)

    async def decide_later(self, job: WorkerJob, until: str) -> None:
        """Tell the manager that a copy gets its answer later."""
        await self._annotate(job, {Mirror.DECIDING.value: until})

    async def suspend(self, job: WorkerJob) -> None:
        """A Job that was started past the queue is stopped, and waits its turn."""
        meta: Json = {"resourceVersion": str(job.version)}
        if notes := unreserved(job):  # it lost its place: nothing counts what runs past the queue
            meta["annotations"] = notes
        await self._patch(job, {"metadata": meta, "spec": self._suspend(job)})
        log.warning("job.stopped", job=str(job.key), why="it was started without admission")

    async def evict(self, job: WorkerJob, eviction: Eviction) -> None:
        """Suspend a Job and note why, in one write."""
        notes: dict[str, str | None] = {Mirror.EVICTED.value: encode_eviction(eviction)}
        if job.mirrored and (after := retry_after(eviction)) is not None:
            notes |= answers.write_retry_after(after)
        if job.held:
            notes |= job.pauses.ends(moment(eviction.at) or 0.0)
        meta = {"uid": job.uid, "annotations": notes | unreserved(job)}
        await self._stop(job, meta)
        log.info("job.evicted", job=str(job.key), reason=eviction.reason, why=eviction.message)

    async def hold(self, job: WorkerJob, why: str, now: float) -> None:
        """Suspend a copy because the lease ended, and say so, in one write; `now` is in seconds
        since the epoch. Since when it was held goes on where somebody had started it meanwhile.
        """
        since = job.pauses.since
        meta = {"uid": job.uid, "annotations": begins(why, now if since is None else since)}
        try:
            async with asyncio.timeout(HOLD_S):
                await self._stop(job, meta)
        except TimeoutError:
            raise Unreachable(f"the API server did not answer within {HOLD_S:g} s") from None
        log.warning("job.held", job=str(job.key), attempt=job.attempt, why=why)

    async def unhold(self, job: WorkerJob, now: float) -> None:
        """A copy that runs does not say that it stands still."""
        await self._annotate(job, goes_on(job.pauses, now))

    async def forget_start(self, job: WorkerJob) -> None:
        """Take away the start time of a copy that is held: while it stands, Kubernetes does not let
        the Job be started again.
        """
        await self._patch(
            job, {"metadata": {"uid": job.uid}, "status": {"startTime": None}}, "status"
        )

    async def resume(self, job: WorkerJob, body: Json, now: float) -> None:
        """Let a copy that was held go on as it was, with what is left of the time that its `body`
        gives it: the clock of Kubernetes starts anew.
        """
        notes = {**goes_on(job.pauses, now), **self._lives_under()}
        spec = offer.goes_on(self._kinds[job.kind], body, job.pauses.stretch)
        await self._patch(job, {"metadata": {"uid": job.uid, "annotations": notes}, "spec": spec})
        log.info("job.resumed", job=str(job.key), attempt=job.attempt)

    async def reserve(self, job: WorkerJob, notes: Mapping[str, str | None]) -> None:
        """Note what a Job holds that is not started before its admission checks are Ready."""
        await self._annotate(job, notes)
        log.info("job.reserved", job=str(job.key))

    async def tell_wait(self, job: WorkerJob, what: str) -> None:
        """What a copy waits for with its reservation is another thing now."""
        await self._annotate(job, {Mirror.WAITS_FOR.value: what[:LONGEST]})

    async def unreserve(self, job: WorkerJob) -> None:
        """Give back what was reserved and not used."""
        await self._annotate(job, unreserved(job))
        log.info("job.released", job=str(job.key))

    async def delete(self, job: WorkerJob) -> None:
        """Remove a Job that was kept long enough after the queue deactivated it."""
        stored = objects(self._client, self._kinds[job.kind])
        await stored.delete(job.key.name, job.key.namespace, uid=job.uid)
        log.info("job.expired", job=str(job.key))

    async def grow(self, job: WorkerJob, patch: Json) -> None:
        """Have a copy run more pods, with the note of what is charged for them.

        What the API server will never take is refused.
        """
        try:
            await self._patch(job, patch)
        except (Forbidden, Invalid) as error:
            await self.refuse_growth(job, f"{Reason.FAILED_TO_START}: {error.message}")
            return
        log.info("job.grown", job=str(job.key), pods=sum(job.grow_to.values()))

    async def let_go(self, job: WorkerJob, patch: Json) -> None:
        """Some pods of a job that runs start later than the others."""
        await self._patch(job, patch)
        log.info("job.replaced", job=str(job.key), pods=sorted(patch["spec"]["pods"]))

    async def cut(self, job: WorkerJob, patch: Json) -> None:
        """Have a copy run no more pods than are charged for it."""
        await self._patch(job, patch)
        log.warning("job.cut", job=str(job.key), why="its spec asked for more than was admitted")

    async def refuse_growth(self, job: WorkerJob, why: str) -> None:
        """A copy gets no more pods for now."""
        await self._annotate(job, {Mirror.GROW_REFUSED.value: why})
        log.info("job.not_grown", job=str(job.key), pods=sum(job.grow_to.values()), why=why)

    async def move(self, job: WorkerJob, note: str) -> None:
        """Some pods of a running Job go elsewhere."""
        await self._annotate(job, {Mirror.ADMISSION.value: note})
        log.info("job.moved", job=str(job.key))

    async def reseat(self, job: WorkerJob, plan: str) -> None:
        """Pods to come of a running Job get other cards."""
        await self._annotate(job, {Pin.DEVICES.value: plan})
        log.info("job.reseated", job=str(job.key))

    async def reset(self, job: WorkerJob, body: Json) -> None:
        """Make a Job whose pods are gone as it was before it was started.

        The start time goes first: while it stands, the template cannot be changed.
        """
        if job.pods.started:
            status = {"metadata": {"uid": job.uid}, "status": {"startTime": None}}
            body = await self._patch(job, status, "status")
        patch = self._kinds[job.kind].restore_patch(body)
        if patch is not None:
            notes = patch["metadata"]["annotations"]
            notes[Mirror.RESERVED_AT.value] = None
            notes[Mirror.ADMITTED_AT.value] = None
            notes[Mirror.PRIORITY.value] = None
            notes[Pin.DEVICES.value] = None
            await self._patch(job, patch)
        log.info("job.queued_again", job=str(job.key))

    async def _stop(self, job: WorkerJob, meta: Json) -> None:
        """Hold it back again; some kinds can only be deleted."""
        kind = self._kinds[job.kind]
        if not (kind.deletes or (kind.deletes_copies and job.mirrored)):
            await self._patch(job, {"metadata": meta, "spec": self._suspend(job)})
            return
        with suppress(NotFound):  # the head of a group: the other pods have to stop all the same
            await self._patch(job, {"metadata": meta})
        whose = Whose(job.local_uid if job.mirrored else "", job.uid)
        stored = objects(self._client, kind, whose=whose)
        with suppress(NotFound):
            await stored.delete(
                job.key.name, job.key.namespace, uid=job.uid, propagation="Foreground", at_once=True
            )

    def _lives_under(self) -> dict[str, str]:
        """The note of the lease under which a copy is started: see Mirror.BREAKS."""
        breaks = self._breaks()
        return {Mirror.BREAKS.value: str(breaks)} if breaks else {}

    def _suspend(self, job: WorkerJob) -> Json:
        return self._kinds[job.kind].suspend(suspend=True)

    async def _annotate(self, job: WorkerJob, notes: Mapping[str, str | None]) -> None:
        await self._patch(job, {"metadata": {"uid": job.uid, "annotations": notes}})

    async def _patch(self, job: WorkerJob, body: Json, subresource: str = "") -> Json:
        name, namespace = job.key.name, job.key.namespace
        stored = objects(self._client, self._kinds[job.kind])
        written = await stored.patch(name, body, namespace, subresource=subresource)
        self._see(written)
        return written


def _asked(obj: Json) -> tuple[object, ...]:
    """What people and programs ask of an object, beside what its operator says of it."""
    meta = obj["metadata"]
    marks = (meta.get("labels"), meta.get("annotations"), meta.get("deletionTimestamp"))
    return meta["uid"], *marks, obj["spec"]


def unreserved(job: WorkerJob) -> dict[str, str | None]:
    """The notes that take away what a Job reserved; none if it reserved nothing. The priority of a
    copy is the manager's.
    """
    if job.reservation is None:
        return {}
    own = Mirror.WAITS_FOR if job.mirrored else Mirror.PRIORITY
    kinds = (Mirror.RESERVATION, Mirror.RESERVED_AT, own, Pin.DEVICES)
    return {kind.value: None for kind in kinds}


def retry_after(eviction: Eviction) -> float | None:
    """For how many seconds it is of no use to have a copy here again that is stopped so; None if
    nothing is known of that.
    """
    if eviction.reason.startswith(Reason.DEACTIVATED):
        return FOR_GOOD_S
    at = eviction.requeue.at if eviction.requeue is not None else None
    return None if at is None else max(0.0, at - (moment(eviction.at) or 0.0))
