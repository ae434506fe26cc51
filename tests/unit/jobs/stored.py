"""One Workload on the fake API, written by the patches under test."""

from __future__ import annotations

from typing import Any

from federation.api import record as records
from federation.api import record_patches as patches
from federation.api.names import ConditionType
from federation.api.workload import Workload
from federation.core.facts import Binding, Queues, Record
from federation.core.policies import AdmissionCheck
from federation.core.types import Admission, ClusterQueue, PodSetAssignment
from federation.edge.resources import WORKLOADS
from federation.jobs import batch_job
from tests.fakes.kube_api import FakeKube

Json = dict[str, Any]
T0, T1, T2, T3 = (f"2026-01-01T00:00:0{n}Z" for n in range(4))
ADMISSION = Admission(
    "q",
    (
        PodSetAssignment(
            "main", 2, {"cpu": "spot", "memory": "spot"}, {"cpu": 1500, "memory": 3 * 2**30}
        ),
    ),
)
BINDING = Binding("a", 3, 7, T1)
QUEUES = Queues(cluster=ClusterQueue("q", checks=(AdmissionCheck("check"),)), own_check="check")

JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "j",
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "5",
        "creationTimestamp": T0,
        "labels": {"kueue.x-k8s.io/queue-name": "lq"},
    },
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "suspend": True,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "template": {
            "metadata": {"labels": {"a": "b"}, "creationTimestamp": None},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        },
    },
}


class Stored:
    """One Workload on the fake API."""

    def __init__(self) -> None:
        self.fake = FakeKube(namespaces=("team",))
        body = records.manifest(JOB, batch_job.local_job(JOB), "Job", 5, None)
        self.name = self.fake.create(WORKLOADS, body)["metadata"]["name"]

    @property
    def obj(self) -> Json:
        return self.fake.get(WORKLOADS, self.name, "team")

    @property
    def record(self) -> Record:
        return records.read_record(self.obj)

    def write(self, body: Json) -> Record:
        """Apply a status patch, and have the object validated by the model the CRD is made of."""
        self.fake.merge(WORKLOADS, self.name, body, "team", status=True)
        Workload.from_wire(self.obj)
        return self.record

    def condition(self, kind: ConditionType) -> Json:
        found = records.find(self.obj["status"], kind)
        assert found is not None, kind
        return found

    def bound(self) -> Record:
        return self.write(patches.bind_patch(self.record, ADMISSION, BINDING, QUEUES))
