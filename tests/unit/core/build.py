"""Short ways to write down queues, workloads and jobs in tests of the core."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hypothesis import settings

from federation.core.controls import Life
from federation.core.facts import Binding, LocalJob, ObjectKey, Record, RemoteJob
from federation.core.policies import Preemption, PreemptionPolicy, QueueingStrategy
from federation.core.types import (
    Admission,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    FlavorResource,
    Holder,
    LabelSelector,
    Pending,
    PodSet,
    PodSetAssignment,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)

FEW = settings(max_examples=40, deadline=None)
"""For properties: enough each time, since they run often."""

EVERY_NAMESPACE = LabelSelector()
KEY = ObjectKey("team", "job")
GPU = FlavorResource("f", "gpu")
NEVER, LOWER, NEWER, ANY = PreemptionPolicy
STRICT = QueueingStrategy.STRICT_FIFO


def quota(nominal: int, bl: int | None = None, ll: int | None = None) -> Quota:
    """Nominal quota, borrowing limit, lending limit."""
    return Quota(nominal, bl, ll)


def group(covered: str, **flavors: tuple[Quota, ...]) -> ResourceGroup:
    """`group("cpu memory", spot=(quota(4), quota(8)))`: quotas in the order of `covered`."""
    names = tuple(covered.split())
    return ResourceGroup(
        names,
        tuple(
            FlavorQuotas(name, dict(zip(names, quotas, strict=True)))
            for name, quotas in flavors.items()
        ),
    )


def cq(name: str, *groups: ResourceGroup, cohort: str = "", **more: Any) -> ClusterQueue:
    """A ClusterQueue that every namespace may use."""
    selector = more.pop("namespace_selector", EVERY_NAMESPACE)
    return ClusterQueue(name, groups, cohort, namespace_selector=selector, **more)


def one(name: str, amount: Quota | int, cohort: str = "", **more: Any) -> ClusterQueue:
    """A ClusterQueue with quota for one resource, `gpu`, in one flavor, `f`."""
    given = Quota(amount) if isinstance(amount, int) else amount
    return cq(name, group("gpu", f=(given,)), cohort=cohort, **more)


def co(name: str, amount: Quota | int = 0, parent: str = "") -> Cohort:
    """A cohort with quota for `gpu` in flavor `f`."""
    given = Quota(amount) if isinstance(amount, int) else amount
    return Cohort(name, parent, (group("gpu", f=(given,)),))


def evicts(
    within: PreemptionPolicy = NEVER,
    reclaim: PreemptionPolicy = NEVER,
    *,
    borrowing: bool = False,
    threshold: int | None = None,
) -> Preemption:
    """Preemption rules: withinClusterQueue, reclaimWithinCohort, borrowWithinCohort."""
    return Preemption(within, reclaim, borrowing, threshold)


_POD_FIELDS = ("node_selector", "affinity", "tolerations", "min_count", "topology")


def pods(count: int = 1, name: str = "main", **more: Any) -> PodSet:
    """Pods that request `more`; keys that are no resource are fields of PodSet."""
    fields = {k: more.pop(k) for k in _POD_FIELDS if k in more}
    return PodSet(name, count, more, **fields)


def item(uid: str = "u", queue: str = "q", *sets: PodSet, **more: Any) -> Pending:
    """A waiting workload; by default one pod that requests one gpu."""
    fields: dict[str, Any] = {
        "namespace": "team",
        "name": uid,
        "local_queue": "lq",
        "priority": 0,
        "created": 1000.0,
        **more,
    }
    return Pending(uid=uid, cluster_queue=queue, pod_sets=sets or (pods(gpu=1),), **fields)


def job(
    uid: str,
    queue: str = "q",
    amount: int | Mapping[str, int] = 1,
    priority: int = 0,
    at: float = 1000.0,
    **more: Any,
) -> Pending:
    """A waiting workload of one pod that requests so many gpus, or so much of each resource."""
    requests = {"gpu": amount} if isinstance(amount, int) else amount
    return item(uid, queue, PodSet("main", 1, requests), priority=priority, created=at, **more)


def holds(
    uid: str,
    queue: str = "q",
    amount: int | Mapping[str, int] = 1,
    priority: int = 0,
    at: float = 100.0,
    **more: Any,
) -> Holder:
    """A workload that holds so many gpus of flavor f, or `{"flavor/resource": amount}`.

    `at` is when it was created, and reserved its quota unless `reserved` is given.
    """
    amounts = {"f/gpu": amount} if isinstance(amount, int) else amount
    usage = {FlavorResource(*key.split("/")): n for key, n in amounts.items()}
    sets = [
        PodSetAssignment(fr.flavor, 1, {fr.resource: fr.flavor}, {fr.resource: n})
        for fr, n in usage.items()
    ]
    fields: dict[str, Any] = {
        "namespace": "team",
        "name": uid,
        "local_queue": "lq",
        "reserved": at,
        **more,
    }
    return Holder(
        uid=uid,
        priority=priority,
        created=at,
        admission=Admission(queue, tuple(sets)),
        usage=usage,
        **fields,
    )


def flavors(*names: str) -> dict[str, ResourceFlavor]:
    """Plain flavors by name."""
    return {name: ResourceFlavor(name) for name in names}


def admission(queue: str = "q", amount: int = 1, flavor: str = "f") -> Admission:
    """One pod set with gpus of one flavor."""
    return Admission(queue, (PodSetAssignment("main", 1, {"gpu": flavor}, {"gpu": amount}),))


def local(**more: Any) -> LocalJob:
    """The job on the management cluster, suspended and new."""
    fields: dict[str, Any] = {
        "uid": "u",
        "key": KEY,
        "version": 10,
        "queue": "lq",
        "priority_class": "",
        "created": 1000.0,
        "suspended": True,
        "pod_sets": (pods(gpu=1),),
        **more,
    }
    return LocalJob(**fields)


def record(bound: str = "", attempt: int = 0, **more: Any) -> Record:
    """The Workload; `bound` names the cluster it is bound to. Fields of Life go there."""
    ours = {f.name for f in dataclasses.fields(Life)}
    life = Life(**{key: more.pop(key) for key in list(more) if key in ours})
    fields: dict[str, Any] = {
        "life": life,
        "uid": "w",
        "key": ObjectKey("team", "job-job-12345"),
        "version": 20,
        "attempt": attempt,
        "binding": Binding(bound, attempt, 1, "2026-01-01T00:00:00Z") if bound else None,
        "admission": admission() if bound else None,
        **more,
    }
    return Record(**fields)


def but(known: Record, **life: Any) -> Record:
    """The Workload with another life."""
    return dataclasses.replace(known, life=dataclasses.replace(known.life, **life))


def copy(cluster: str = "a", attempt: int = 1, **more: Any) -> RemoteJob:
    """A copy on a worker, suspended as it was offered."""
    fields: dict[str, Any] = {
        "key": KEY,
        "uid": f"copy-{cluster}-{attempt}",
        "version": 30,
        "suspended": True,
        "epoch": 1,
        **more,
    }
    return RemoteJob(cluster=cluster, attempt=attempt, **fields)


def behind(ours: LocalJob, theirs: RemoteJob) -> bool:
    """Whether the status differs: the simplest comparison a job kind could have."""
    return bool(theirs.status) and dict(ours.status) != dict(theirs.status)


def same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Equal where it matters: zero is the same as absent."""
    keys = left.keys() | right.keys()
    return all(left.get(key, 0) == right.get(key, 0) for key in keys)
