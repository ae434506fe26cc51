"""Following jobs: what counts as ended, gone, or another job of the same name."""

from __future__ import annotations

from typing import Any

from fedq.board import line
from fedq.following import Follower, Wanted
from fedq.jobview import JobState, job_view
from tests.unit.fedq.conftest import AT, RUNNING, ended, job

Json = dict[str, Any]
KEY = ("default", "a")


def seen(uid: str = "u", status: Json | None = None, version: int = 1) -> Json:
    """A Job as a watch brings it."""
    body = job("a")
    body["metadata"] |= {"uid": uid, "creationTimestamp": AT, "resourceVersion": str(version)}
    return body | {"status": status or {}}


def workload(uid: str, status: Json) -> Json:
    """Its Workload."""
    owner = {"kind": "Job", "name": "a", "uid": uid, "controller": True}
    meta = {"name": "w", "namespace": "default", "uid": "w", "resourceVersion": "1"}
    return {"metadata": {**meta, "ownerReferences": [owner]}, "spec": {}, "status": status}


def test_ends_with_the_last_job() -> None:
    """And stays ended when the Job is deleted afterwards (a TTL)."""
    follower = Follower(Wanted({KEY: "u"}))
    follower.see_job("ADDED", seen())
    assert not follower.done
    follower.see_job("MODIFIED", seen(status=ended("Complete")))
    assert follower.done
    follower.see_job("DELETED", seen(status=ended("Complete")))

    assert follower.gone == set()
    assert [view.state for view in follower.views] == [JobState.COMPLETE]


def test_deleted_before_it_ended() -> None:
    """By an event, or between two listings."""
    by_event, by_list = Follower(Wanted({KEY: "u"})), Follower(Wanted({KEY: "u"}))
    for follower in (by_event, by_list):
        follower.see_job("ADDED", seen())
    by_event.see_job("DELETED", seen())
    by_list.jobs_listed("default", [])

    assert by_event.gone == by_list.gone == {KEY}
    assert by_event.done
    assert by_list.done


def test_a_new_job_of_that_name_is_another_job() -> None:
    """Names are used again; UIDs are not."""
    follower = Follower(Wanted({KEY: "u"}))
    follower.see_job("ADDED", seen("other", ended("Complete")))

    assert follower.views == []
    assert not follower.done


def test_workload_and_one_line() -> None:
    """Cluster and attempt come from the Workload of that very Job."""
    follower = Follower(Wanted({KEY: "u"}))
    follower.see_job("ADDED", seen())
    follower.see_workload("ADDED", workload("other", RUNNING))
    assert follower.views[0].state is JobState.NEW
    follower.see_workload("ADDED", workload("u", RUNNING))

    assert line(follower.views[0]) == "default/a Admitted on east (attempt 2)"


def test_deleting_is_a_state() -> None:
    """It is told apart from running."""
    body = seen()
    body["metadata"]["deletionTimestamp"] = AT

    assert job_view(body, workload("u", RUNNING)).state is JobState.DELETING
