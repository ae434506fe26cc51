"""The copy to offer: time that is left, additions of checks, and one that nothing starts."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from federation.core.checks import AdmissionCheckState, CheckState
from federation.core.facts import Record
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import Admission, PodSetAssignment
from federation.jobs import batch_job
from federation.jobs.eviction_note import Eviction, encode_eviction
from federation.jobs.kinds.registry import KINDS
from federation.jobs.mirror import Identity
from federation.jobs.offer import copy_of, goes_on, start_problem
from tests.unit.core.build import record
from tests.unit.jobs.stored import JOB

Json = dict[str, Any]
IDENTITY = Identity("origin", "u", 3, 1, "2026-01-01T00:00:00Z", 5)
MAX = "kueue.x-k8s.io/max-exec-time-seconds"
HELD = Admission("q", (PodSetAssignment("main", 2, {"cpu": "f"}, {"cpu": 1}),))


def held(*updates: PodSetUpdate, **life: Any) -> Record:
    checks = (AdmissionCheckState("budget", CheckState.READY, updates=updates),) if updates else ()
    return record("a", 3, admission=HELD, checks=checks, **life)


def job(**spec: Any) -> Json:
    body = deepcopy(JOB)
    body["spec"].update(spec)
    return body


@pytest.mark.parametrize(
    ("limit", "used", "left"), [(60, 0, "60"), (60, 45, "15"), (60, 60, "1"), (60, 90, "1")]
)
def test_what_is_left_of_the_execution_time(limit: int, used: int, left: str) -> None:
    """Earlier runs count; a limit never vanishes by having been used up."""
    found = held(max_execution_s=limit, accumulated_past_s=used)
    assert copy_of(job(), IDENTITY, found)["metadata"]["labels"][MAX] == left


RUN = {"activeDeadlineSeconds": 60, "cleanPodPolicy": "None"}
ALONE = {**RUN, "suspend": True}


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("Job.v1.batch", {"suspend": True}, {"suspend": False}),
        ("Job.v1.batch", ALONE, {"suspend": False, "activeDeadlineSeconds": 15}),
        ("RayJob.v1.ray.io", ALONE, {"suspend": False, "activeDeadlineSeconds": 15}),
        (
            "PyTorchJob.v1.kubeflow.org",
            {"runPolicy": ALONE},
            {"runPolicy": {"suspend": False, "activeDeadlineSeconds": 15}},
        ),
        (
            "MPIJob.v2beta1.kubeflow.org",
            {"runPolicy": {"suspend": True}},
            {"runPolicy": {"suspend": False}},
        ),
        ("JobSet.v1alpha2.jobset.x-k8s.io", ALONE, {"suspend": False}),
    ],
)
def test_what_goes_on_has_the_time_that_is_left(name: str, spec: Json, expected: Json) -> None:
    """Nothing else of it is written."""
    assert goes_on(KINDS[name], {"spec": spec}, 45) == expected


def test_the_limit_of_a_train_job_is_set_once() -> None:
    """A new copy has what is left; of one that is there it cannot be changed."""
    kind = KINDS["TrainJob.v1alpha1.trainer.kubeflow.org"]
    body: Json = {"metadata": {}, "spec": ALONE}
    assert goes_on(kind, {**body, "metadata": {"uid": "u"}}, 45) == {"suspend": False}
    assert goes_on(kind, body, 45)["activeDeadlineSeconds"] == 15


def test_no_limit_is_made_up() -> None:
    """Neither of the two."""
    body = copy_of(job(), IDENTITY, held(accumulated_past_s=45))
    assert MAX not in body["metadata"]["labels"]
    assert "activeDeadlineSeconds" not in body["spec"]


def test_what_is_left_of_the_deadline() -> None:
    """The Job's own deadline runs on, too."""
    body = copy_of(job(activeDeadlineSeconds=100), IDENTITY, held(accumulated_past_s=45))
    assert body["spec"]["activeDeadlineSeconds"] == 55


def test_additions_of_checks() -> None:
    """They go into the template; those of other pod sets do not."""
    updates = (
        PodSetUpdate("main", {"a": "b"}, {"note": "x"}, {"pool": "p"}),
        PodSetUpdate("other", {"c": "d"}),
    )
    template = copy_of(job(), IDENTITY, held(*updates))["spec"]["template"]
    assert template["metadata"]["labels"]["a"] == "b"
    assert template["metadata"]["annotations"]["note"] == "x"
    assert template["spec"]["nodeSelector"] == {"pool": "p"}


def test_additions_that_contradict_the_job() -> None:
    """Told by name of the key and both values; equal ones are fine."""
    assert start_problem(job(), held(PodSetUpdate("main", {"a": "b"}))) == ""
    problem = start_problem(job(), held(PodSetUpdate("main", {"a": "z"})))
    assert "'a'" in problem
    assert "'b'" in problem
    assert "'z'" in problem


def test_a_void_copy() -> None:
    """It is refused before anybody can answer, in a word that is known as our own."""
    body = copy_of(job(), IDENTITY, held(), void=True)
    body["metadata"].update(uid="c", resourceVersion="7")
    remote = batch_job.remote_job("a", body)
    assert remote.refused_reason == "WithdrawnFromWorkerCluster"
    assert remote.suspended
    plain = copy_of(job(), IDENTITY, held())
    plain["metadata"].update(uid="c", resourceVersion="7")
    assert batch_job.remote_job("a", plain).refused == ""


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({}, False),
        ({"active": 2, "ready": 1}, False),
        ({"active": 2, "ready": 2}, True),
        ({"active": 1, "ready": 1, "succeeded": 1}, True),
        ({"active": 1, "ready": 1, "uncountedTerminatedPods": {"failed": ["p"]}}, True),
        ({"conditions": [{"type": "FailureTarget", "status": "True"}]}, True),
        ({"failed": 1, "active": 1, "ready": 1}, False),
    ],
)
def test_readiness_of_a_copy(status: Json, ready: bool) -> None:
    """Of two pods: ready, done, or ended and not concluded from yet."""
    body = copy_of(job(), IDENTITY, held())
    body["metadata"].update(uid="c", resourceVersion="7")
    assert batch_job.remote_job("a", {**body, "status": status}).ready is ready


def test_pods_that_need_no_quota_any_more() -> None:
    """Of two pods and two completions one is done; a Job that has begun anew has none done."""
    body = copy_of(job(), IDENTITY, held())
    body["metadata"].update(uid="c", resourceVersion="7")
    done = {"active": 1, "ready": 1, "succeeded": 1}
    assert batch_job.remote_job("a", {**body, "status": done}).reclaimable == {"main": 1}
    assert batch_job.remote_job("a", {**body, "status": {"active": 2}}).reclaimable == {}


def test_why_its_queue_stopped_a_copy() -> None:
    """Read from the note of the worker's agent."""
    body = copy_of(job(), IDENTITY, held())
    body["metadata"].update(uid="c", resourceVersion="7")
    note = encode_eviction(
        Eviction("Preempted", "for u2", "2026-01-01T00:00:00Z", "InClusterQueue")
    )
    body["metadata"]["annotations"]["fedq.io/evicted"] = note
    found = batch_job.remote_job("a", body).evicted
    assert found is not None
    assert (found.reason, found.message) == ("Preempted", "for u2")
