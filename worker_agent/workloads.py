"""The Workload beside each Job on the worker, written after the decision, off its path.

Of a local Job it is the record of what people and check controllers want, of evictions and clocks
(docs/decisions/18); of a copy only what admission checks of this cluster say is read from it. A
copy that waits for them gets one at once, any other when it has been there for some seconds, and no
others come: what ends sooner is gone, with its copy, before anybody could look. For the same reason
the end of a copy is written only when the manager has not removed it after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from federation.api import departure
from federation.api import record as records
from federation.api import record_patches as patches
from federation.api.names import ConditionType, Label
from federation.core.controls import Deactivate, Readmit
from federation.core.facts import LocalJob, Record
from federation.edge.errors import AlreadyExists, ApiError, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import WORKLOADS, Json
from federation.jobs import batch_job
from worker_agent import departed, status
from worker_agent.agent import Agent
from worker_agent.facts import Stage, WorkerJob
from worker_agent.retention import expiry
from worker_agent.state import stamp
from worker_agent.worklist import Worklist

log = structlog.get_logger(__name__)

COPY_AFTER_S = 20.0
QUIET_S = 5.0
"""Copies that come one after the other go before the Workloads of those that are there."""
COPY_LATEST_S = 120.0
FINISH_AFTER_S = 10.0
REWRITE_S = 10.0


class Workloads:
    """Brings Workloads in line with what the agent decided."""

    def __init__(self, client: KubeClient, agent: Agent) -> None:
        self._client, self._agent, self._state = client, agent, agent.state
        self._records = agent.state.records
        self._jobs = Worklist(self._look)
        self.mark = self._jobs.mark
        """Have a Job's Workload looked at."""
        self._written: dict[str, float] = {}
        self._ends: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._newest = float("-inf")
        """When a copy was first looked at: each of them, and the last one."""
        self.on_record: Callable[[str], None] = lambda uid: None
        """Hears of every Workload that says something else, by the UID of its Job."""
        agent.state.on_change = self.mark

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """Informer handler."""
        present = {records.owner_uid(item) for item in items}
        for uid in self._records.keys() - present:
            self._records.pop(uid)
            self._news(uid)
        for item in items:
            self.on_event("ADDED", item)

    def on_event(self, type: str, obj: Json) -> None:
        """Informer handler."""
        uid = records.owner_uid(obj)
        record = records.read_record(obj)
        known = self._records.get(uid)
        if not uid or (known and known.version > record.version):
            return
        if type != "DELETED":
            self._records[uid] = record
            if known is None or _decisive(known) != _decisive(record):
                self._news(uid)
                self.on_record(uid)
        elif known and known.uid == record.uid:
            del self._records[uid]
            self._news(uid)

    def _news(self, uid: str) -> None:
        """A Workload says something else: of a Job that is to be decided on."""
        job = self._agent.jobs.get(uid)
        if job is None or (job.mirrored and not self._state.needed(job)):
            self.mark(uid)
        else:
            self._agent.state.touch(uid)

    async def run(self) -> None:
        """Write until cancelled."""
        await self._jobs.run()

    async def _look(self, uid: str) -> float | None:
        try:
            return await self._one(uid)
        except (Conflict, NotFound):
            return 0.2
        except ApiError as error:
            log.warning("workload.not_written", uid=uid, why=str(error))
            return 5.0

    async def _one(self, uid: str) -> float | None:
        """The next write for one Job; after how many seconds to look again, if at all."""
        job, record = self._agent.jobs.get(uid), self._records.get(uid)
        if job is None or job.terminating:
            for times in (self._written, self._ends, self._seen):
                times.pop(uid, None)
            self._state.orders.pop(uid, None)
            return None
        if record is None:
            if job.mirrored and job.finished:
                return None  # it is kept for its logs only
            waits = job.stage is Stage.RESERVED  # for check controllers, which look for a Workload
            if job.mirrored and not waits and (later := self._too_early(uid)) > 0:
                return later
            if job.finished and self._state.policies.retention.after_finished_s is not None:
                return None  # it may have been kept long enough
            await self._create(job)
            return 0.0
        if uid in self._state.orders:
            return await self._order(uid, record)
        return await self._write(job, record)

    async def _order(self, uid: str, record: Record) -> float:
        """Write what the rules of its life ask for, unless the Workload has changed since."""
        order, now = self._state.orders.pop(uid), stamp(self._state.settings.clock())
        verdict = order.verdict
        if order.version != record.version:
            self._state.touch(uid)
        elif isinstance(verdict, Readmit):
            await self._patch(record, departure.readmit_patch(record, *_why(verdict), now))
        elif record.life.target is None:
            await self._patch(record, departure.target_patch(record, *_why(verdict), now))
        else:
            version = {"resourceVersion": str(record.version)}
            await self._patch(record, {"metadata": version, "spec": {"active": False}}, "")
        return 0.0

    async def _write(self, job: WorkerJob, record: Record) -> float | None:
        """Bring the status in line with the Job, or delete what was kept long enough."""
        uid, now = job.uid, self._state.settings.clock()
        limit = job.max_execution_s
        if job.stage is Stage.WAITING and limit not in (None, record.life.max_execution_s):
            body = {"spec": {"maximumExecutionTimeSeconds": limit}}  # its label has changed
            await self._patch(record, body, "")
            return 0.0
        checks, delayed = self._state.needed(job), self._state.delayed(job)
        waiting = self._agent.waits.get(uid)
        fields = status.changes(job, record, waiting, checks, now, delayed=delayed)
        if not fields:
            return await self._expire(job, record, now)
        if (later := self._not_yet(job, record, fields)) is not None:
            return later
        if "conditions" in fields:
            fields["conditions"] = departed.merged(job, record, fields["conditions"], now)
        await self._patch(record, patches.status_patch(record, **fields))
        self._written[uid] = self._clock()
        return None

    async def _expire(self, job: WorkerJob, record: Record, now: float) -> float | None:
        at = None if job.mirrored else expiry(job, record, self._state.policies.retention)
        if at is None or now < at:
            return None if at is None else at - now
        if job.finished:
            key = record.key
            await self._client.delete(WORKLOADS, key.name, key.namespace, uid=record.uid)
        else:
            self._state.write(job, self._state.api.delete)
        return None

    def _not_yet(self, job: WorkerJob, record: Record, fields: Json) -> float | None:
        """After how many seconds to write something that is not worth a write of its own: the end
        of a copy, new numbers behind the reason for which a Job waits.
        """
        if job.finished and job.mirrored:
            due = self._ends.setdefault(job.uid, self._clock() + FINISH_AFTER_S)
        elif _only_numbers(record, fields):
            due = self._written.get(job.uid, 0.0) + REWRITE_S
        else:
            return None
        return due - self._clock() if self._clock() < due else None

    def _clock(self) -> float:
        return asyncio.get_running_loop().time()

    def _too_early(self, uid: str) -> float:
        """In how many seconds the Workload of a copy is due: when it has been there for a while and
        no others come.
        """
        now = self._clock()
        if uid not in self._seen:
            self._seen[uid] = self._newest = now
        quiet = min(self._newest + QUIET_S, self._seen[uid] + COPY_LATEST_S)
        return max(self._seen[uid] + COPY_AFTER_S, quiet) - now

    async def _create(self, job: WorkerJob) -> None:
        body = self._agent.body(job.uid)
        if body is None:
            return
        priority, ref = self._agent.priority(job)
        kind = self._state.kind_of(job)
        asked = kind.original(body)
        templates = {role.name: role.template for role in kind.roles(asked)}
        local = _as_local(job, asked)
        manifest = records.manifest(asked, local, kind.kind, priority, ref, templates)
        if self._state.settings.beside_manager:  # by this the manager leaves it alone
            manifest["metadata"]["labels"][Label.LOCAL.value] = "true"
        try:
            self.on_event("ADDED", await self._client.create(WORKLOADS, manifest))
        except AlreadyExists:
            name, namespace = manifest["metadata"]["name"], job.key.namespace
            self.on_event("ADDED", await self._client.get(WORKLOADS, name, namespace))

    async def _patch(self, record: Record, body: Json, part: str = "status") -> None:
        name, namespace = record.key.name, record.key.namespace
        written = await self._client.patch(WORKLOADS, name, body, namespace, subresource=part)
        self.on_event("MODIFIED", written)


def _as_local(job: WorkerJob, asked: Json) -> LocalJob:
    return LocalJob(
        job.uid, job.key, job.version, job.queue, job.priority_class, job.created,
        job.suspended, pod_sets=job.pod_sets,
        max_execution_s=batch_job.max_execution_seconds(asked),
    )  # fmt: skip


def _decisive(record: Record) -> tuple[object, ...]:
    return record.uid, record.life, record.evicted_at


def _why(verdict: Readmit | Deactivate) -> tuple[str, str]:
    return verdict.reason, verdict.message


def _only_numbers(record: Record, fields: Json) -> bool:
    """Whether all that is new is the message of a reason that is written already."""
    news: list[Json] = fields.get("conditions", [])
    if fields.keys() != {"conditions"} or len(news) != 1:
        return False
    kind, reason = news[0]["type"], news[0]["reason"]
    return bool(kind == ConditionType.QUOTA_RESERVED and reason == record.reason)
