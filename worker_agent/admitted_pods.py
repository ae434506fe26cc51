"""Lets the pods of admitted copies go, each as it appears, of kinds whose pod templates stay as
they were created: Volcano's Job.

Pods are born with a gate, also those that take the place of others. What each gets is noted on its
copy with the admission, so that a crash in between is of no consequence.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import structlog

from federation.api.names import PODS_OF_COPIES
from federation.edge.errors import ApiError, Conflict, NotFound
from federation.edge.informer import Calls, Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, Json
from federation.edge.services import vital
from federation.jobs.kinds.scaled import waits
from worker_agent.agent import Agent
from worker_agent.facts import Stage, WorkerJob
from worker_agent.worklist import Worklist

log = structlog.get_logger(__name__)

AT_ONCE: Final = 16
RETRY_S: Final = 1.0
"""Nothing announces that the API server takes a write, or that a copy need not stop after all."""
SELECT: Final = Select(label_selector=f"{PODS_OF_COPIES},volcano.sh/job-name")


class AdmittedPods:
    """Pods are watched once there is a job of such a kind."""

    def __init__(self, client: KubeClient, agent: Agent) -> None:
        self._client, self._agent = client, agent
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._jobs = Worklist(self._look)
        self._wanted = asyncio.Event()
        self._waiting: defaultdict[str, dict[str, Json]] = defaultdict(dict)
        """Pods with the gate, by the UID of their job and their own."""
        self._told, agent.state.on_change = agent.state.on_change, self._changed
        calls = Calls(self._listed, self._seen, self._gone)
        self.informer = Informer(client, PODS, calls, select=SELECT)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(vital(self._jobs.run(), "admitted-pods/jobs"))
            await self._wanted.wait()
            tasks.create_task(vital(self.informer.run(), "informer/admitted-pods"))

    def _changed(self, uid: str) -> None:
        self._told(uid)
        job = self._agent.jobs.get(uid)
        if job is not None and self._agent.state.kind_of(job).lets_go:
            self._wanted.set()
            if uid in self._waiting:
                self._jobs.mark(uid)

    # Pods: informer handler

    def _listed(self, pods: Sequence[Json], version: str) -> None:
        self._waiting.clear()
        for pod in pods:
            self._seen(pod)

    def _seen(self, pod: Json) -> None:
        job, uid = _job_of(pod), pod["metadata"]["uid"]
        if not waits(pod) or "deletionTimestamp" in pod["metadata"]:
            self._gone(pod)
        elif job:
            self._waiting[job][uid] = pod
            self._jobs.mark(job)

    def _gone(self, pod: Json) -> None:
        job, uid = _job_of(pod), pod["metadata"]["uid"]
        if job in self._waiting:
            self._waiting[job].pop(uid, None)
            if not self._waiting[job]:
                del self._waiting[job]

    # Letting go

    async def _look(self, uid: str) -> float | None:
        """Write to all pods of a job that may go; see `Look`."""
        job, body = self._agent.jobs.get(uid), self._agent.body(uid)
        if job is None or body is None or uid not in self._waiting or not self._runs(job):
            return None
        if self._must_stop(job):
            return RETRY_S
        kind = self._agent.state.kind_of(job)
        found = [(pod, kind.pod_patch(body, pod)) for pod in self._waiting[uid].values()]
        writes = (self._let_go(uid, pod, patch) for pod, patch in found if patch is not None)
        return RETRY_S if not all(await asyncio.gather(*writes)) else None

    def _runs(self, job: WorkerJob) -> bool:
        """Whether it is to run on: nobody is about to stop it."""
        stops = job.terminating or job.held or job.eviction is not None
        return job.stage is Stage.RUNNING and not (stops or job.uid in self._agent.state.evicting)

    def _must_stop(self, job: WorkerJob) -> bool:
        state = self._agent.state
        now, lease = state.settings.boottime(), state.lease()
        return lease.must_stop(job.policy, job.rerun_after, job.epoch, now)

    async def _let_go(self, uid: str, pod: Json, patch: Json) -> bool:
        """One pod of a job; False if it has to be tried again."""
        meta = pod["metadata"]
        try:
            async with self._limit:
                job = self._agent.jobs.get(uid)  # its turn may come late
                if job is None or not self._runs(job) or self._must_stop(job):
                    return False
                self._seen(await self._client.patch(PODS, meta["name"], patch, meta["namespace"]))
        except (Conflict, NotFound):
            pass  # the watch tells what became of it
        except ApiError as error:
            log.warning("pod.not_let_go", pod=f"{meta['namespace']}/{meta['name']}", why=str(error))
            return False
        return True


def _job_of(pod: Json) -> str:
    """The UID of the job that controls it; '' if none does."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")
