"""What Ray and Spark would start beside the pods that are written down."""

from __future__ import annotations

from typing import Any

import pytest

from federation.jobs.kinds.registry import KINDS
from tests.unit.jobs.kinds.samples import sample, template

Json = dict[str, Any]
MIB = 1 << 20


def ray(kind: str, **fields: Any) -> tuple[Any, Json]:
    found: Any = KINDS[f"{kind}.v1.ray.io"]
    obj, at = sample(found.row), found.row.roles[0].at[1:-1]
    holder = obj["spec"]
    for part in at:
        holder = holder[part]
    holder.update(fields)
    return found, obj


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService"])
def test_rays_autoscaler_would_pass_the_quota_by(kind: str) -> None:
    found, obj = ray(kind, enableInTreeAutoscaling=True)
    assert "enableInTreeAutoscaling is set" in found.problem(obj)
    obj["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    assert ("change the replicas" in found.problem(obj)) is (kind == "RayCluster")
    found, obj = ray(kind, enableInTreeAutoscaling=False)
    assert found.problem(obj) == ""


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService"])
@pytest.mark.parametrize(("least", "right"), [(None, True), (2, True), (3, False)])
def test_what_rays_operator_makes_at_least_is_charged(
    kind: str, least: int | None, right: bool
) -> None:
    group = {"groupName": "w", "replicas": 2, "minReplicas": least, "template": template()}
    found, obj = ray(kind, workerGroupSpecs=[group])
    said = found.problem(obj)
    assert (said == "") is right
    assert right or "workerGroupSpecs[0].minReplicas is 3" in said


@pytest.mark.parametrize(("hosts", "pods"), [(0, 2), (1, 2), (4, 8)])
def test_a_worker_of_ray_has_one_host_at_least(hosts: int, pods: int) -> None:
    group = {"groupName": "w", "replicas": 2, "numOfHosts": hosts, "template": template()}
    found, obj = ray("RayCluster", workerGroupSpecs=[group])
    assert {p.name: p.count for p in found.pod_sets(obj)} == {"head": 1, "w": pods}


def test_a_job_that_kuberay_finds_invalid_has_failed() -> None:
    """It stays as it is, whatever the fields of its Ray job say."""
    kind: Any = KINDS["RayJob.v1.ray.io"]
    status = {"jobDeploymentStatus": "ValidationFailed", "message": "no such mode"}
    remote = kind.remote_job("w", sample(kind.row, status=status))
    assert (remote.finished, remote.ending) == ("Failed", "no such mode")
    assert kind.running(sample(kind.row, status=status)).gone


def test_a_service_that_is_held_back_from_the_start_has_no_pods() -> None:
    """KubeRay prepares a cluster for it all the same, and says so. One that serves goes on."""
    kind: Any = KINDS["RayService.v1.ray.io"]
    prepared = {"pendingServiceStatus": {"rayClusterName": "r"}, "activeServiceStatus": {}}
    assert kind.running(sample(kind.row, status=prepared)).gone
    assert not kind.running(sample(kind.row, suspended=False, status=prepared)).gone
    serves = {
        "activeServiceStatus": {"rayClusterName": "r", "rayClusterStatus": {"state": "ready"}}
    }
    assert not kind.running(sample(kind.row, status=serves)).gone


@pytest.mark.parametrize(("own", "cpu"), [({}, 2500), (template("3"), 5000)])
def test_a_submitter_beside_rays_head_is_charged(own: Json, cpu: int) -> None:
    more = {"submitterPodTemplate": own} if own else {}
    found, obj = ray("RayJob")
    obj["spec"] |= {"submissionMode": "SidecarMode", **more}
    asked = [(p.name, p.requests["cpu"]) for p in found.pod_sets(obj)]
    assert asked == [("head", cpu), ("small", 1000), ("slices", 4000)]


SPARK: Any = KINDS["SparkApplication.v1beta2.sparkoperator.k8s.io"]


def spark(**fields: Any) -> Json:
    obj = sample(SPARK.row)
    return {**obj, "spec": {**obj["spec"], **fields}}


def test_executors_without_end_would_pass_the_quota_by() -> None:
    assert "maxExecutors" in SPARK.problem(spark(dynamicAllocation={"enabled": True}))
    limited = spark(dynamicAllocation={"enabled": True, "maxExecutors": 7})
    assert SPARK.problem(limited) == ""
    assert [p.count for p in SPARK.pod_sets(limited)] == [1, 7]
    off = spark(dynamicAllocation={"enabled": False})
    assert SPARK.problem(off) == ""


@pytest.mark.parametrize(("type_", "mib"), [("Scala", 11264), ("Python", 14336), ("R", 14336)])
def test_memory_beside_the_jvm(type_: str, mib: int) -> None:
    """A tenth of the memory, and four tenths where not all runs in the JVM."""
    executor = {"instances": 1, "memory": "10g"}
    found = SPARK.pod_sets(spark(type=type_, executor=executor))[1]
    assert found.requests["memory"] == mib * MIB


def test_containers_beside_sparks_own_are_counted() -> None:
    beside = template("3")["spec"]["containers"]
    driver = {"cores": 1, "memory": "1g", "sidecars": beside}
    assert SPARK.pod_sets(spark(driver=driver))[0].requests["cpu"] == 4000
    before = {"cores": 1, "memory": "1g", "initContainers": beside}
    assert SPARK.pod_sets(spark(driver=before))[0].requests["cpu"] == 3000
    assert "spec.driver cannot be read" in SPARK.problem(spark(driver={"sidecars": "x"}))


def test_the_priority_of_a_spark_application() -> None:
    """The batch scheduler's, else the driver's, else the executors'."""
    obj = spark()
    assert SPARK.pod_class(obj) == ""
    obj["spec"]["executor"]["priorityClassName"] = "low"
    assert SPARK.pod_class(obj) == "low"
    obj["spec"]["driver"]["priorityClassName"] = "high"
    assert SPARK.pod_class(obj) == "high"
    assert SPARK.pod_class(spark(batchSchedulerOptions={"priorityClassName": "own"})) == "own"
