"""The place of a Job in the queues of this cluster, or why it has none."""

from __future__ import annotations

from collections.abc import Callable

from federation.core.holding import Lease
from federation.core.policies import RequeueTimestamp, StopPolicy
from federation.core.reasons import Reason
from federation.core.types import LocalQueue
from federation.core.wishes import Disconnect, grace_problem
from federation.edge.catalog import Catalog
from federation.edge.resources import Json
from worker_agent.book import Book
from worker_agent.facts import WorkerJob
from worker_agent.texts import Waiting
from worker_agent.views import Standing


class Standings:
    """Looks Jobs up in the queue objects and priority classes as they are now."""

    def __init__(
        self,
        catalog: Catalog,
        book: Book,
        lease: Callable[[], Lease],
        timestamp: RequeueTimestamp,
        elsewhere: Callable[[LocalQueue], str] = lambda door: "",
    ) -> None:
        """`elsewhere` says why the jobs of a LocalQueue are not this agent's."""
        self._catalog, self._book, self._lease = catalog, book, lease
        self._timestamp, self._elsewhere = timestamp, elsewhere

    def find(self, job: WorkerJob) -> Standing | Waiting:
        """Where it stands in line, or why it cannot be queued at all."""
        local_queue = self._catalog.local_queues.get((job.key.namespace, job.queue))
        if (text := self._problem(job)) or local_queue is None:
            stopped = local_queue is not None and local_queue.stop is not StopPolicy.NONE
            reason = Reason.SUSPENDED if stopped else Reason.MISCONFIGURED
            return Waiting(reason.value, text)
        return Standing(local_queue.cluster_queue, self.priority(job)[0], self._timestamp)

    def priority(self, job: WorkerJob) -> tuple[int, Json | None]:
        """A copy carries the manager's priority; a local Job's class is looked up here, and gives
        the priorityClassRef too. If the class is gone, what it was at the start of the Job stands.
        """
        if job.mirrored:
            return job.priority, None
        try:
            return self._catalog.priority(job.priority_class, job.pod_class)
        except KeyError:
            return job.priority, None

    def outdated(self, job: WorkerJob) -> str:
        """Why a copy must not be started any more, whatever it was promised; '' if it may."""
        if self._book.superseded(job):
            return f"attempt {job.attempt} is superseded, or has been here before"
        lease = self._lease()
        if job.mirrored and job.epoch < lease.epoch:
            return f"epoch {job.epoch} is over; this cluster is in epoch {lease.epoch}"
        return ""

    def _problem(self, job: WorkerJob) -> str:
        return (
            self.outdated(job)
            or job.problem
            or self._grace_problem(job, self._lease())
            or self._catalog.queue_problem(job.key.namespace, job.queue)
            or self._elsewhere(self._catalog.local_queues[job.key.namespace, job.queue])
            or self._class_problem(job)
        )

    @staticmethod
    def _grace_problem(job: WorkerJob, lease: Lease) -> str:
        if not job.mirrored:
            return ""
        disconnect = Disconnect(job.policy, job.rerun_after)
        return grace_problem(disconnect, job.grace_s, lease.terms.kill)

    def _class_problem(self, job: WorkerJob) -> str:
        if job.mirrored:
            return ""
        try:
            self._catalog.priority(job.priority_class, job.pod_class)
        except KeyError:
            kind = "WorkloadPriorityClass" if job.priority_class else "PriorityClass"
            name = job.priority_class or job.pod_class
            return f"{kind} {name} does not exist: create it, or name another one"
        return ""
