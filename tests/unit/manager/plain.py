"""A federation with clusters that plain Kueue runs: the test plays Kueue there."""

from __future__ import annotations

import base64
from typing import Any

from federation.api.names import FEDQ_NAMESPACE, Annotation, Mirror, Trait
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    SECRETS,
    WORKER_REPORTS,
    WORKLOADS,
)
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, custom

Json = dict[str, Any]
T0 = "2026-01-01T00:00:00Z"


class PlainFederation(Federation):
    """As Federation; of the names those that begin with `k` are run by plain Kueue."""

    def _join(self, name: str) -> None:
        if not name.startswith("k"):
            super()._join(name)
            return
        worker = self.workers[name]
        worker.fake.resources.remove(WORKER_REPORTS)
        secret = {"metadata": {"name": name, "namespace": FEDQ_NAMESPACE}}
        data = {"kubeconfig": base64.b64encode(b"x").decode()}
        self.home.create(SECRETS, {**secret, "data": data})
        source = {"clusterSource": {"kubeConfig": {"location": name, "locationType": "Secret"}}}
        body = custom("MultiKueueCluster", name, source)
        body["metadata"]["annotations"] = {Trait.AGENT.value: "none"}
        self.home.create(MULTIKUEUE_CLUSTERS, body)
        uses(worker, 0)


# What Kueue does there


def uses(worker: Worker, gpus: int) -> None:
    """Its ClusterQueue says that so many are reserved."""
    flavor = {"name": "f", "resources": [{"name": "gpu", "total": str(gpus)}]}
    active = {"type": "Active", "status": "True", "reason": "Ready", "message": ""}
    status = {"flavorsReservation": [flavor], "conditions": [active]}
    worker.fake.merge(CLUSTER_QUEUES, "cq", {"status": status}, status=True)


def clone(worker: Worker, name: str = "j") -> Json | None:
    """The Workload that was offered for a Job."""
    for found in worker.fake.items(WORKLOADS):
        if found["metadata"].get("annotations", {}).get(Mirror.JOB.value) == name:
            return found
    return None


def says(worker: Worker, *conditions: tuple[str, str, str, str], name: str = "j") -> None:
    """Kueue writes conditions of a Workload: type, status, reason, message."""
    found = clone(worker, name)
    assert found is not None
    known = {c["type"]: c for c in found.get("status", {}).get("conditions", ())}
    for kind, status, reason, message in conditions:
        known[kind] = {"type": kind, "status": status, "reason": reason, "message": message}
    body = {"status": {"conditions": list(known.values())}}
    worker.fake.merge(WORKLOADS, found["metadata"]["name"], body, "team", status=True)


def admit(worker: Worker, name: str = "j") -> None:
    """Kueue admits it."""
    says(worker, ("QuotaReserved", "True", "QuotaReserved", ""), name=name)
    says(worker, ("Admitted", "True", "Admitted", ""), name=name)


def start(worker: Worker, name: str = "j") -> None:
    """Kueue finds the Job of an admitted Workload: it owns that and starts."""
    job, found = worker.get(name), clone(worker, name)
    assert found is not None
    workload = found["metadata"]["name"]
    assert job["metadata"]["annotations"][Annotation.PREBUILT_WORKLOAD_NAME.value] == workload
    meta = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": meta["uid"]}
    owners = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    patch = {"metadata": {"ownerReferences": owners}}
    worker.fake.merge(WORKLOADS, workload, patch, "team")
    worker.fake.merge(JOBS, name, {"spec": {"suspend": False}}, "team")


def evict(worker: Worker, name: str = "j") -> None:
    """Kueue takes back what it gave, and will admit it again some time."""
    says(
        worker,
        ("Evicted", "True", "Preempted", "to make room for another one"),
        ("QuotaReserved", "False", "Pending", "to make room for another one"),
        ("Admitted", "False", "NoReservation", ""),
        name=name,
    )
    worker.fake.merge(JOBS, name, {"spec": {"suspend": True}}, "team")
    worker.stopping(name, 0)


async def run(world: Federation, cluster: str = "k", name: str = "j") -> Worker:
    """A job that runs on such a cluster."""
    worker = world.workers[cluster]
    await until(lambda: clone(worker, name), f"an offer of {name}")
    admit(worker, name)
    await until(lambda: world.copy(name), f"the Job {name} follows")
    start(worker, name)
    await until(lambda: world.record(name).admitted, f"{name} is admitted")
    return worker
