"""Volcano's Job: its copies are whole, and their pods wait for a gate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.pod_updates import PodSetUpdate
from federation.core.types import Admission, PodSetAssignment, ResourceFlavor, Toleration
from federation.jobs.kinds.registry import KINDS
from tests.fakes.patches import merge
from tests.unit.jobs.kinds.samples import template
from tests.unit.jobs.kinds.test_scaled import GATE, IDENTITY, copied, counts, sample

Json = dict[str, Any]
KIND: Any = KINDS["Job.v1alpha1.batch.volcano.sh"]
OTHER = {"name": "example.com/other"}
GOLD = ResourceFlavor(
    "gold",
    node_labels=(("pool", "gold"),),
    tolerations=(Toleration(key="gold", operator="Exists"),),
)


def admitted(**numbers: int) -> Admission:
    given = (PodSetAssignment(name, n, {"cpu": "gold"}, {}) for name, n in numbers.items())
    return Admission("cq", tuple(given))


def started(*updates: PodSetUpdate) -> Json:
    """A copy with a master and four workers, of which three are admitted."""
    copy = copied(KIND.row)
    patch = KIND.admission_patch(copy, admitted(master=1, worker=3), [GOLD], updates)
    return dict(merge(copy, patch))


def pod(task: str, index: int | str, **spec: Any) -> Json:
    """One that Volcano makes."""
    notes = {"volcano.sh/task-spec": task, "volcano.sh/task-index": str(index)}
    meta = {"name": f"j-{task}-{index}", "uid": "p", "resourceVersion": "8", "annotations": notes}
    return {"metadata": meta, "spec": {"schedulingGates": [GATE], **spec}}


def test_a_copy_is_what_was_submitted() -> None:
    """Volcano's webhook takes it as it took the job, and lets nobody change more of it."""
    copy, asked = copied(KIND.row), sample(KIND.row)
    assert copy["spec"]["minAvailable"] == 3
    assert [task["replicas"] for task in copy["spec"]["tasks"]] == [1, 4]
    assert all(r.template["spec"]["schedulingGates"] == [GATE] for r in KIND.roles(copy))
    assert KIND.suspended(copy)
    assert not KIND.managed_elsewhere(copy)
    assert counts(KIND.pod_sets(copy)) == {"master": 1, "worker": 4}

    after = started()
    assert after["spec"] == copy["spec"]
    assert not KIND.suspended(after)
    assert KIND.running(after).active
    assert KIND.original(after) is after
    assert counts(KIND.pod_sets(after)) == counts(KIND.pod_sets(asked))


def test_other_gates_stay_and_a_number_that_is_left_out_is_written() -> None:
    """For Volcano none is 0."""
    body = sample(KIND.row)
    body["spec"]["tasks"] = [{"name": "a", "template": template(schedulingGates=[OTHER])}]
    copy = KIND.remote_manifest(body, IDENTITY, None, VENDORS)
    (task,) = copy["spec"]["tasks"]
    assert task["replicas"] == 1
    assert task["template"]["spec"]["schedulingGates"] == [OTHER, GATE]


def test_a_pod_is_let_go_where_it_was_admitted() -> None:
    """To the nodes of its flavor, with what it had, and what admission checks add."""
    own, added = {"key": "own"}, {"operator": "Exists", "key": "gold"}
    update = PodSetUpdate("worker", annotations={"a": "b"}, node_selector={"zone": "z"})
    waiting = pod("worker", 2, tolerations=[own], schedulingGates=[GATE, OTHER])
    patch = KIND.pod_patch(started(update), waiting)
    assert patch == {
        "metadata": {"annotations": {"a": "b"}, "uid": "p", "resourceVersion": "8"},
        "spec": {
            "nodeSelector": {"pool": "gold", "zone": "z"},
            "tolerations": [own, added],
            "schedulingGates": [OTHER],
        },
    }
    assert KIND.pod_patch(started(), pod("Master", 0))["spec"]["nodeSelector"] == {"pool": "gold"}


@pytest.mark.parametrize(
    "other",
    [
        pod("worker", 3),
        pod("worker", "-1"),
        pod("worker", ""),
        pod("worker", "9" * 5000),
        pod("worker", "²"),
        pod("none", 0),
        pod("worker", 0, schedulingGates=[OTHER]),
    ],
    ids=[
        "beyond what was admitted",
        "no index",
        "none at all",
        "of many digits",
        "of odd ones",
        "of no task",
        "does not wait",
    ],
)
def test_others_stay(other: Json) -> None:
    assert KIND.pod_patch(started(), other) is None


def test_before_an_admission_none_is_let_go() -> None:
    """Nor by a note that makes no sense."""
    copy = copied(KIND.row)
    assert KIND.pod_patch(copy, pod("worker", 0)) is None
    for text in ("{", "[]", json.dumps({"clusterQueue": "cq", "podSets": []})):
        copy["metadata"]["annotations"][Mirror.ADMISSION.value] = text
        assert KIND.pod_patch(copy, pod("worker", 0)) is None
    note = json.loads(started()["metadata"]["annotations"][Mirror.ADMISSION.value])
    for original in ({}, {"pods": []}, {"pods": {"worker": 3}}):
        text = json.dumps({**note, "original": original})
        copy["metadata"]["annotations"][Mirror.ADMISSION.value] = text
        assert KIND.pod_patch(copy, pod("worker", 0)) is None


def test_a_copy_of_an_earlier_version_is_not_admitted() -> None:
    """It has no pods to let go."""
    copy = copied(KIND.row)
    assert KIND.problem(copy) == ""
    for task in copy["spec"]["tasks"]:
        del task["template"]["spec"]["schedulingGates"]
    assert "earlier version" in KIND.problem(copy)


def test_it_is_ready_by_its_gang() -> None:
    copy = started()
    assert not KIND.ready({**copy, "status": {"running": 2}})
    assert KIND.ready({**copy, "status": {"running": 2, "succeeded": 1}})
    assert not KIND.ready({**copied(KIND.row), "status": {"running": 3}})


@pytest.mark.parametrize(
    ("phase", "ended"),
    [
        *((phase, "") for phase in ("Pending", "Running", "Restarting", "Completing", "Aborting")),
        *((phase, "Failed") for phase in ("Failed", "Terminated", "Aborted")),
        ("Completed", "Complete"),
    ],
)
def test_how_it_has_ended(phase: str, ended: str) -> None:
    """When none of its pods is ending any more."""
    state = {"state": {"phase": phase, "message": "oh"}}
    remote = KIND.remote_job("w", {**started(), "status": state})
    assert (remote.finished, remote.ending) == (ended, "oh" if ended else "")
    assert KIND.finished({**started(), "status": {**state, "terminating": 1}}) == ""


def test_its_status_at_home_is_of_others_until_it_has_ended() -> None:
    """Volcano's controllers write there too, if they run there."""
    waits = {"state": {"phase": "Pending"}, "pending": 5}
    ended = {"state": {"phase": "Completed"}, "succeeded": 5}
    local = KIND.local_job(sample(KIND.row, waits))
    assert local.status == {}
    running = KIND.remote_job("w", {**started(), "status": {"running": 5}})
    done = KIND.remote_job("w", {**started(), "status": ended})
    assert not KIND.is_behind(local, running)
    assert KIND.is_behind(local, done)
    shown = KIND.local_job(sample(KIND.row, {**ended, "succeeded": 0, "version": 7}))
    assert shown.finished == "Complete"
    assert not KIND.is_behind(shown, done)
