"""The Workload beside each Job on the worker, for people and tools: never decided from.

Written after the decision, off its path. A copy gets one when it has been there for some seconds:
what ends sooner is gone, with its copy, before anybody could look. For the same reason the end of
a copy is written only when the manager has not removed it after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import structlog

from federation.api import record as records
from federation.api.meta import wire_time
from federation.api.names import ConditionType
from federation.core.facts import LocalJob, Record
from federation.edge.errors import AlreadyExists, ApiError, Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import WORKLOADS, Json
from federation.jobs import batch_job
from federation.jobs.admission_note import original
from worker_agent import status
from worker_agent.agent import Agent
from worker_agent.facts import WorkerJob

log = structlog.get_logger(__name__)

WRITERS = 4
COPY_AFTER_S = 20.0
FINISH_AFTER_S = 10.0
REWRITE_S = 10.0


class Workloads:
    """Brings Workloads in line with what the agent decided."""

    def __init__(self, client: KubeClient, agent: Agent) -> None:
        self._client, self._agent = client, agent
        self._records: dict[str, Record] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: set[str] = set()
        self._writing: set[str] = set()
        self._again: set[str] = set()
        self._written: dict[str, float] = {}
        self._ends: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        agent.state.on_change = self.mark
        agent.state.workload_uid = self.uid_of

    def mark(self, uid: str) -> None:
        """Have a Job's Workload looked at."""
        if uid not in self._waiting:
            self._waiting.add(uid)
            self._queue.put_nowait(uid)

    def uid_of(self, job_uid: str) -> str:
        """UID of a Job's Workload; '' if there is none yet."""
        record = self._records.get(job_uid)
        return record.uid if record else ""

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        """Informer handler."""
        present = {records.owner_uid(item) for item in items}
        for uid in self._records.keys() - present:
            self._records.pop(uid)
            self.mark(uid)
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
        elif known and known.uid == record.uid:
            del self._records[uid]
            self.mark(uid)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._writer())

    async def _writer(self) -> None:
        while True:
            uid = await self._queue.get()
            self._waiting.discard(uid)
            if uid in self._writing:  # another writer has it, and looks again when it is done
                self._again.add(uid)
                continue
            self._writing.add(uid)
            try:
                again = await self._one(uid)
            except (Conflict, NotFound):
                again = 0.2
            except ApiError as error:
                log.warning("workload.not_written", uid=uid, why=str(error))
                again = 5.0
            self._writing.discard(uid)
            if uid in self._again:
                self._again.discard(uid)
                again = 0.0
            if again is not None:
                asyncio.get_running_loop().call_later(again, self.mark, uid)

    async def _one(self, uid: str) -> float | None:
        """The next write for one Job; after how many seconds to look again, if at all."""
        job, record = self._agent.jobs.get(uid), self._records.get(uid)
        if job is None or job.terminating:
            for times in (self._written, self._ends, self._seen):
                times.pop(uid, None)
            return None
        if record is None:
            if job.mirrored and (young := self._first_seen(uid) + COPY_AFTER_S - self._clock()) > 0:
                return young
            await self._create(job)
            return 0.0
        fields = status.changes(job, record, self._agent.waits.get(uid))
        if not fields:
            return None
        if (later := self._not_yet(job, record, fields)) is not None:
            return later
        if "conditions" in fields:
            now = wire_time(datetime.now(UTC))
            fields["conditions"] = records.with_conditions(record.status, fields["conditions"], now)
        await self._patch(record, records.status_patch(record, **fields))
        self._written[uid] = self._clock()
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

    def _first_seen(self, uid: str) -> float:
        return self._seen.setdefault(uid, self._clock())

    async def _create(self, job: WorkerJob) -> None:
        body = self._agent.body(job.uid)
        if body is None:
            return
        priority, ref = self._agent.priority(job)
        asked = original(body)
        manifest = records.manifest(asked, _as_local(job, asked), batch_job.KIND, priority, ref)
        try:
            self.on_event("ADDED", await self._client.create(WORKLOADS, manifest))
        except AlreadyExists:
            name, namespace = manifest["metadata"]["name"], job.key.namespace
            self.on_event("ADDED", await self._client.get(WORKLOADS, name, namespace))

    async def _patch(self, record: Record, body: Json) -> None:
        name, namespace = record.key.name, record.key.namespace
        written = await self._client.patch(WORKLOADS, name, body, namespace, subresource="status")
        self.on_event("MODIFIED", written)


def _as_local(job: WorkerJob, asked: Json) -> LocalJob:
    return LocalJob(
        job.uid, job.key, job.version, job.queue, job.priority_class, job.created,
        job.suspended, pod_sets=job.pod_sets,
        max_execution_s=batch_job.max_execution_seconds(asked),
    )  # fmt: skip


def _only_numbers(record: Record, fields: Json) -> bool:
    """Whether all that is new is the message of a reason that is written already."""
    news: list[Json] = fields.get("conditions", [])
    if fields.keys() != {"conditions"} or len(news) != 1:
        return False
    kind, reason = news[0]["type"], news[0]["reason"]
    return bool(kind == ConditionType.QUOTA_RESERVED and reason == record.reason)
