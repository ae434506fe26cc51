"""What runs on clusters that are no rig: jobs by attempt, and their pods as the workers have them.

Pods are known by their UID, and how often their containers were started stands in their status,
written by kubelets: nothing here is Fedq's own word but which job is bound where.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from federation.api.names import PODS_OF_COPIES, Mirror
from federation.api.record import owner_uid, read_record
from federation.edge.errors import ApiError
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, WORKLOADS, Json
from federation.jobs.pod_state import ENDED
from fedq import members
from fedq.connect import Cluster
from fedq.drill.result import Expectations
from fedq.errors import CommandError

MOST = 5
"""So many names are told of each finding."""


@dataclass(frozen=True, slots=True)
class RealJob:
    """A job that is bound: `where` is its cluster and attempt."""

    name: str
    cluster: str
    where: str
    over: bool = False


@dataclass(frozen=True, slots=True)
class RealPod:
    """A pod of a job. `job` is the UID of the object on the management cluster, `restarts` those of
    all its containers, `state` its phase, or `being deleted`.
    """

    name: str
    cluster: str
    job: str
    restarts: int
    state: str

    @property
    def runs(self) -> bool:
        """Whether it has not come to its end."""
        return self.state not in ENDED


@dataclass(frozen=True, slots=True)
class Inventory:
    """Jobs by UID of the object on the management cluster, pods by UID."""

    jobs: dict[str, RealJob] = field(default_factory=dict)
    pods: dict[str, RealPod] = field(default_factory=dict)

    def __str__(self) -> str:
        running = [pod for pod in self.pods.values() if pod.runs]
        where = sorted({pod.cluster or "this cluster" for pod in running})
        on = f" on {', '.join(where)}" if where else ""
        return f"{len(running)} pods of {len({pod.job for pod in running})} jobs{on}"


async def take(cluster: Cluster, *, behind: bool) -> Inventory:
    """What is there now: jobs that are bound, and the pods on the clusters where they are; or, if
    the jobs are not managed from here (`behind` is false), the pods of this cluster itself.

    Raises CommandError if the pods of one cannot be read.
    """
    if not behind:
        return Inventory({}, await _pods_of(cluster.client, ""))
    jobs = {}
    for workload in (await cluster.client.list(WORKLOADS)).items:
        record, meta = read_record(workload), workload["metadata"]
        if (bound := record.binding) is not None:
            where = f"{bound.cluster}, attempt {bound.attempt}"
            name = f"{meta['namespace']}/{meta['name']}"
            jobs[owner_uid(workload)] = RealJob(name, bound.cluster, where, record.finished)
    used = sorted({job.cluster for job in jobs.values() if not job.over})
    pods: dict[str, RealPod] = {}
    for member in await members.of(cluster, used) if used else ():
        try:
            async with member.client() as client:
                pods |= await _pods_of(client, member.name)
        except ApiError as error:
            raise CommandError(
                f"the pods of cluster {member.name} cannot be read",
                str(error),
                f"What runs is judged by them: have a context called {member.name} in your"
                " kubeconfig that may list pods there.",
            ) from error
    return Inventory(jobs, pods)


async def _pods_of(client: KubeClient, cluster: str) -> dict[str, RealPod]:
    found = (await client.list(PODS, label_selector=PODS_OF_COPIES)).items
    return {pod["metadata"]["uid"]: _read(pod, cluster) for pod in found}


def _read(pod: Json, cluster: str) -> RealPod:
    meta, status = pod["metadata"], pod.get("status") or {}
    kinds = ("initContainerStatuses", "containerStatuses")
    started = [int(one.get("restartCount", 0)) for kind in kinds for one in status.get(kind) or ()]
    state = str(status.get("phase", ""))
    if meta.get("deletionTimestamp") and state not in ENDED:
        state = "being deleted"
    uid = (meta.get("annotations") or {}).get(Mirror.LOCAL_UID.value, "")
    return RealPod(f"{meta['namespace']}/{meta['name']}", cluster, uid, sum(started), state)


def compare(before: Inventory, after: Inventory, expect: Expectations) -> None:
    """State that nothing of what ran moved, stopped or started again. A job that came to its end
    meanwhile may have pods that are gone.
    """
    for uid, job in before.jobs.items():
        if job.over:
            continue
        now = after.jobs.get(uid)
        found = "its Workload is gone: the job was deleted, or lost" if now is None else now.where
        expect.equal(f"cluster and attempt of {job.name}", found, job.where)
    over = {uid for uid, job in after.jobs.items() if job.over}
    ran = {uid: pod for uid, pod in before.pods.items() if pod.runs and pod.job not in over}
    there = {uid: after.pods.get(uid) for uid in ran}
    gone = [ran[uid].name for uid, now in there.items() if now is None]
    if before.jobs:
        _none(expect, "pods that ran before and are gone", gone)
    elif gone:  # a worker does not tell whose jobs have ended since
        expect.remark(f"gone since, as with jobs that have ended: {_some(gone)}")
    left = [f"{now.name} ({now.state})" for now in filter(None, there.values()) if _broken(now)]
    _none(expect, "pods that ran before and failed or are being deleted", left)
    again = [
        f"{now.name} ({now.restarts - ran[uid].restarts} times)"
        for uid, now in there.items()
        if now is not None and now.restarts > ran[uid].restarts
    ]
    _none(expect, "pods with containers that were started again", again)
    homes = {pod.job: pod.cluster for pod in ran.values()}
    astray = [
        f"{pod.name} on {pod.cluster}"
        for uid, pod in after.pods.items()
        if uid not in before.pods and pod.cluster != homes.get(pod.job, pod.cluster)
    ]
    _none(expect, "pods of those jobs that started on another cluster", astray)
    fresh = sum(uid not in before.pods and pod.job in homes for uid, pod in after.pods.items())
    expect.remark(
        f"{before} ran before; {fresh} more pods of those jobs were started meanwhile"
        if ran
        else "no pod of a job ran: this shows only what became of Fedq itself"
    )


def _broken(pod: RealPod) -> bool:
    return pod.state in ("Failed", "being deleted")


def _none(expect: Expectations, what: str, names: Sequence[str]) -> None:
    expect.true(f"no {what}", not names, _some(names))


def _some(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - MOST} more" if len(found) > MOST else ""
    return f"{', '.join(found[:MOST])}{more}"
