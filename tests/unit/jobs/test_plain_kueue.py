"""The Workload that plain Kueue is offered, and what the two objects of a copy say together."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.names import Annotation, Label, Mirror
from federation.core.facts import Eviction
from federation.core.failover import OnDisconnect
from federation.core.wishes import Disconnect
from federation.jobs import batch_job
from federation.jobs.mirror import Identity
from federation.jobs.plain_kueue import (
    CHECKS_S,
    PREEMPTS_S,
    answer,
    clone_of,
    grantable,
    job_of,
    remote_job,
)

Json = dict[str, Any]
T0 = "2026-01-01T00:00:00Z"
NAME = "job-j-12345"


def copy(**labels: str) -> Json:
    """The copy that the manager would offer to an agent."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    job = {
        "metadata": {
            "name": "j",
            "namespace": "team",
            "uid": "u",
            "creationTimestamp": T0,
            "labels": {Label.QUEUE_NAME.value: "lq", **labels},
        },
        "spec": {
            "parallelism": 3,
            "completions": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    disconnect = Disconnect(OnDisconnect.DUPLICATE_OK)
    return batch_job.remote_manifest(job, Identity("o", "u", 4, 1, T0, 7, disconnect))


def clone(*conditions: tuple[str, str, str, str], owner: str = "", **spec: Any) -> Json:
    """As it stands on the cluster."""
    found = clone_of(copy(), NAME, 7)
    found["metadata"] |= {"uid": "w", "resourceVersion": "20"}
    if owner:
        found["metadata"]["ownerReferences"] = [{"kind": "Job", "name": owner, "controller": True}]
    found["spec"] |= spec
    keys = ("type", "status", "reason", "message")
    said = [dict(zip(keys, one, strict=True)) for one in conditions]
    return {**found, "status": {"conditions": said}}


def job(*, suspend: bool = False, **status: Any) -> Json:
    found = job_of(copy(), NAME)
    found["metadata"] |= {"uid": "x", "resourceVersion": "30"}
    found["spec"]["suspend"] = suspend
    return {**found, "status": status}


def test_the_workload() -> None:
    """The pods of the Job, the priority of the record, whose it is, and nothing of a class."""
    found = clone_of(copy(**{Label.MAX_EXEC_TIME_SECONDS.value: "60"}), NAME, 7)
    spec, meta = found["spec"], found["metadata"]
    assert (spec["queueName"], spec["priority"], spec["active"]) == ("lq", 7, True)
    assert spec["maximumExecutionTimeSeconds"] == 60
    (pods,) = spec["podSets"]
    assert (pods["name"], pods["count"]) == ("main", 2)
    assert pods["template"] == copy()["spec"]["template"]
    assert meta["labels"] == {Label.MULTIKUEUE_ORIGIN.value: "o"}
    notes = meta["annotations"]
    assert (notes[Mirror.LOCAL_UID.value], notes[Mirror.ATTEMPT.value]) == ("u", "4")
    assert notes[Mirror.JOB.value] == "j"


def test_a_void_offer_is_never_admitted() -> None:
    """It is not active, and says why."""
    body = copy()
    body["metadata"]["annotations"][Mirror.REFUSED.value] = "Withdrawn: it leaves"
    found = clone_of(body, NAME, 0)
    assert found["spec"]["active"] is False
    assert answer(found).message == "it leaves"


def test_the_job_names_it() -> None:
    """By label as far as one is long enough, by annotation always; its class stays here."""
    found = job_of(copy(**{Label.PRIORITY_CLASS.value: "high"}), NAME)
    meta = found["metadata"]
    assert meta["labels"][Label.PREBUILT_WORKLOAD_NAME.value] == NAME
    assert meta["annotations"][Annotation.PREBUILT_WORKLOAD_NAME.value] == NAME
    assert Label.PRIORITY_CLASS.value not in meta["labels"]
    long = job_of(copy(), "w" * 64)["metadata"]
    assert Label.PREBUILT_WORKLOAD_NAME.value not in long["labels"]
    assert long["annotations"][Annotation.PREBUILT_WORKLOAD_NAME.value] == "w" * 64


RESERVED = ("QuotaReserved", "True", "QuotaReserved", "")
ADMITTED = ("Admitted", "True", "Admitted", "")
EVICTED = ("Evicted", "True", "Preempted", "to make room")
FULL = "insufficient unused quota for cpu"

ANSWERS = {
    "nothing yet": (clone(), 0.0, "", ""),
    "no room": (clone(("QuotaReserved", "False", "Pending", FULL)), 0.0, "Pending", FULL),
    "it preempts": (
        clone(("QuotaReserved", "False", "Pending", f"{FULL}. Pending the preemption of 1")),
        PREEMPTS_S,
        "",
        "",
    ),
    "it waits for checks": (clone(RESERVED), CHECKS_S, "", ""),
    "admitted": (clone(RESERVED, ADMITTED), 0.0, "", ""),
    "deactivated": (clone(active=False), 0.0, "Deactivated", "its Workload was deactivated there"),
    "evicted": (clone(EVICTED), 0.0, "EvictedOnWorkerCluster", "Preempted: to make room"),
    "out of sync": (
        clone(RESERVED, ADMITTED, ("Finished", "True", "OutOfSync", "they differ")),
        0.0,
        "EvictedOnWorkerCluster",
        "OutOfSync: they differ",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name: str) -> None:
    """What Kueue says of a Workload, as the answer to an offer."""
    found, wait, reason, message = ANSWERS[name]
    said = answer(found)
    assert (said.wait_s, said.reason, said.message) == (wait, reason, message)
    facts = remote_job("k", found, None, waits_until=5.0)
    assert (facts.refused_reason, facts.refused) == (reason, message)
    assert facts.deciding_until == (5.0 if wait else 0.0)
    assert (facts.uid, facts.attempt, facts.version) == ("team/u.4", 4, 20)
    assert facts.policy is OnDisconnect.DUPLICATE_OK
    assert facts.granted is (name == "admitted")


def test_which_checks_it_waits_for() -> None:
    """They are told as those of a cluster with an agent are."""
    found = clone(RESERVED)
    checks = [{"name": "p", "state": "Pending", "message": "soon"}, {"name": "r", "state": "Ready"}]
    found["status"]["admissionChecks"] = checks
    assert remote_job("k", found, None).waits_for == 'AdmissionCheck in Pending state: "p" (soon)'
    assert not remote_job("k", clone(), None).waits_for


GRANTED = {
    "admitted": (clone(RESERVED, ADMITTED), True),
    "not yet": (clone(RESERVED), False),
    "evicted since": (clone(RESERVED, ADMITTED, EVICTED), False),
    "its Job was there": (clone(RESERVED, ADMITTED, owner="j"), False),
}


@pytest.mark.parametrize("name", GRANTED)
def test_whether_the_job_may_follow(name: str) -> None:
    """Once, and only while it is admitted."""
    found, expected = GRANTED[name]
    assert grantable(found) is expected


def test_a_copy_that_runs() -> None:
    """What the Job says counts; its version is later than that of the Workload."""
    found = remote_job("k", clone(RESERVED, ADMITTED), job(active=1))
    assert (found.uid, found.version, found.suspended) == ("team/u.4", 30, False)
    assert (found.granted, found.refused) == (False, "")
    assert (found.priority, found.size) == (None, None)


@pytest.mark.parametrize("started", [True, False])
def test_a_copy_that_was_evicted(*, started: bool) -> None:
    """One that never ran is an offer that came to nothing: it is not made again at once."""
    evicted = clone(EVICTED, ("Admitted", "False", "NoReservation", ""), owner="j")
    found = remote_job("k", evicted, job(suspend=True), started=started)
    assert found.evicted == Eviction("Preempted", "to make room")
    assert bool(found.refused) is not started


def test_a_copy_that_ended_was_not_evicted() -> None:
    """Its Workload is finished with it."""
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    workload = clone(RESERVED, ADMITTED, ("Finished", "True", "Succeeded", "done"), owner="j")
    found = remote_job("k", workload, job(**done))
    assert (found.finished, found.evicted, found.refused) == ("Complete", None, "")


def test_a_job_without_its_workload() -> None:
    """Somebody deleted that: it is a copy all the same."""
    assert remote_job("k", None, job()).uid == "team/u.4"
