"""Leaving a cluster and coming back: the two phases of an eviction, as the record keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.api import departure
from federation.api import record as records
from federation.api import record_patches as patches
from federation.api.life import moment, wire_moment
from federation.api.names import ConditionType
from federation.core import effects as do
from federation.core.backoff import RequeueState
from federation.core.controls import Nothing, control
from federation.core.facts import Queues, Record
from federation.core.policies import AdmissionCheck
from federation.core.types import ClusterQueue
from tests.unit.jobs.stored import ADMISSION, BINDING, QUEUES, T1, T2, T3, Json, Stored

TWO = Queues(
    cluster=ClusterQueue("q", checks=(AdmissionCheck("budget"), AdmissionCheck("check"))),
    own_check="check",
)


@pytest.fixture
def stored() -> Stored:
    return Stored()


def evict(reason: str, cause: str = "", **requeue: Any) -> do.Evict:
    return do.Evict(reason, f"because of {reason}", cause, RequeueState(**requeue))


def running(stored: Stored, queues: Queues = QUEUES) -> Record:
    """Bound at T1 and admitted at T2, its pods ready."""
    record = stored.write(patches.bind_patch(stored.record, ADMISSION, BINDING, queues))
    return stored.write(patches.admit_patch(record, "a", queues.own_check, True, T2))


def after(time: str, seconds: float) -> str:
    return wire_moment((moment(time) or 0.0) + seconds)


def told(stored: Stored, kind: ConditionType) -> tuple[str, str]:
    found = stored.condition(kind)
    return found["status"], found["reason"]


def test_phase_one_holds_the_quota(stored: Stored) -> None:
    """Evicted and Preempted say why; reservation, admission and binding stand, the cluster's name
    and the checks start over.
    """
    record = running(stored)
    record = stored.write(departure.evict_patch(record, evict("Preempted", "InClusterQueue"), T3))

    assert told(stored, ConditionType.EVICTED) == ("True", "Preempted")
    assert told(stored, ConditionType.PREEMPTED) == ("True", "InClusterQueue")
    assert told(stored, ConditionType.QUOTA_RESERVED) == ("True", "QuotaReserved")
    assert (record.binding, record.admission, record.admitted) == (BINDING, ADMISSION, True)
    assert (record.evicted_message, record.evicted_at) == ("because of Preempted", moment(T3))
    assert "clusterName" not in stored.obj["status"]
    (check,) = stored.obj["status"]["admissionChecks"]
    assert check["state"] == "Pending"
    counts = [{"reason": "Preempted", "underlyingCause": "", "count": 1}]
    assert stored.obj["status"]["schedulingStats"]["evictions"] == counts
    assert "requeueState" not in stored.obj["status"]


def test_both_phases_in_one_write(stored: Stored) -> None:
    """It says what the two would have said one after the other."""
    effect = evict("ClusterLost", count=2)
    both = Stored()
    record = running(both)
    together = both.write(departure.evict_patch(record, replace(effect, unbind=True), T3))
    record = stored.write(departure.evict_patch(running(stored), effect, T3))
    unbind = do.Unbind("PendingEvaluation", record.evicted_message, evicted=True)
    apart = stored.write(departure.unbind_patch(record, unbind, T3))

    assert (together.binding, together.admission, together.attempt) == (None, None, 3)
    assert (together.life.evicted, together.evicted_at) == ("ClusterLost", moment(T3))
    assert both.obj["status"] == stored.obj["status"]
    assert replace(together, version=apart.version, uid=apart.uid) == apart


def test_phase_two_frees_it(stored: Stored) -> None:
    """And everything that belonged to the stay is over."""
    record = stored.write(departure.evict_patch(running(stored), evict("Preempted", "X"), T3))
    unbind = do.Unbind("PendingEvaluation", record.evicted_message, evicted=True)
    record = stored.write(departure.unbind_patch(record, unbind, "2026-01-01T00:01:40Z"))

    assert (record.binding, record.admission, record.attempt) == (None, None, 3)
    assert (record.reason, record.message) == ("PendingEvaluation", "because of Preempted")
    assert told(stored, ConditionType.ADMITTED) == ("False", "NoReservation")
    assert told(stored, ConditionType.PODS_READY) == ("False", "WaitForStart")
    assert told(stored, ConditionType.REQUEUED) == ("True", "Preempted")
    assert stored.obj["status"]["accumulatedPastExecutionTimeSeconds"] == 98
    assert not record.life.requeued


def test_time_counts_over_moves_without_what_it_stood_still(stored: Stored) -> None:
    """Kueue's sum over all admissions, but for the time in which a lost lease held it: of ten
    minutes six are used, so it is stopped after four more.
    """
    record = running(stored)
    effect = replace(evict("ClusterLost"), unbind=True, idle_s=60.0)
    record = stored.write(departure.evict_patch(record, effect, after(T2, 420)))
    assert record.life.accumulated_past_s == 360
    record = stored.write(patches.bind_patch(record, ADMISSION, BINDING, TWO))
    record = stored.write(patches.admit_patch(record, "b", "", True, after(T2, 1000)))
    life = replace(record.life, max_execution_s=600, checks=())
    at = record.life.admitted_at or 0.0
    assert control(life, None, at + 1) == Nothing(at + 240)


def test_a_copy_that_was_held_before_it_was_admitted(stored: Stored) -> None:
    """It is noted for how long, until it is bound anew; nothing of that is time that it ran."""
    record = stored.write(patches.bind_patch(stored.record, ADMISSION, BINDING, TWO))
    record = stored.write(patches.admit_patch(record, "a", "", True, T2, 600))
    assert record.binding is not None
    assert record.binding.held_before == 600
    effect = replace(evict("ClusterLost"), unbind=True, idle_s=0.0)
    record = stored.write(departure.evict_patch(record, effect, after(T2, 10)))
    assert record.life.accumulated_past_s == 10
    record = stored.write(patches.bind_patch(record, ADMISSION, BINDING, TWO))
    assert record.binding is not None
    assert record.binding.held_before == 0


@pytest.mark.parametrize(
    ("reason", "requeued"),
    [
        ("Preempted", "True"),
        ("NodeFailures", "True"),
        ("EvictedOnWorkerCluster", "True"),
        ("PodsReadyTimeout", "False"),
        ("AdmissionCheck", "False"),
        ("ClusterQueueStopped", "False"),
        ("LocalQueueStopped", "False"),
        ("Deactivated", "False"),
        ("DeactivatedDueToRequeuingLimitExceeded", "False"),
    ],
)
def test_who_may_queue_at_once(stored: Stored, reason: str, requeued: str) -> None:
    """The others wait until something says so; the reason of Requeued is that of the eviction."""
    record = stored.write(departure.evict_patch(running(stored), evict(reason), T3))
    stored.write(departure.unbind_patch(record, do.Unbind("r", "m", evicted=True), T3))
    assert told(stored, ConditionType.REQUEUED) == (requeued, reason)


def test_the_next_reservation_ends_it(stored: Stored) -> None:
    """Evicted and Preempted become False, with what they said."""
    record = stored.write(departure.evict_patch(running(stored), evict("Preempted", "X"), T2))
    record = stored.write(departure.unbind_patch(record, do.Unbind("r", "m", evicted=True), T3))
    again = replace(BINDING, cluster="b", attempt=4, bound_at=T3)
    record = stored.write(patches.bind_patch(record, ADMISSION, again, QUEUES))

    assert record.binding == again
    for kind in (ConditionType.EVICTED, ConditionType.PREEMPTED):
        assert told(stored, kind) == ("False", "QuotaReserved")
        assert stored.condition(kind)["message"] == "Previously: because of Preempted"
    assert (record.life.evicted, record.evicted_at) == ("", None)


def test_a_binding_taken_away_by_hand(stored: Stored) -> None:
    """What was admitted there is so no more; the next reservation says it."""
    record = running(stored)
    record = stored.write({"status": {"fedq": None}})
    assert (record.binding, record.admitted) == (None, False)
    again = replace(BINDING, cluster="b", attempt=4, bound_at=T3)
    record = stored.write(patches.bind_patch(record, ADMISSION, again, QUEUES))

    assert (record.binding, record.admitted) == (again, False)
    assert told(stored, ConditionType.ADMITTED) == ("False", "NoReservation")


def test_each_eviction_has_its_own_time(stored: Stored) -> None:
    """Retention and the place in the queue count from the last one."""
    record = stored.write(departure.evict_patch(running(stored), evict("Preempted", "X"), T2))
    record = stored.write(departure.evict_patch(record, evict("Deactivated"), T3))
    assert (record.life.evicted, record.evicted_at) == ("Deactivated", moment(T3))


def test_counts_by_reason_and_cause(stored: Stored) -> None:
    """Deactivations count as such, with what led to them as the cause."""
    record = running(stored)
    for reason, cause in (
        ("PodsReadyTimeout", "WaitForStart"),
        ("PodsReadyTimeout", "WaitForStart"),
        ("DeactivatedDueToRequeuingLimitExceeded", "RequeuingLimitExceeded"),
    ):
        record = stored.write(departure.evict_patch(record, evict(reason, cause), T3))
    counts = stored.obj["status"]["schedulingStats"]["evictions"]
    assert [tuple(entry.values()) for entry in counts] == [
        ("PodsReadyTimeout", "WaitForStart", 2),
        ("Deactivated", "RequeuingLimitExceeded", 1),
    ]


def test_backoff_is_kept_until_it_is_over(stored: Stored) -> None:
    """The time is rounded up to what the API can say; the count survives it."""
    at = (moment(T3) or 0.0) + 60.2
    effect = evict("PodsReadyTimeout", "WaitForStart", count=2, at=at)
    record = stored.write(departure.evict_patch(running(stored), effect, T3))
    assert stored.obj["status"]["requeueState"] == {
        "count": 2,
        "requeueAt": "2026-01-01T00:01:04Z",
    }
    record = stored.write(departure.unbind_patch(record, do.Unbind("r", "m", evicted=True), T3))
    assert record.life.requeue == RequeueState(2, (moment(T3) or 0.0) + 61)
    record = stored.write(departure.readmit_patch(record, "BackoffFinished", "over", T3))
    assert record.life.requeue == RequeueState(2, None)
    assert told(stored, ConditionType.REQUEUED) == ("True", "BackoffFinished")


def test_deactivated_while_it_waits(stored: Stored) -> None:
    """One write: there is nothing to stop. The target is gone with it."""
    record = stored.write(departure.target_patch(stored.record, "AdmissionCheck", "rejected", T1))
    assert record.life.target == ("AdmissionCheck", "rejected")
    effect = evict("DeactivatedDueToAdmissionCheck", "AdmissionCheck")
    record = stored.write(departure.evict_patch(record, effect, T2))

    assert record.life.target is None
    assert record.life.requeued == "DeactivatedDueToAdmissionCheck"


def test_a_reservation_that_was_not_used(stored: Stored) -> None:
    """Released without an eviction: what checks have said stands."""
    record = stored.write(patches.bind_patch(stored.record, ADMISSION, BINDING, TWO))
    approve(stored, "budget")
    unbind = do.Unbind("Suspended", "The ClusterQueue is stopped", evicted=False)
    record = stored.write(departure.unbind_patch(stored.record, unbind, T3))

    assert record.reason == "Suspended"
    assert records.find(stored.obj["status"], ConditionType.EVICTED) is None
    assert records.find(stored.obj["status"], ConditionType.ADMITTED) is None
    assert {check.name: check.state for check in record.life.checks}["budget"] == "Ready"
    assert "accumulatedPastExecutionTimeSeconds" not in stored.obj["status"]


def approve(stored: Stored, name: str) -> None:
    """Another controller decides its check, with additions that the core does not know whole."""
    checks: list[Json] = stored.obj["status"]["admissionChecks"]
    tolerations = [{"key": "k", "operator": "Exists", "tolerationSeconds": 7}]
    ready = {
        "state": "Ready",
        "message": "granted",
        "podSetUpdates": [{"name": "main", "labels": {"b": "c"}, "tolerations": tolerations}],
        "unknown": "kept",
    }
    changed = [{**check, **ready} if check["name"] == name else check for check in checks]
    stored.write({"status": {"admissionChecks": changed}})


def test_checks_of_others_are_kept_as_they_are(stored: Stored) -> None:
    """Bind lists what is needed, Admit says Ready of our own; neither touches another entry."""
    stored.write(patches.bind_patch(stored.record, ADMISSION, BINDING, TWO))
    approve(stored, "budget")
    budget = stored.obj["status"]["admissionChecks"][0]
    record = stored.write(patches.admit_patch(stored.record, "a", "check", None, T3))

    assert stored.obj["status"]["admissionChecks"][0] == budget
    assert [check.state for check in record.life.checks] == ["Ready", "Ready"]
    assert record.life.checks[0].updates[0].labels == {"b": "c"}


def test_a_retry_is_counted_and_its_additions_are_dropped(stored: Stored) -> None:
    """After the eviction a check decides anew."""
    running(stored, TWO)
    approve(stored, "budget")
    checks = stored.obj["status"]["admissionChecks"]
    stored.write({"status": {"admissionChecks": [{**checks[0], "state": "Retry"}, checks[1]]}})
    stored.write(departure.evict_patch(stored.record, evict("AdmissionCheck"), T3))

    budget, own = stored.obj["status"]["admissionChecks"]
    assert (budget["state"], budget["retryCount"]) == ("Pending", 1)
    assert "podSetUpdates" not in budget
    assert (own["state"], own.get("retryCount")) == ("Pending", None)


def test_checks_that_came_or_went(stored: Stored) -> None:
    """Exactly those that are needed; our own one is Ready while a cluster runs the job."""
    record = running(stored, Queues(cluster=ClusterQueue("q")))
    record = stored.write(departure.checks_patch(record, TWO, T3))
    assert {check.name: check.state for check in record.life.checks} == {
        "budget": "Pending",
        "check": "Ready",
    }
    record = stored.write(departure.checks_patch(record, QUEUES, T3))
    assert [check.name for check in record.life.checks] == ["check"]


def test_readiness(stored: Stored) -> None:
    """Started, waiting for recovery, recovered: the time moves with the status."""
    record = stored.write(patches.bind_patch(stored.record, ADMISSION, BINDING, QUEUES))
    record = stored.write(patches.admit_patch(record, "a", "check", False, T1))
    seen = [told(stored, ConditionType.PODS_READY)]
    for ready, now in ((True, T2), (False, T3), (True, T3)):
        record = stored.write(departure.pods_ready_patch(record, ready, now))
        seen.append(told(stored, ConditionType.PODS_READY))
        life = record.life
        assert (life.pods_ready, life.pods_ready_changed_at) == (ready, moment(now))
        assert life.pods_were_ready is not ready
    assert seen == [
        ("False", "WaitForStart"),
        ("True", "Started"),
        ("False", "WaitForRecovery"),
        ("True", "Recovered"),
    ]


def test_the_end_says_that_the_pods_were_ready(stored: Stored) -> None:
    """A short job never gets a note of its own for that."""
    record = stored.write(patches.bind_patch(stored.record, ADMISSION, BINDING, QUEUES))
    record = stored.write(patches.admit_patch(record, "a", "check", False, T1))
    stored.write(patches.finish_patch(record, "Complete", "well done", T2, pods_ready=True))
    assert told(stored, ConditionType.PODS_READY) == ("True", "Started")
    assert told(stored, ConditionType.FINISHED) == ("True", "Succeeded")


def test_it_could_not_be_started(stored: Stored) -> None:
    """The end has that reason."""
    record = stored.write(patches.finish_patch(stored.bound(), "FailedToStart", "labels", T2))
    assert told(stored, ConditionType.FINISHED) == ("True", "FailedToStart")
    assert (record.finished, record.finished_at) == (True, moment(T2))
