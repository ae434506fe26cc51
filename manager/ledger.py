"""What one cluster is known to owe and to have free: its report, corrected by our own offers.

A report says up to which Job version it counts. An offer created later is not in it yet and is
subtracted; a copy that ended later is still in it and is added back. Versions of one resource on
one API server are comparable (Kubernetes 1.35 and later say so).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from federation.api.worker_report import WorkerReport, WorkerReportStatus
from federation.core.dispatch import Amount, Choice, ClusterView, WorkerQueue
from federation.core.types import FlavorResource, Usage
from federation.edge.resources import Json


@dataclass(frozen=True, slots=True)
class _Entry:
    queue: str
    usage: Usage
    created: int | None = None
    ended: int | None = None


class Ledger:
    """Offers to one cluster by local UID, and the last report of its agent."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._entries: dict[str, _Entry] = {}
        self._pending: dict[str, Usage] = {}
        self._counted = 0
        self._queues: dict[str, WorkerQueue] = {}
        self._local_queues: dict[tuple[str, str], str] = {}
        self.reported = False
        self.unreadable = ""
        """Why the last report cannot be used; '' if it can."""

    def report(self, obj: Json) -> None:
        """Take over a WorkerReport. It comes from another cluster, which may write anything."""
        try:
            self._take(WorkerReport.from_wire(obj).status)
        except ValueError as error:  # pydantic's too
            self.unreadable = f"the WorkerReport cannot be read: {str(error)[:500]}"
            return
        self.unreadable = ""

    def _take(self, status: WorkerReportStatus) -> None:
        self._counted = int(status.counted_resource_version or 0)
        self._local_queues = {(q.namespace, q.name): q.cluster_queue for q in status.local_queues}
        self._queues = {
            queue.name: WorkerQueue(
                queue.name,
                queue.active,
                {
                    FlavorResource(r.flavor, r.resource): Amount(int(r.nominal), int(r.available))
                    for r in queue.resources
                },
            )
            for queue in status.cluster_queues
        }
        self.reported = True
        settled = [uid for uid, e in self._entries.items() if e.ended and e.ended <= self._counted]
        for uid in settled:
            del self._entries[uid]
        self._pending = {}
        for entry in self._entries.values():
            self._count(entry, 1)

    def _count(self, entry: _Entry | None, sign: int) -> None:
        """Add an entry to what the report does not say, or take it out."""
        if entry is None:
            return
        uncounted = entry.created is None or entry.created > self._counted
        sign *= uncounted - (entry.ended is not None)
        if sign:
            charged = self._pending.setdefault(entry.queue, {})
            for key, amount in entry.usage.items():
                charged[key] = charged.get(key, 0) + sign * amount

    def _put(self, uid: str, entry: _Entry | None) -> None:
        self._count(self._entries.pop(uid, None), -1)
        self._count(entry, 1)
        if entry is not None:
            self._entries[uid] = entry

    def offer(self, uid: str, choice: Choice) -> None:
        """An offer is about to be made."""
        self._put(uid, _Entry(choice.queue, choice.usage))

    def created(self, uid: str, version: int) -> None:
        """The copy exists since `version`."""
        entry = self._entries.get(uid)
        if entry is not None and entry.created is None:
            self._put(uid, replace(entry, created=version))

    def ended(self, uid: str, version: int) -> None:
        """The copy uses nothing since `version`."""
        entry = self._entries.get(uid)
        if entry is None or entry.ended is not None:
            return
        if entry.created is None or version <= self._counted:
            self._put(uid, None)
        else:
            self._put(uid, replace(entry, ended=version))

    def view(self, problem: str) -> ClusterView:
        """The cluster for the dispatcher; `problem` is '' when it takes new work."""
        pending = {
            queue: {key: amount for key, amount in charged.items() if amount}
            for queue, charged in self._pending.items()
        }
        return ClusterView(self._cluster, problem, self._queues, self._local_queues, pending)
