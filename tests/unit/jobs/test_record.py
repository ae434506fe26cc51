"""The Workload as the record: what is written is accepted, and read back as it was meant."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from federation.api import departure
from federation.api import record as records
from federation.api import record_patches as patches
from federation.api.names import ConditionType
from federation.core import effects as do
from federation.core.backoff import RequeueState
from federation.core.types import Admission, PodSetAssignment
from tests.fakes.patches import Refused
from tests.unit.jobs.stored import ADMISSION, BINDING, JOB, QUEUES, T0, T1, T2, T3, Stored

Json = dict[str, Any]


@pytest.fixture
def stored() -> Stored:
    return Stored()


def test_a_new_record(stored: Stored) -> None:
    """Created for the job, owned by it, with nothing reserved."""
    record = stored.record
    assert (record.active, record.priority, record.attempt) == (True, 5, 0)
    assert (record.admission, record.binding, record.admitted, record.finished) == (
        None,
        None,
        False,
        False,
    )
    assert records.owner_uid(stored.obj) == "u"
    spec = stored.obj["spec"]
    assert spec["queueName"] == "lq"
    assert spec["podSets"] == [
        {
            "name": "main",
            "count": 2,
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": JOB["spec"]["template"]["spec"],
            },
        }
    ]


def test_bind(stored: Stored) -> None:
    """The commit point: reservation, cluster and attempt in one write, read back as written."""
    record = stored.bound()
    assert record.binding == BINDING
    assert record.attempt == 3
    assert record.admission == ADMISSION
    assert not record.admitted
    assert stored.condition(ConditionType.QUOTA_RESERVED) == {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "Quota reserved in ClusterQueue q",
        "lastTransitionTime": T1,
    }
    (check,) = stored.obj["status"]["admissionChecks"]
    assert (check["name"], check["state"]) == ("check", "Pending")


def test_the_whole_way(stored: Stored) -> None:
    """Bound, admitted, finished: each accepted on top of the other; times move with the status."""
    record = stored.write(patches.admit_patch(stored.bound(), "a", "check", None, T2))
    assert record.admitted
    assert stored.obj["status"]["clusterName"] == "a"
    assert stored.obj["status"]["admissionChecks"][0]["state"] == "Ready"
    record = stored.write(patches.finish_patch(record, "Complete", "well done", T3))
    assert record.finished
    assert stored.condition(ConditionType.FINISHED)["reason"] == "Succeeded"
    times = {c["type"]: c["lastTransitionTime"] for c in stored.obj["status"]["conditions"]}
    assert times == {"QuotaReserved": T1, "Admitted": T2, "Finished": T3}


def test_failed(stored: Stored) -> None:
    """The reason of the end is Kueue's word."""
    stored.write(patches.finish_patch(stored.record, "Failed", "", T1))
    assert stored.condition(ConditionType.FINISHED)["reason"] == "Failed"


def test_unbind_an_offer(stored: Stored) -> None:
    """Nothing is reserved, the attempt stays, and it was not evicted."""
    record = stored.write(
        departure.unbind_patch(stored.bound(), do.Unbind("Refused", "no room", False), T2)
    )
    assert (record.binding, record.admission, record.attempt) == (None, None, 3)
    assert (record.reason, record.message) == ("Refused", "no room")
    assert records.find(stored.obj["status"], ConditionType.EVICTED) is None
    assert stored.condition(ConditionType.QUOTA_RESERVED)["lastTransitionTime"] == T2


def test_waiting(stored: Stored) -> None:
    """The reason is written; the time moves only when the status does."""
    record = stored.write(patches.waiting_patch(stored.record, "WaitingForQuota", "0 free", T1))
    assert (record.reason, record.message) == ("WaitingForQuota", "0 free")
    record = stored.write(patches.waiting_patch(record, "ExceedsMaxQuota", "never", T2))
    condition = stored.condition(ConditionType.QUOTA_RESERVED)
    assert (condition["reason"], condition["lastTransitionTime"]) == ("ExceedsMaxQuota", T1)


def test_a_message_of_any_length(stored: Stored) -> None:
    """It is cut to what the API accepts."""
    record = stored.write(patches.waiting_patch(stored.record, "WaitingForQuota", "x" * 40000, T1))
    assert len(record.message) == 32768


KINDS = ("bind", "admit", "finish", "unbind", "evict", "readmit", "target", "checks", "pods ready")


@pytest.mark.parametrize("kind", [*KINDS, "waiting"])
def test_a_writer_that_is_behind_loses(stored: Stored, kind: str) -> None:
    """Every patch names the version it was decided on."""
    old = stored.record
    stored.write(patches.waiting_patch(old, "WaitingForQuota", "0 free", T1))
    written = {
        "bind": patches.bind_patch(old, ADMISSION, BINDING, QUEUES),
        "admit": patches.admit_patch(old, "a", "", None, T1),
        "finish": patches.finish_patch(old, "Complete", "", T1),
        "unbind": departure.unbind_patch(old, do.Unbind("r", "m", True), T1),
        "evict": departure.evict_patch(old, do.Evict("r", "m", "", RequeueState()), T1),
        "readmit": departure.readmit_patch(old, "r", "m", T1),
        "target": departure.target_patch(old, "r", "m", T1),
        "checks": departure.checks_patch(old, QUEUES, T1),
        "pods ready": departure.pods_ready_patch(old, True, T1),
        "waiting": patches.waiting_patch(old, "r", "m", T1),
    }
    before = stored.obj
    with pytest.raises(Refused) as refused:
        stored.write(written[kind])
    assert refused.value.reason == "Conflict"
    assert stored.obj == before


def test_other_conditions_are_kept(stored: Stored) -> None:
    """A patch replaces the list: conditions of other writers stay in it."""
    other = {
        "type": "Custom",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": T0,
    }
    stored.write({"status": {"conditions": [other]}})
    stored.bound()
    assert other in stored.obj["status"]["conditions"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train", "job-train-" + hashlib.sha1(b"Job\nbatch\ntrain\nu").hexdigest()[:5]),
        ("x" * 260, None),
    ],
)
def test_workload_name(name: str, expected: str | None) -> None:
    """Kueue's rule: kind, name, five hex digits; never longer than 253."""
    found = records.workload_name("Job", "batch", name, "u")
    assert expected is None or found == expected
    assert len(found) <= 253
    assert found != records.workload_name("Job", "batch", name, "v")


def test_whose_workload() -> None:
    """The controlling owner, else the label."""
    owners = [{"uid": "x"}, {"uid": "y", "controller": True}]
    assert records.owner_uid({"metadata": {"ownerReferences": owners}}) == "y"
    label = {"kueue.x-k8s.io/job-uid": "z"}
    assert records.owner_uid({"metadata": {"labels": label}}) == "z"
    assert records.owner_uid({"metadata": {}}) == ""


def test_a_workload_of_another_writer() -> None:
    """What Kueue itself wrote reads: no `fedq`, a reservation, and it is held."""
    obj = {
        "metadata": {"name": "w", "namespace": "n", "uid": "u", "resourceVersion": "9"},
        "spec": {"active": False},
        "status": {
            "conditions": [{"type": "Admitted", "status": "False", "reason": "r", "message": ""}],
            "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main"}]},
        },
    }
    found = records.read_record(obj)
    assert (found.active, found.priority, found.binding, found.admitted) == (False, 0, None, False)
    assert found.admission == Admission("q", (PodSetAssignment("main", 0, {}, {}),))
    assert records.read_record({"metadata": obj["metadata"]}).active
