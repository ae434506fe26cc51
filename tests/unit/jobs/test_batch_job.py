"""batch/v1 Job: facts, statuses both ways, and the admission record on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.facts import LocalJob, RemoteJob
from federation.core.types import Admission, PodSetAssignment, ResourceFlavor, Toleration
from federation.edge.resources import JOBS
from federation.jobs import batch_job
from tests.fakes.kube_api import FakeKube
from tests.unit.core import build
from tests.unit.core.build import FEW

Json = dict[str, Any]
T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


def job(**spec: Any) -> Json:
    """A local Job as the API server would give it."""
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    return {
        "metadata": {
            "name": "j",
            "namespace": "n",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": T1,
            "labels": {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "high"},
        },
        "spec": {
            "managedBy": "kueue.x-k8s.io/multikueue",
            "suspend": True,
            "template": template,
            **spec,
        },
    }


def true(*kinds: str) -> list[Json]:
    return [{"type": kind, "status": "True"} for kind in kinds]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 3}, 3),
        ({"parallelism": 3, "completions": 2}, 2),
        ({"parallelism": 3, "completions": 5}, 3),
        ({"completions": 5}, 1),
        ({"parallelism": 0, "completions": 5}, 0),
        ({"parallelism": 0}, 0),
    ],
)
def test_pod_count(spec: Json, count: int) -> None:
    """Never more pods at once than completions need."""
    (found,) = batch_job.pod_sets(job(**spec))
    assert (found.name, found.count) == ("main", count)


def test_local_job() -> None:
    """Facts of a waiting Job, and of one that has started."""
    found = batch_job.local_job(job())
    assert (found.queue, found.priority_class, found.version) == ("lq", "high", 7)
    assert (found.suspended, found.started, found.finished, found.problem) == (True, False, "", "")
    assert found.created == 1767225660.0
    running = job(suspend=False) | {"status": {"startTime": T1, "conditions": true("Complete")}}
    found = batch_job.local_job(running)
    assert (found.suspended, found.started, found.finished) == (False, True, "Complete")


@pytest.mark.parametrize("manager", [{}, {"managedBy": "kubernetes.io/job-controller"}])
def test_a_job_that_runs_here(manager: Json) -> None:
    """A Job that this cluster's own controller runs is not managed, and the message says why."""
    body = job()
    del body["spec"]["managedBy"]
    body["spec"].update(manager)
    assert "Job controller runs it" in batch_job.local_job(body).problem


def test_a_request_that_cannot_be_read() -> None:
    """It is a problem of that Job, not of the manager."""
    body = job()
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"] = {"cpu": "some"}
    found = batch_job.local_job(body)
    assert found.pod_sets == ()
    assert "cpu: 'some' is not a quantity" in found.problem


def test_remote_job() -> None:
    """The agent's answers are read from the annotations."""
    body = job()
    body["metadata"]["annotations"] = {
        "fedq.io/attempt": "2",
        "fedq.io/refused": "WaitingForQuota: gpu: 0 free, 1 needed",
        "fedq.io/deciding": "2026-01-01T00:00:30+00:00",
    }
    body["metadata"]["deletionTimestamp"] = T1
    found = batch_job.remote_job("a", body)
    assert (found.cluster, found.attempt, found.terminating) == ("a", 2, True)
    assert (found.refused_reason, found.refused) == ("WaitingForQuota", "gpu: 0 free, 1 needed")
    assert found.deciding_until == batch_job.timestamp(T0) + 30


@pytest.mark.parametrize("text", ["no", "WaitingForQuota", "a:b", ": "])
def test_a_refusal_in_other_words(text: str) -> None:
    """Any refusal is one, also without a reason in front of it."""
    body = job()
    body["metadata"]["annotations"] = {"fedq.io/refused": text}
    assert batch_job.remote_job("a", body).refused


@pytest.mark.parametrize("text", ["soon", "2026-13-01T00:00:00Z", "1"])
def test_a_time_that_cannot_be_read(text: str) -> None:
    """What people write into an annotation on a worker does not stop the manager."""
    body = job()
    body["metadata"]["annotations"] = {"fedq.io/deciding": text}
    assert batch_job.remote_job("a", body).deciding_until == 0.0


MERGES: dict[str, tuple[Json, Json, Json]] = {
    "the copy's status as it is": (
        {},
        {"startTime": T1, "active": 2, "ready": 1},
        {"startTime": T1, "active": 2, "ready": 1},
    ),
    "startTime is kept: it may not change while unsuspended": (
        {"startTime": T0},
        {"startTime": T1, "active": 1},
        {"startTime": T0, "active": 1},
    ),
    "counts never go down": (
        {"succeeded": 2, "failed": 1},
        {"active": 1},
        {"succeeded": 2, "failed": 1, "active": 1},
    ),
    "counts go up": (
        {"succeeded": 2, "failed": 1},
        {"succeeded": 3},
        {"succeeded": 3, "failed": 1},
    ),
    "pods to be counted are the worker's business": (
        {},
        {"active": 1, "uncountedTerminatedPods": {"succeeded": ["p"]}},
        {"active": 1},
    ),
    "what the copy dropped is dropped": (
        {"active": 2, "ready": 2, "terminating": 1},
        {"ready": 0},
        {"ready": 0},
    ),
}


@pytest.mark.parametrize("name", MERGES)
def test_merge_status(name: str) -> None:
    """DESIGN §4, status back."""
    ours, theirs, expected = MERGES[name]
    assert batch_job.merge_status(ours, theirs) == expected


def test_a_held_job_goes_on() -> None:
    """Its pods stand still for a while and start anew: the local Job shows that, and one start.

    Every status has to be accepted by the rules of the API server, without suspending the Job.
    """
    write = server_of_a_running_job()
    now = write(batch_job.merge_status({}, {"startTime": T0, "active": 1, "ready": 1}))
    stands = {"ready": 0, "conditions": true("Suspended")}
    now = write(batch_job.merge_status(now, stands))
    assert (now.get("active", 0), now["ready"], now["startTime"]) == (0, 0, T0)
    assert [c["type"] for c in now["conditions"]] == ["Suspended"]
    goes_on = {"startTime": T1, "active": 1, "ready": 1}
    now = write(batch_job.merge_status(now, goes_on))
    assert (now["active"], now["startTime"]) == (1, T0)
    done = true("SuccessCriteriaMet", "Complete")
    ended = {"startTime": T1, "succeeded": 1, "completionTime": T2, "conditions": done}
    assert write(batch_job.merge_status(now, ended))["completionTime"] == T2


def test_what_is_about_to_end_is_not_shown() -> None:
    """It cannot be taken back, and a job that is lost then is complete elsewhere."""
    write = server_of_a_running_job()
    failing = {"startTime": T1, "failed": 1, "terminating": 1, "conditions": true("FailureTarget")}
    now = write(batch_job.merge_status({}, failing))
    assert (now["failed"], now["terminating"], now.get("conditions")) == (1, 1, [])
    done = true("SuccessCriteriaMet", "Complete")
    ended = {"startTime": T1, "succeeded": 1, "completionTime": T2, "conditions": done}
    assert batch_job.finished(write(batch_job.merge_status(now, ended))) == "Complete"


def test_a_result_of_an_earlier_attempt() -> None:
    """It ended before the attempt started that is shown: no sooner than that, then."""
    write = server_of_a_running_job()
    now = write(batch_job.merge_status({}, {"startTime": T1, "active": 1, "ready": 1}))
    done = true("SuccessCriteriaMet", "Complete")
    ended = {"startTime": "2025-01-01T00:00:00Z", "succeeded": 1, "completionTime": T0}
    now = write(batch_job.merge_status(now, {**ended, "conditions": done}))
    assert (now["startTime"], now["completionTime"]) == (T1, T1)


def server_of_a_running_job() -> Callable[[Json], Json]:
    fake = FakeKube(namespaces=("n",))
    spec = {"restartPolicy": "Never", "containers": []}
    body = {"metadata": {"name": "j", "namespace": "n"}, "spec": {"template": {"spec": spec}}}
    fake.create(JOBS, body)

    def write(status: Json) -> Json:
        stored = fake.get(JOBS, "j", "n")
        fake.objects.update(JOBS, ("n", "j"), {**stored, "status": status}, status=True)
        return dict(fake.get(JOBS, "j", "n")["status"])

    return write


def test_what_a_copy_says_of_its_lease() -> None:
    """Epoch, policy, limit, and why it stands still."""
    body = job()
    plain = batch_job.remote_job("a", body)
    assert (plain.epoch, plain.policy, plain.rerun_after, plain.held) == (0, "stop", None, "")
    body["metadata"]["annotations"] = {
        "fedq.io/epoch": "7",
        "fedq.io/on-disconnect": "keep",
        "fedq.io/rerun-after": "90",
        "fedq.io/held": "the lease is over",
        "fedq.io/breaks": "4",
    }
    found = batch_job.remote_job("a", body)
    assert (plain.breaks, found.breaks) == (0, 4)
    assert (found.epoch, found.policy, found.rerun_after) == (7, "keep", 90.0)
    assert found.held == "the lease is over"


def states(ours: Json, theirs: Json, **more: Any) -> tuple[LocalJob, RemoteJob]:
    return build.local(status=ours), build.copy(status=theirs, **more)


TRANSIT = {"active": 0, "uncountedTerminatedPods": {"succeeded": ["p"]}}


@pytest.mark.parametrize(
    ("ours", "theirs", "more", "behind"),
    [
        ({}, {}, {}, False),
        ({}, {"active": 1}, {}, True),
        ({"active": 1}, {"active": 1}, {}, False),
        ({"active": 1, "startTime": T0}, {"active": 1, "startTime": T1}, {}, False),
        ({"succeeded": 2}, {"succeeded": 1}, {}, False),
        ({"active": 1}, TRANSIT, {}, False),
        ({"active": 1}, TRANSIT, {"gone": True}, True),
        ({"active": 1}, {"conditions": true("SuccessCriteriaMet")}, {}, False),
        ({"active": 1}, {"conditions": true("FailureTarget"), "terminating": 1}, {}, True),
        ({"active": 1}, {"conditions": true("SuccessCriteriaMet", "Complete")}, {}, True),
        ({"active": 1}, {"uncountedTerminatedPods": {}, "active": 1}, {}, False),
    ],
)
def test_is_behind(ours: Json, theirs: Json, more: Json, behind: bool) -> None:
    """A write is due when it would change something and the worker is not between two writes."""
    assert batch_job.is_behind(*states(ours, theirs, **more)) is behind


STATUS = st.fixed_dictionaries(
    {},
    optional={
        "startTime": st.sampled_from([T0, T1]),
        "active": st.integers(0, 3),
        "ready": st.integers(0, 3),
        "succeeded": st.integers(0, 3),
        "failed": st.integers(0, 3),
        "terminating": st.integers(0, 3),
    },
)


@FEW
@given(STATUS, STATUS)
def test_merging_twice_changes_nothing(ours: Json, theirs: Json) -> None:
    """So a status that was written is not written again, and counts never went down."""
    merged = batch_job.merge_status(ours, theirs)
    assert batch_job.merge_status(merged, theirs) == merged
    assert not batch_job.is_behind(*states(merged, theirs))
    for field in ("succeeded", "failed"):
        assert merged.get(field, 0) >= ours.get(field, 0)


def test_a_moved_job_on_the_api_server() -> None:
    """DESIGN §4: a Job that had succeeded=2, failed=1 leaves a cluster and runs on another.

    Every status has to be accepted by the rules of the API server.
    """
    fake = FakeKube(namespaces=("n",))
    spec = {"restartPolicy": "Never", "containers": []}
    body = {
        "metadata": {"name": "j", "namespace": "n"},
        "spec": {"suspend": False, "completions": 4, "template": {"spec": spec}},
    }
    fake.create(JOBS, body)

    def write(status: Json) -> Json:
        stored = fake.get(JOBS, "j", "n")
        fake.objects.update(JOBS, ("n", "j"), {**stored, "status": status}, status=True)
        return dict(fake.get(JOBS, "j", "n")["status"])

    first = {"startTime": T0, "active": 1, "ready": 1, "succeeded": 2, "failed": 1}
    now = write(batch_job.merge_status({}, first))
    fake.merge(JOBS, "j", {"spec": {"suspend": True}}, "n")
    now = write(batch_job.reset_status(now, T1))
    assert "startTime" not in now
    assert (now.get("active", 0), now["ready"]) == (0, 0)
    assert (now["succeeded"], now["failed"]) == (2, 1)
    fake.merge(JOBS, "j", {"spec": {"suspend": False}}, "n")
    now = write(batch_job.merge_status(now, {"startTime": T1, "active": 2, "ready": 0}))
    assert (now["startTime"], now["succeeded"]) == (T1, 2)
    done = true("SuccessCriteriaMet", "Complete")
    ended = {"startTime": T1, "succeeded": 4, "completionTime": T2, "conditions": done}
    now = write(batch_job.merge_status(now, ended))
    assert (now["succeeded"], now["failed"]) == (4, 1)


def test_reset_status_keeps_other_conditions() -> None:
    """Once Suspended, once only."""
    status = {"conditions": [*true("Suspended"), *true("Other")], "active": 3, "terminating": 1}
    now = batch_job.reset_status(status, T1)
    assert [c["type"] for c in now["conditions"]] == ["Other", "Suspended"]
    assert now["conditions"][1]["lastTransitionTime"] == T1
    assert "active" not in now


ADMISSION = Admission(
    "q", (PodSetAssignment("main", 2, {"cpu": "spot", "gpu": "a100"}, {"cpu": 2000, "gpu": 4}),)
)


def test_admission_patch() -> None:
    """One patch: started, the record of the charge, the flavors' labels and tolerations."""
    body = job()
    own = {"key": "k", "operator": "Exists"}
    body["spec"]["template"]["spec"]["tolerations"] = [own]
    flavors = [
        ResourceFlavor(
            "a100",
            node_labels=(("card", "a100"),),
            tolerations=(
                Toleration("k", "Exists"),
                Toleration("gpu", "Equal", "yes", "NoSchedule"),
            ),
        ),
        ResourceFlavor("spot", node_labels=(("spot", "true"),)),
    ]
    patch = batch_job.admission_patch(body, ADMISSION, flavors)

    assert patch["metadata"]["uid"] == "u"
    assert patch["spec"]["suspend"] is False
    added = {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    assert patch["spec"]["template"]["spec"] == {
        "nodeSelector": {"card": "a100", "spot": "true"},
        "tolerations": [own, added],
    }
    text = patch["metadata"]["annotations"]["fedq.io/admission"]
    assert batch_job.decode_admission(text) == ADMISSION


def test_admission_patch_without_flavor_rules() -> None:
    """The template is left alone."""
    patch = batch_job.admission_patch(job(), ADMISSION, [ResourceFlavor("spot")])
    assert patch["spec"] == {"suspend": False}


NAMES = st.text(min_size=1, max_size=5)
ADMISSIONS = st.builds(
    Admission,
    NAMES,
    st.lists(
        st.builds(
            lambda name, count, usage: PodSetAssignment(
                name, count, dict.fromkeys(usage, "f"), usage
            ),
            NAMES,
            st.integers(0, 1000),
            st.dictionaries(NAMES, st.integers(0, 2**60), max_size=3),
        ),
        max_size=3,
    ).map(tuple),
)


@FEW
@given(ADMISSIONS)
def test_round_trip(admission: Admission) -> None:
    """What the agent writes it reads back."""
    assert batch_job.decode_admission(batch_job.encode_admission(admission)) == admission


def note(**changes: Any) -> str:
    """An admission annotation with a pod set changed by hand."""
    good = {"name": "main", "count": 1, "flavors": {"gpu": "f"}, "usage": {"gpu": 1}}
    return json.dumps({"clusterQueue": "q", "podSets": [{**good, **changes}]})


HOSTILE = {
    "no text": "",
    "no json": "{",
    "null": "null",
    "a number": "5",
    "a list": "[]",
    "no pod sets": '{"clusterQueue":"q"}',
    "no queue": '{"podSets":[]}',
    "a queue that is a list": '{"clusterQueue":[],"podSets":[]}',
    "a queue that is a number": '{"clusterQueue":1,"podSets":[]}',
    "pod sets that are text": '{"clusterQueue":"q","podSets":"abc"}',
    "pod sets that are null": '{"clusterQueue":"q","podSets":null}',
    "a number too long to read": note(count=1).replace('"count": 1', '"count": ' + "9" * 5000),
    "an infinite count": note().replace('"count": 1', '"count": Infinity'),
    "a count in text": note(count="x"),
    "a negative count": note(count=-1),
    "usage in text": note(usage={"gpu": "1"}),
    "usage that is null": note(usage={"gpu": None}),
    "usage that is a fraction": note(usage={"gpu": 1.5}),
    "usage that is not a number": note().replace('"gpu": 1', '"gpu": NaN'),
    "usage that is a truth": note(usage={"gpu": True}),
    "negative usage": note(usage={"gpu": -5}),
    "usage beyond 64 bits": note(usage={"gpu": 2**63}),
    "usage that is a list": note(usage=[1]),
    "flavors that are text": note(flavors="f"),
    "a flavor that is a number": note(flavors={"gpu": 1}),
    "a flavor that is a list": note(flavors={"gpu": []}),
    "a name that is a number": note(name=1),
    "deep nesting": "[" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_admissions_are_none(name: str) -> None:
    """Whoever may write the annotation can neither crash the agent nor gain quota by it."""
    assert batch_job.decode_admission(HOSTILE[name]) is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@FEW
@given(st.fixed_dictionaries({"clusterQueue": JSON_VALUES, "podSets": st.lists(
    st.fixed_dictionaries(dict.fromkeys(("name", "count", "flavors", "usage"), JSON_VALUES)),
    max_size=2)}))  # fmt: skip
def test_any_json(body: Json) -> None:
    """Either nothing, or an admission whose usage can be charged."""
    found = batch_job.decode_admission(json.dumps(body))
    if found is not None:
        assert isinstance(found.cluster_queue, str)
        assert all(type(n) is int and n >= 0 for n in found.usage().values())


def test_timestamps() -> None:
    """Seconds since the epoch; nothing is 0."""
    assert batch_job.timestamp(None) == batch_job.timestamp("") == 0.0
    assert batch_job.timestamp("1970-01-01T00:00:10Z") == 10.0
