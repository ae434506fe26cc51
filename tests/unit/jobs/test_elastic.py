"""What stands on the copy of a batch/v1 Job whose number of pods changes while it runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core.sizes import Asked
from federation.core.types import Admission, PodSetAssignment
from federation.jobs import batch_job, elastic
from federation.jobs.admission_note import original
from federation.jobs.kinds.batch import BatchJob
from federation.jobs.mirror import Identity

Json = dict[str, Any]
IDENTITY = Identity("origin", "u", 1, 1, "2026-01-01T00:00:00Z", 0)
KEY = "kueue.x-k8s.io/elastic-job"


def job(parallelism: int, completions: int | None = 8, *, mode: str = "NonIndexed") -> Json:
    container = {"name": "c", "resources": {"requests": {"gpu": "1"}}}
    spec: Json = {
        "parallelism": parallelism,
        "completionMode": mode,
        "template": {"spec": {"containers": [container]}},
    }
    if completions is not None:
        spec["completions"] = completions
    meta = {"name": "j", "namespace": "team", "uid": "u", "resourceVersion": "7",
            "annotations": {KEY: "true"}, "creationTimestamp": None}  # fmt: skip
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def admitted(count: int) -> Admission:
    return Admission("q", (PodSetAssignment("main", count, {"gpu": "f"}, {"gpu": count}),))


SIZES = {
    "completions stand": (job(4), 2, {"parallelism": 2}),
    "without completions": (job(4, None), 2, {"parallelism": 2}),
    "indexed, and more of them": (job(4, 8, mode="Indexed"), 2, {"parallelism": 2}),
    "indexed, and equal": (
        job(4, 4, mode="Indexed"), 2, {"parallelism": 2, "completions": 2}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_the_numbers_of_a_copy(name: str) -> None:
    """Completions follow only where they were equal, as Kubernetes wants it."""
    body, pods, counts = SIZES[name]
    said = elastic.resized(body, {"main": pods})
    assert said == elastic.resize(said) == counts


REQUESTS: dict[str, tuple[dict[str, str], Asked]] = {
    "nothing": ({}, Asked()),
    "more": ({Mirror.GROW_TO: '{"parallelism":5}'}, Asked({"main": 5})),
    "more than there are completions": ({Mirror.GROW_TO: '{"parallelism":50}'}, Asked({"main": 8})),
    "with completions": ({Mirror.GROW_TO: '{"parallelism":9,"completions":9}'}, Asked({"main": 9})),
    "refused": (
        {Mirror.GROW_TO: '{"parallelism":5}', Mirror.GROW_REFUSED: "W: no room"},
        Asked({"main": 5}, "W: no room"),
    ),
    "no JSON": ({Mirror.GROW_TO: "5 pods"}, Asked({}, "unreadable")),
    "no numbers": ({Mirror.GROW_TO: '{"parallelism":"5"}'}, Asked({}, "unreadable")),
    "too large": ({Mirror.GROW_TO: '{"parallelism":2147483648}'}, Asked({}, "unreadable")),
    "a list": ({Mirror.GROW_TO: "[]"}, Asked({}, "unreadable")),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_what_an_agent_is_asked_for(name: str) -> None:
    """A request that cannot be read counts as refused: the manager takes it away."""
    notes, expected = REQUESTS[name]
    body = job(2)
    body["metadata"]["annotations"] |= {str(key): text for key, text in notes.items()}
    found = elastic.asked(body, elastic.sized)
    if expected.refused == "unreadable":
        assert found.pods == {}
        assert found.refused.startswith("Misconfigured: ")
    else:
        assert found == expected


def test_a_request_says_what_it_is_read_as() -> None:
    body = job(4, 4, mode="Indexed")
    patch = elastic.ask_patch(elastic.resized(body, {"main": 3}))
    copy = job(2, 2, mode="Indexed")
    copy["metadata"]["annotations"] |= patch["metadata"]["annotations"]
    del copy["metadata"]["annotations"][Mirror.GROW_REFUSED]
    assert elastic.asked(copy, elastic.sized) == Asked({"main": 3})
    note = json.loads(copy["metadata"]["annotations"][Mirror.GROW_TO])
    assert note == {"parallelism": 3, "completions": 3}


def test_a_copy_is_never_larger_than_what_was_given() -> None:
    """Whatever the Job asks for since."""
    made = batch_job.remote_manifest(job(5), IDENTITY, admitted(2))
    assert made["spec"]["parallelism"] == 2
    assert batch_job.remote_manifest(job(2), IDENTITY, admitted(2))["spec"]["parallelism"] == 2
    fixed = job(5)
    fixed["metadata"]["annotations"] = {}
    assert batch_job.remote_manifest(fixed, IDENTITY, admitted(2))["spec"]["parallelism"] == 5


def test_a_copy_that_has_grown() -> None:
    """The note says what is charged now, and still what the start replaced; the write loses against
    whatever has been said since.
    """
    body = job(2)
    start = batch_job.admission_patch(body, admitted(2), ())
    note = json.loads(start["metadata"]["annotations"][Mirror.ADMISSION])
    note["original"] = {"template": {"spec": {"nodeSelector": None}}}
    body["metadata"]["annotations"] |= {
        Mirror.ADMISSION.value: json.dumps(note), Mirror.GROW_TO.value: '{"parallelism":4}',
    }  # fmt: skip
    body["spec"]["template"]["spec"]["nodeSelector"] = {"card": "a100"}
    patch = elastic.grown_patch(BatchJob(), body, admitted(4))
    assert patch["spec"] == {"parallelism": 4}
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["metadata"]["annotations"][Mirror.GROW_TO] is None
    written = patch["metadata"]["annotations"][Mirror.ADMISSION]
    assert batch_job.decode_admission(written) == admitted(4)
    body["metadata"]["annotations"][Mirror.ADMISSION.value] = written
    assert "nodeSelector" not in original(body)["spec"]["template"]["spec"]


def test_partial_admission_is_not_for_elastic_jobs() -> None:
    """They grow instead; Kueue's API forbids both."""
    body = job(4)
    body["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] = "2"
    assert batch_job.pod_sets(body)[0].min_count is None
