"""What the witness makes of objects as watches bring them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from federation.api.names import FENCED
from federation.edge.machine import boottime
from fedq.drill.timeline import Timeline, What
from fedq.drill.witness import Witness

Json = dict[str, Any]


@pytest.fixture
def witness() -> Witness:
    """A witness that has seen nothing."""
    return Witness(Timeline())


def told(witness: Witness) -> list[tuple[What, str, str, str]]:
    """All marks without their time."""
    return [(m.what, m.cluster, m.job, m.detail) for m in witness.timeline.marks]


def copy(*, suspend: bool, uid: str = "u1", epoch: int = 1, held: str = "") -> Json:
    """A mirrored Job."""
    notes = {"fedq.io/attempt": "2", "fedq.io/epoch": str(epoch)}
    if held:
        notes["fedq.io/held"] = held
    meta = {"name": "train", "uid": uid, "annotations": notes}
    return {"metadata": meta, "spec": {"suspend": suspend}}


def lease(renewed: str, *, holder: str = "agent", epoch: int = 1) -> Json:
    """The Lease of a cluster."""
    meta = {"name": "west", "uid": "l", "annotations": {"fedq.io/epoch": str(epoch)}}
    return {"metadata": meta, "spec": {"holderIdentity": holder, "renewTime": renewed}}


def test_the_life_of_a_copy(witness: Witness) -> None:
    """Offered, started, stopped and why, adopted, started again, gone; repeats say nothing."""
    for obj in (
        copy(suspend=True),
        copy(suspend=True),
        copy(suspend=False),
        copy(suspend=True, held="the lease ended"),
        copy(suspend=True, held="the lease ended", epoch=2),
        copy(suspend=False, epoch=2),
    ):
        witness.see_copy("west", obj)
    witness.lose_copy("west", copy(suspend=False, epoch=2))
    assert told(witness) == [
        (What.OFFERED, "west", "train", "attempt 2"),
        (What.STARTED, "west", "train", "attempt 2"),
        (What.STOPPED, "west", "train", "the lease ended"),
        (What.ADOPTED, "west", "train", "1 to 2"),
        (What.STARTED, "west", "train", "attempt 2"),
        (What.REMOVED, "west", "train", "attempt 2"),
    ]


def test_a_status_that_counts_a_pod(witness: Witness) -> None:
    """First that of the copy, then that of the job; both once."""
    for status in ({}, {"active": 1}, {"active": 1, "ready": 1}):
        witness.see_copy("west", {**copy(suspend=True), "status": status})
    for status in ({}, {"active": 1}, {"active": 1, "ready": 1}):
        witness.see_local({"metadata": {"name": "train"}, "status": status})
    assert told(witness)[1:] == [(What.ACTIVE, "west", "train", ""), (What.ACTIVE, "", "train", "")]


def test_another_copy_of_the_same_name_is_offered_anew(witness: Witness) -> None:
    """What happened to the first one says nothing about the second."""
    witness.see_copy("west", copy(suspend=False, epoch=1))
    witness.see_copy("west", copy(suspend=True, uid="u2", epoch=2))
    assert [mark[0] for mark in told(witness)] == [What.OFFERED, What.STARTED, What.OFFERED]


def test_the_life_of_a_lease(witness: Witness) -> None:
    """Renewals, the fence, which is no renewal, and the next epoch. What is seen first was renewed
    at some time before.
    """
    for obj in (
        lease("t1"),
        lease("t1"),
        lease("t2"),
        lease("t2", holder=FENCED, epoch=2),
        lease("t3", epoch=2),
    ):
        witness.see_lease(obj)
    assert told(witness) == [
        (What.RENEWED, "west", "", ""),
        (What.FENCED, "west", "", ""),
        (What.EPOCH, "west", "", "2"),
        (What.RENEWED, "west", "", ""),
    ]


def test_a_renewal_that_is_seen_late_counts_from_when_it_was_sent(witness: Witness) -> None:
    """Unless the clock of its agent says otherwise than ours."""
    witness.see_lease(lease("t1"))
    for seconds in (-2, -600, 600):
        sent = datetime.now(UTC) + timedelta(seconds=seconds)
        witness.see_lease(lease(sent.isoformat().replace("+00:00", "Z")))
    late, *others = witness.timeline.find(What.RENEWED)
    now = boottime()
    assert 1.9 < now - late.at < 10.0
    assert all(now - other.at < 1.5 for other in others)


def test_leases_of_others_are_none_of_ours(witness: Witness) -> None:
    """The manager's own canary stands in the same namespace."""
    witness.see_lease({"metadata": {"name": "fedq-canary", "uid": "x"}, "spec": {}})
    assert told(witness) == []


def test_who_leads_is_told_when_it_changes(witness: Witness) -> None:
    """From the Lease of the election; renewals say nothing."""
    for holder in ("m1", "m1", "m2"):
        meta = {"name": "fedq-manager", "uid": "x"}
        witness.see_lease({"metadata": meta, "spec": {"holderIdentity": holder}})
    assert told(witness) == [(What.LEADER, "", "", "m1"), (What.LEADER, "", "", "m2")]


def test_a_job_is_bound_evicted_and_finished(witness: Witness) -> None:
    """From the Workload and the Job on the management cluster."""
    owner = [{"name": "train"}]
    binding = {"cluster": "west", "attempt": 1}
    bound = {"metadata": {"ownerReferences": owner}, "status": {"fedq": binding}}
    lost = {"type": "Evicted", "status": "True", "reason": "ClusterLost"}
    evicted = {**bound, "status": {"fedq": binding, "conditions": [lost]}}
    moved = {**bound, "status": {"fedq": {"cluster": "east", "attempt": 2}}}
    for obj in (bound, bound, evicted, moved):
        witness.see_workload(obj)
    done = {"type": "Complete", "status": "True"}
    witness.see_local({"metadata": {"name": "train"}, "status": {"conditions": [done]}})
    assert told(witness) == [
        (What.BOUND, "west", "train", "attempt 1"),
        (What.EVICTED, "west", "train", "ClusterLost"),
        (What.BOUND, "east", "train", "attempt 2"),
        (What.FINISHED, "", "train", "Complete"),
    ]


def test_phases_and_warnings_are_told_when_they_change(witness: Witness) -> None:
    """A repeated event is the same event; a Normal one is no warning."""
    for phase in ("Ready", "Ready", "Suspect"):
        obj = {"metadata": {"name": "west"}, "status": {"fedq": {"phase": phase}}}
        witness.see_cluster(obj)
    for kind, uid in (("Normal", "e0"), ("Warning", "e1"), ("Warning", "e1")):
        event = {"metadata": {"uid": uid}, "type": kind, "reason": "R", "message": "m"}
        witness.see_event({**event, "involvedObject": {"name": "train"}})
    assert told(witness) == [
        (What.PHASE, "west", "", "Ready"),
        (What.PHASE, "west", "", "Suspect"),
        (What.WARNED, "", "train", "R: m"),
    ]
