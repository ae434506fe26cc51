"""The table of kinds, after each project's own API (the admission specification, section 8)."""

from __future__ import annotations

from typing import Final

from federation.api.kinds.paths import EACH, Path
from federation.api.kinds.row import Role, Row, Sign

_RUN: Path = ("spec", "runPolicy")


def _kubeflow(
    kind: str, field: str, roles: tuple[str, ...], version: str = "v1", *, heeds: bool = True
) -> Row:
    """A job of Kubeflow's training operators: replicas by type, a run policy, conditions. Not all
    of them heed managedBy.
    """
    return Row(
        kind,
        "kubeflow.org",
        version,
        f"{kind.lower()}s",
        tuple(Role(("spec", field, role), role.lower()) for role in roles),
        suspend=(*_RUN, "suspend"),
        managed_by=(*_RUN, "managedBy") if heeds else (),
        controller=f"kubeflow.org/{'mpi' if kind == 'MPIJob' else 'training'}-operator",
        complete=(Sign("Succeeded"),),
        failed=(Sign("Failed"),),
        ready=(Sign("Running"),),
        stopped=(Sign("Suspended"),),
        active=(("status", "replicaStatuses", EACH, "active"),),
        priority=((*_RUN, "schedulingPolicy", "priorityClass"),),
        dropped=((*_RUN, "ttlSecondsAfterFinished"),),
        deadline=(*_RUN, "activeDeadlineSeconds"),
        module="" if heeds else "unheeding",
        note="" if heeds else "shows its status on the management cluster when it has ended",
    )


def _ray(*at: str, elastic: tuple[str, ...] = ()) -> tuple[Role, ...]:
    """The pods of a Ray cluster described at a path. Only of a RayCluster does the operator follow
    numbers that are edited: the clusters of RayJobs and RayServices stay as they were made.
    """
    return (
        Role((*at, "headGroupSpec"), "head", counts=()),
        Role(
            (*at, "workerGroupSpecs", EACH),
            "groupName",
            fixed=False,
            hosts=("numOfHosts",),
            elastic=elastic,
        ),
    )


_DEPLOYMENT: Path = ("status", "jobDeploymentStatus")
_PHASE: Path = ("status", "phase")
_SPARK: Path = ("status", "applicationState", "state")
_SPARK_ERROR: Path = ("status", "applicationState", "errorMessage")
_SERVED: Path = ("status", "activeServiceStatus", "rayClusterStatus", "state")

ROWS: Final[tuple[Row, ...]] = (
    Row(
        "JobSet",
        "jobset.x-k8s.io",
        "v1alpha2",
        "jobsets",
        (
            Role(
                ("spec", "replicatedJobs", EACH),
                "name",
                fixed=False,
                template=("template", "spec", "template"),
                job=("template", "spec"),
            ),
        ),
        controller="jobset.sigs.k8s.io/jobset-controller",
        complete=(Sign("Completed"),),
        failed=(Sign("Failed"),),
        stopped=(Sign("Suspended"),),
        active=(("status", "replicatedJobsStatus", EACH, "active"),),
        dropped=(("spec", "ttlSecondsAfterFinished"),),
        module="jobset",
    ),
    _kubeflow("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker")),
    _kubeflow("TFJob", "tfReplicaSpecs", ("Chief", "Master", "PS", "Worker", "Evaluator")),
    _kubeflow(
        "MXJob",
        "mxReplicaSpecs",
        ("Scheduler", "Server", "Worker", "TunerTracker", "TunerServer", "Tuner"),
        heeds=False,  # operators that know it (up to 1.7) have no such field
    ),
    _kubeflow("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
    _kubeflow("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
    # Of its operator (1.9.3) only this controller does not look at the field.
    _kubeflow("JAXJob", "jaxReplicaSpecs", ("Worker",), heeds=False),
    _kubeflow("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker"), "v2beta1"),
    Row(
        "TrainJob",
        "trainer.kubeflow.org",
        "v1alpha1",
        "trainjobs",
        (),
        controller="trainer.kubeflow.org/trainjob-controller",
        complete=(Sign("Complete"),),
        failed=(Sign("Failed"),),
        stopped=(Sign("Suspended"),),
        active=(("status", "jobsStatus", EACH, "active"),),
        deadline=("spec", "activeDeadlineSeconds"),
        managed_by=(),  # the trainer (2.2) has the field, and does not look at it
        dropped=(("spec", "managedBy"),),
        module="trainjob",
        note=(
            "counted by its own numNodes and resourcesPerNode, which it has to say;"
            " shows its status on the management cluster when it has ended"
        ),
    ),
    Row(
        "RayJob",
        "ray.io",
        "v1",
        "rayjobs",
        (
            *_ray("spec", "rayClusterSpec"),
            Role(("spec",), "submitter", template=("submitterPodTemplate",), counts=()),
        ),
        controller="ray.io/kuberay-operator",
        # KubeRay never looks again at one that it finds invalid.
        failed=(Sign(field=_DEPLOYMENT, values=("Failed", "ValidationFailed")),),
        complete=(Sign(field=_DEPLOYMENT, values=("Complete",)),),
        ready=(Sign(field=("status", "rayClusterStatus", "state"), values=("ready",)),),
        stopped=(Sign(field=_DEPLOYMENT, values=("Suspended",)),),
        dropped=(("spec", "ttlSecondsAfterFinished"),),
        deadline=("spec", "activeDeadlineSeconds"),
        module="rayjob",
        note="needs shutdownAfterJobFinishes; one with a clusterSelector is not queued",
    ),
    Row(
        "RayCluster",
        "ray.io",
        "v1",
        "rayclusters",
        _ray("spec", elastic=("replicas", "minReplicas", "maxReplicas")),
        controller="ray.io/kuberay-operator",
        ready=(Sign(field=("status", "state"), values=("ready",)),),
        stopped=(
            Sign(field=("status", "state"), values=("suspended",)),
            Sign("RayClusterSuspended"),
        ),
        module="ray",
        note="never ends by itself; replicas of worker groups may be elastic",
    ),
    Row(
        "RayService",
        "ray.io",
        "v1",
        "rayservices",
        _ray("spec", "rayClusterConfig"),
        suspend=("spec", "rayClusterConfig", "suspend"),
        controller="ray.io/kuberay-operator",
        ready=(Sign("Ready"), Sign("RayServiceReady")),
        stopped=(Sign(field=_SERVED, values=("suspended",)),),
        live=(("spec", "serveConfigV2"),),
        module="rayservice",
        note="never ends by itself; its copy is stopped by deletion",
    ),
    Row(
        "AppWrapper",
        "workload.codeflare.dev",
        "v1beta2",
        "appwrappers",
        (),
        controller="workload.codeflare.dev/appwrapper-controller",
        complete=(Sign(field=_PHASE, values=("Succeeded",)),),
        failed=(Sign(field=_PHASE, values=("Failed",)),),
        ready=(Sign("PodsReady"),),
        stopped=(Sign(field=_PHASE, values=("Suspended",)),),
        module="appwrapper",
        note=(
            "components without podSets may be a Pod, Job, Deployment, StatefulSet, JobSet,"
            " PyTorchJob, RayCluster or RayJob, or have no pods"
        ),
    ),
    Row(
        "SparkApplication",
        "sparkoperator.k8s.io",
        "v1beta2",
        "sparkapplications",
        (),
        managed_by=(),
        complete=(Sign(field=_SPARK, values=("COMPLETED",)),),
        # A submission that failed is tried again, or FAILED follows.
        failed=(Sign(field=_SPARK, values=("FAILED",), message=_SPARK_ERROR),),
        stopped=(Sign(field=_SPARK, values=("SUSPENDED",)),),
        priority=(
            ("spec", "batchSchedulerOptions", "priorityClassName"),
            ("spec", "driver", "priorityClassName"),
            ("spec", "executor", "priorityClassName"),
        ),
        dropped=(("spec", "timeToLiveSeconds"),),
        module="spark",
        note="cluster mode; shows its status on the management cluster when it has ended",
    ),
)
"""All kinds that have a field to suspend them, but batch/v1 Job."""

_STATE: Path = ("status", "state", "phase")
_STATE_TEXT: Path = ("status", "state", "message")
_NO_SUCCESS: Final = ("Failed", "Terminated", "Aborted")
"""Nobody resumes a copy that was aborted."""

SCALED: Final[tuple[Row, ...]] = (
    Row(
        "StatefulSet",
        "apps",
        "v1",
        "statefulsets",
        (Role(("spec",), "main"),),
        suspend=("spec", "replicas"),
        managed_by=(),
        active=(("status", "readyReplicas"),),
        scale=(("spec", "replicas"),),
        wanted=("spec", "replicas"),
        module="scaled",
        note="never ends; as a whole on one cluster; its status stays there",
    ),
    Row(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io",
        "v1",
        "leaderworkersets",
        (),
        suspend=("spec", "replicas"),
        managed_by=(),
        active=(("status", "readyReplicas"),),
        scale=(("spec", "replicas"),),
        wanted=("spec", "replicas"),
        module="leaderworkerset",
        note="never ends; as a whole on one cluster; its status stays there",
    ),
    Row(
        "Job",
        "batch.volcano.sh",
        "v1alpha1",
        "jobs",
        (Role(("spec", "tasks", EACH), "name", fixed=False),),
        suspend=("spec", "tasks", EACH, "template", "spec", "schedulingGates"),
        managed_by=(),
        complete=(Sign(field=_STATE, values=("Completed",), message=_STATE_TEXT),),
        failed=(Sign(field=_STATE, values=_NO_SUCCESS, message=_STATE_TEXT),),
        active=(("status", "running"), ("status", "succeeded")),
        wanted=("spec", "minAvailable"),
        dropped=(("spec", "ttlSecondsAfterFinished"), ("spec", "queue")),
        module="volcano",
        note="admitted whole; shows its status on the management cluster when it has ended",
    ),
)
"""Kinds that nothing holds back: their copies have no pods, or a gate in their templates. Such a
gate is on the management cluster, too, where their controllers may run."""

PODS: Final = Row(
    "Pod",
    "",
    "v1",
    "pods",
    (Role(("spec", "pods", EACH), "main", template=(), counts=()),),
    suspend=("spec", "schedulingGates"),
    managed_by=(),
    complete=(Sign(field=_PHASE, values=("Succeeded",)),),
    failed=(Sign(field=_PHASE, values=("Failed",)),),
    module="pods",
    note="alone or as a group (Kueue's labels, or YuniKorn's application id and task groups);"
    " those of a Deployment one by one; stopped by deletion",
)
"""Pods that are jobs of their own."""
