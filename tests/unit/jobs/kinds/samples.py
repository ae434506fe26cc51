"""One object of each kind of the table, as people write them, with statuses as controllers do."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

Json = dict[str, Any]


def template(cpu: str = "1", **spec: Any) -> Json:
    """A pod template that says nothing but what it needs."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return {"spec": {"containers": [{"name": "main", "resources": resources}], **spec}}


def replicas(**roles: int) -> Json:
    """Replica specs of a Kubeflow job; 0 replicas leave the number out."""
    return {
        role: {"template": template(), **({"replicas": count} if count else {})}
        for role, count in roles.items()
    }


def ray() -> Json:
    """The spec of a Ray cluster."""
    return {
        "headGroupSpec": {"template": template("2"), "rayStartParams": {}},
        "workerGroupSpecs": [
            {"groupName": "Small", "replicas": 3, "template": template()},
            {"groupName": "slices", "replicas": 2, "numOfHosts": 4, "template": template("4")},
        ],
    }


def says(kind: str, status: str = "True") -> Json:
    """A status with one condition."""
    return {"conditions": [{"type": kind, "status": status, "reason": "R", "message": f"{kind}!"}]}


SPECS: dict[str, Json] = {
    "JobSet": {
        "replicatedJobs": [
            {"name": "Driver", "template": {"spec": {"template": template()}}},
            {
                "name": "workers",
                "replicas": 3,
                "template": {"spec": {"parallelism": 4, "completions": 2, "template": template()}},
            },
        ]
    },
    "PyTorchJob": {"pytorchReplicaSpecs": replicas(Worker=3, Master=0)},
    "TFJob": {"tfReplicaSpecs": replicas(PS=2, Worker=4, Chief=1, Evaluator=1)},
    "MXJob": {"mxReplicaSpecs": replicas(Scheduler=1, Server=2, Worker=2)},
    "XGBoostJob": {"xgbReplicaSpecs": replicas(Master=1, Worker=2)},
    "PaddleJob": {"paddleReplicaSpecs": replicas(Master=1, Worker=2)},
    "JAXJob": {"jaxReplicaSpecs": replicas(Worker=2)},
    "MPIJob": {"mpiReplicaSpecs": replicas(Launcher=1, Worker=2), "slotsPerWorker": 1},
    "TrainJob": {
        "runtimeRef": {"name": "torch"},
        "trainer": {"numNodes": 4, "resourcesPerNode": {"requests": {"cpu": "2"}}},
    },
    "RayJob": {"shutdownAfterJobFinishes": True, "entrypoint": "x", "rayClusterSpec": ray()},
    "RayCluster": ray(),
    "RayService": {"serveConfigV2": "x", "rayClusterConfig": ray()},
    "AppWrapper": {
        "components": [
            {
                "template": {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "PyTorchJob",
                    "spec": {"pytorchReplicaSpecs": replicas(Master=1, Worker=3)},
                }
            },
            {
                "podSets": [{"replicas": 2, "path": "template.spec.template"}],
                "template": {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "spec": {"replicas": 2, "template": template()},
                },
            },
            {"template": {"apiVersion": "v1", "kind": "ConfigMap"}},
        ]
    },
    "SparkApplication": {
        "type": "Scala",
        "mode": "cluster",
        "driver": {"cores": 1, "memory": "512m"},
        "executor": {"instances": 3, "cores": 2, "memory": "8g", "nodeSelector": {"a": "b"}},
    },
}

POD_SETS: dict[str, dict[str, int]] = {
    "JobSet": {"driver": 1, "workers": 6},
    "PyTorchJob": {"master": 1, "worker": 3},
    "TFJob": {"chief": 1, "ps": 2, "worker": 4, "evaluator": 1},
    "MXJob": {"scheduler": 1, "server": 2, "worker": 2},
    "XGBoostJob": {"master": 1, "worker": 2},
    "PaddleJob": {"master": 1, "worker": 2},
    "JAXJob": {"worker": 2},
    "MPIJob": {"launcher": 1, "worker": 2},
    "TrainJob": {"node": 4},
    "RayJob": {"head": 1, "small": 3, "slices": 8, "submitter": 1},
    "RayCluster": {"head": 1, "small": 3, "slices": 8},
    "RayService": {"head": 1, "small": 3, "slices": 8},
    "AppWrapper": {"j-0": 1, "j-1": 3, "j-2": 2},
    "SparkApplication": {"driver": 1, "executor": 3},
}
"""In the order in which they are charged."""

_RAY_STATE = {"rayClusterStatus": {"state": "ready"}}

STATUSES: dict[str, dict[str, Json]] = {
    "JobSet": {
        "ready": {"replicatedJobsStatus": [
            {"name": "Driver", "ready": 1}, {"name": "workers", "ready": 2, "succeeded": 1},
        ]},
        "Complete": says("Completed"), "Failed": says("Failed"), "stopped": says("Suspended"),
    },
    **{
        kind: {
            "ready": says("Running"), "Complete": says("Succeeded"), "Failed": says("Failed"),
            "stopped": says("Suspended"),
        }
        for kind in (
            "PyTorchJob", "TFJob", "MXJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob",
        )
    },
    "TrainJob": {
        "Complete": says("Complete"), "Failed": says("Failed"), "stopped": says("Suspended"),
    },
    "RayJob": {
        "ready": {"jobDeploymentStatus": "Running", **_RAY_STATE},
        "Complete": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
        "Failed": {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED", "message": "oh"},
        "stopped": {"jobDeploymentStatus": "Suspended"},
    },
    "RayCluster": {"ready": {"state": "ready"}, "stopped": {"state": "suspended"}},
    "RayService": {
        "ready": says("Ready"),
        "stopped": {"activeServiceStatus": {"rayClusterStatus": {"state": "suspended"}}},
    },
    "AppWrapper": {
        "ready": says("PodsReady"), "Complete": {"phase": "Succeeded"},
        "Failed": {"phase": "Failed"}, "stopped": {"phase": "Suspended"},
    },
    "SparkApplication": {
        "ready": {
            "applicationState": {"state": "RUNNING"},
            "executorState": {"e-1": "RUNNING", "e-2": "COMPLETED", "e-3": "RUNNING"},
        },
        "Complete": {"applicationState": {"state": "COMPLETED"}},
        "Failed": {"applicationState": {"state": "FAILED", "errorMessage": "oh"}},
        "stopped": {"applicationState": {"state": "SUSPENDED"}},
    },
}  # fmt: skip


def sample(row: Any, *, suspended: bool = True, status: Json | None = None) -> Json:
    """An object of a kind as the API server has it."""
    spec = deepcopy(SPECS[row.kind])
    holder = spec
    for part in row.suspend[1:-1]:
        holder = holder.setdefault(part, {})
    holder[row.suspend[-1]] = suspended
    obj = {
        "apiVersion": row.api_version,
        "kind": row.kind,
        "metadata": {
            "name": "j",
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kueue.x-k8s.io/queue-name": "lq"},
        },
        "spec": spec,
    }
    return obj if status is None else {**obj, "status": status}
