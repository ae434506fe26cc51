"""Watches on all clusters that mark in a timeline what they see. It judges nothing.

What a mark says of a copy or a Lease is what stands there; the phase of a cluster is the one thing
that is Fedq's own word, as the drill asks when people were told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from federation.api.names import FEDQ_NAMESPACE, FENCED, Mirror
from federation.edge.informer import Informer, Select
from federation.edge.kube import KubeClient
from federation.edge.resources import EVENTS, JOBS, LEASES, MULTIKUEUE_CLUSTERS, WORKLOADS
from fedq.drill.timeline import Timeline, What

Json = dict[str, Any]
OLDEST_S = 15.0
"""A renewal is shown within that time; an agent whose clock was set otherwise is not believed."""
MANAGER_LEASE = "fedq-manager"
"""By which replicas of the manager elect a leader."""


class Witness:
    """Marks changes of the objects that watches bring; `jobs` maps UIDs to names of the jobs."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.copies: dict[tuple[str, str], Json] = {}
        """(cluster, name of the job) → its copy as it is now."""
        self.workloads: dict[str, Json] = {}
        """Name of the job → its Workload as it is now."""
        self.locals: dict[str, Json] = {}
        """Name of the job → the Job on the management cluster."""
        self.clusters: dict[str, Json] = {}
        self._renewals: dict[str, str] = {}
        self._epochs: dict[str, str] = {}
        self._holders: dict[str, str] = {}
        self._events: set[str] = set()

    def informers(
        self, clients: dict[str, KubeClient], management: str, namespace: str
    ) -> Iterable[Informer]:
        """The watches, to be run by the caller; `clients` by cluster."""
        own = clients[management]
        space = Select(namespace)
        yield Informer(own, MULTIKUEUE_CLUSTERS, _Handler(self.see_cluster))
        yield Informer(own, LEASES, _Handler(self.see_lease), select=Select(FEDQ_NAMESPACE))
        yield Informer(own, WORKLOADS, _Handler(self.see_workload), select=space)
        yield Informer(own, JOBS, _Handler(self.see_local), select=space)
        yield Informer(own, EVENTS, _Handler(self.see_event), select=space)
        for worker, client in clients.items():
            if worker != management:
                see = _Handler(partial(self.see_copy, worker), partial(self.lose_copy, worker))
                yield Informer(client, JOBS, see, select=space)

    def see_cluster(self, obj: Json) -> None:
        """A MultiKueueCluster."""
        name = obj["metadata"]["name"]
        before = phase(self.clusters.get(name))
        self.clusters[name] = obj
        if (now := phase(obj)) != before:
            self.timeline.mark(What.PHASE, name, detail=now)

    def see_lease(self, obj: Json) -> None:
        """A Lease of a worker cluster, or another one of that namespace, which marks nothing."""
        name, spec = obj["metadata"]["name"], obj.get("spec") or {}
        notes = obj["metadata"].get("annotations") or {}
        holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        if name == MANAGER_LEASE and holder != self._holders.get(name):
            self.timeline.mark(What.LEADER, detail=holder)
            self._holders[name] = holder
        if Mirror.EPOCH.value not in notes:
            return
        if holder == FENCED and self._holders.get(name) != FENCED:
            self.timeline.mark(What.FENCED, name)
        elif holder != FENCED and renewed != self._renewals.get(name, renewed):
            # The first look tells of an earlier one. A busy machine may show one late, which would
            # be counted from too late: when it was sent stands in it.
            self.timeline.mark(What.RENEWED, name, age=_age(renewed))
        if self._epochs.get(name) not in (None, notes[Mirror.EPOCH.value]):
            self.timeline.mark(What.EPOCH, name, detail=notes[Mirror.EPOCH.value])
        self._holders[name], self._renewals[name] = holder, renewed
        self._epochs[name] = notes[Mirror.EPOCH.value]

    def see_workload(self, obj: Json) -> None:
        """A Workload on the management cluster."""
        owners = obj["metadata"].get("ownerReferences") or []
        if not owners:
            return
        job = owners[0]["name"]
        before, self.workloads[job] = self.workloads.get(job), obj
        binding = bound(obj)
        if binding and binding != bound(before):
            self.timeline.mark(What.BOUND, binding[0], job, f"attempt {binding[1]}")
        reason = evicted(obj)
        if reason and reason != evicted(before):
            self.timeline.mark(What.EVICTED, (bound(before) or ("", 0))[0], job, reason)

    def see_local(self, obj: Json) -> None:
        """A Job on the management cluster."""
        name = obj["metadata"]["name"]
        before, self.locals[name] = self.locals.get(name), obj
        if active(obj) and not active(before):
            self.timeline.mark(What.ACTIVE, job=name)
        if finished(obj) and not finished(before):
            self.timeline.mark(What.FINISHED, job=name, detail=finished(obj))

    def see_copy(self, cluster: str, obj: Json) -> None:
        """A copy on a worker."""
        name = obj["metadata"]["name"]
        before = self.copies.get((cluster, name))
        self.copies[cluster, name] = obj
        if before is None or before["metadata"]["uid"] != obj["metadata"]["uid"]:
            self.timeline.mark(What.OFFERED, cluster, name, f"attempt {attempt(obj)}")
            before = None
        if active(obj) and not active(before):
            self.timeline.mark(What.ACTIVE, cluster, name)
        was_up = before is not None and not before["spec"].get("suspend")
        is_up = not obj["spec"].get("suspend")
        if is_up and not was_up:
            self.timeline.mark(What.STARTED, cluster, name, f"attempt {attempt(obj)}")
        elif was_up and not is_up:
            self.timeline.mark(What.STOPPED, cluster, name, note(obj, Mirror.HELD) or "")
        if before is not None and (old := note(before, Mirror.EPOCH)) != note(obj, Mirror.EPOCH):
            self.timeline.mark(What.ADOPTED, cluster, name, f"{old} to {note(obj, Mirror.EPOCH)}")

    def lose_copy(self, cluster: str, obj: Json) -> None:
        """A copy that is gone."""
        name = obj["metadata"]["name"]
        if self.copies.pop((cluster, name), None) is not None:
            self.timeline.mark(What.REMOVED, cluster, name, f"attempt {attempt(obj)}")

    def see_event(self, obj: Json) -> None:
        """An Event about a job: each Warning once, however often it is repeated."""
        uid = obj["metadata"]["uid"]
        if obj.get("type") == "Warning" and uid not in self._events:
            self._events.add(uid)
            about = (obj.get("involvedObject") or {}).get("name", "")
            detail = f"{obj.get('reason', '')}: {obj.get('message', '')}"
            self.timeline.mark(What.WARNED, job=about, detail=detail)


class _Handler:
    """Hands every object on; a list that lacks a known copy is a deletion that was not seen."""

    def __init__(
        self, seen: Callable[[Json], None], gone: Callable[[Json], None] | None = None
    ) -> None:
        self._seen, self._gone = seen, gone
        self._known: dict[str, Json] = {}

    def on_list(self, items: Sequence[Json], resource_version: str) -> None:
        present = {item["metadata"]["uid"] for item in items}
        for uid in self._known.keys() - present:
            self._lose(self._known[uid])
        for item in items:
            self.on_event("ADDED", item)

    def on_event(self, type: str, obj: Json) -> None:
        if type == "DELETED":
            self._lose(obj)
        else:
            self._known[obj["metadata"]["uid"]] = obj
            self._seen(obj)

    def _lose(self, obj: Json) -> None:
        self._known.pop(obj["metadata"]["uid"], None)
        if self._gone is not None:
            self._gone(obj)


def _age(renewed: str) -> float:
    """How many seconds ago an agent of this machine sent a renewal; 0 if its clock does not say."""
    try:
        age = time.time() - datetime.fromisoformat(renewed).timestamp()
    except ValueError:
        return 0.0
    return age if 0 <= age <= OLDEST_S else 0.0


def phase(obj: Json | None) -> str:
    """The phase in which a cluster is shown; empty when it has none."""
    status = (obj or {}).get("status") or {}
    return str((status.get("fedq") or {}).get("phase", ""))


def bound(obj: Json | None) -> tuple[str, int] | None:
    """(cluster, attempt) of a Workload's binding; None when it has none."""
    binding = ((obj or {}).get("status") or {}).get("fedq") or {}
    return (binding["cluster"], int(binding["attempt"])) if binding.get("cluster") else None


def evicted(obj: Json | None) -> str:
    """Reason of a Workload's eviction, while it holds."""
    for condition in ((obj or {}).get("status") or {}).get("conditions") or ():
        if condition["type"] == "Evicted" and condition["status"] == "True":
            return str(condition["reason"])
    return ""


def finished(obj: Json | None) -> str:
    """`Complete` or `Failed` for a Job that has ended, else empty."""
    for condition in ((obj or {}).get("status") or {}).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return str(condition["type"])
    return ""


def active(obj: Json | None) -> bool:
    """Whether the status of a Job counts a pod that has not ended."""
    return bool(((obj or {}).get("status") or {}).get("active"))


def note(obj: Json, key: Mirror) -> str | None:
    """An annotation of a copy."""
    value = (obj["metadata"].get("annotations") or {}).get(key.value)
    return None if value is None else str(value)


def attempt(obj: Json) -> int:
    """Which attempt a copy is; 0 when it says nothing."""
    text = note(obj, Mirror.ATTEMPT) or ""
    return int(text) if text.isdigit() else 0
