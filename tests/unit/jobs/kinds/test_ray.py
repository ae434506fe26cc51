"""What Ray would start beside the pods that are written down."""

from __future__ import annotations

from typing import Any

import pytest

from federation.jobs.kinds.registry import KINDS
from tests.unit.jobs.kinds.samples import sample, template

Json = dict[str, Any]


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
