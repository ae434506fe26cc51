"""The copy on a worker: golden input and output."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from federation.core.failover import OnDisconnect
from federation.core.wishes import Disconnect
from federation.jobs import batch_job
from federation.jobs.mirror import Identity, mirrored_attempt, mirrored_priority

Json = dict[str, Any]

KEPT = Disconnect(OnDisconnect.KEEP, 90.0)
IDENTITY = Identity("origin-1", "uid-1", 3, 7, "2026-01-01T00:00:00Z", -5, KEPT)

JOB: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "team",
        "uid": "uid-1",
        "resourceVersion": "42",
        "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
        "finalizers": ["example.com/x"],
        "ownerReferences": [{"kind": "CronJob", "name": "nightly", "uid": "c"}],
        "labels": {
            "kueue.x-k8s.io/queue-name": "lq",
            "app": "train",
            "controller-uid": "uid-1",
            "batch.kubernetes.io/controller-uid": "uid-1",
            "batch.kubernetes.io/job-name": "train",
        },
        "annotations": {
            "note": "kept",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "batch.kubernetes.io/job-tracking": "",
            "fedq.io/on-disconnect": "stop",
            "fedq.io/admission": "forged",
            "fedq.io/attempt": "999",
        },
    },
    "spec": {
        "suspend": True,
        "managedBy": "kueue.x-k8s.io/multikueue",
        "ttlSecondsAfterFinished": 60,
        "manualSelector": False,
        "parallelism": 2,
        "completions": 4,
        "completionMode": "Indexed",
        "backoffLimit": 3,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-1"}},
        "template": {
            "metadata": {
                "labels": {
                    "app": "train",
                    "controller-uid": "uid-1",
                    "batch.kubernetes.io/controller-uid": "uid-1",
                    "job-name": "train",
                    "batch.kubernetes.io/job-name": "train",
                },
                "annotations": {"sidecar": "no"},
            },
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        },
    },
    "status": {"startTime": "2026-01-01T00:00:00Z"},
}

COPY: Json = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {
        "name": "train",
        "namespace": "team",
        "labels": {
            "kueue.x-k8s.io/queue-name": "lq",
            "app": "train",
            "batch.kubernetes.io/job-name": "train",
            "kueue.x-k8s.io/multikueue-origin": "origin-1",
        },
        "annotations": {
            "note": "kept",
            "fedq.io/local-uid": "uid-1",
            "fedq.io/attempt": "3",
            "fedq.io/epoch": "7",
            "fedq.io/queued-at": "2026-01-01T00:00:00Z",
            "fedq.io/priority": "-5",
            "fedq.io/on-disconnect": "keep",
            "fedq.io/rerun-after": "90",
        },
    },
    "spec": {
        "suspend": True,
        "parallelism": 2,
        "completions": 4,
        "completionMode": "Indexed",
        "backoffLimit": 3,
        "template": {
            "metadata": {"labels": {"app": "train"}, "annotations": {"sidecar": "no"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
        },
    },
}


def test_golden() -> None:
    """DESIGN §3: ttl, managedBy, owners, finalizers, selector and controller-uid stay behind."""
    before = copy.deepcopy(JOB)

    assert batch_job.remote_manifest(JOB, IDENTITY) == COPY
    assert before == JOB, "the local Job is not changed"


def test_the_copy_shares_nothing_with_the_original() -> None:
    """What is kept in memory is not changed through the copy."""
    made = batch_job.remote_manifest(JOB, IDENTITY)
    made["spec"]["template"]["spec"]["containers"][0]["image"] = "other"

    assert JOB["spec"]["template"]["spec"]["containers"][0]["image"] == "i"


def test_a_job_without_labels_and_annotations() -> None:
    """Absent maps and a template without metadata are fine; an unsuspended Job is suspended."""
    bare = {
        "metadata": {"name": "j", "namespace": "n", "uid": "u"},
        "spec": {"suspend": False, "template": {"spec": {}}},
    }
    made = batch_job.remote_manifest(bare, IDENTITY)

    assert made["spec"] == {"suspend": True, "template": {"spec": {}}}
    assert made["metadata"]["labels"] == {"kueue.x-k8s.io/multikueue-origin": "origin-1"}


@pytest.mark.parametrize(
    ("text", "number"), [("3", 3), ("-5", -5), ("", 0), ("many", 0), ("1.5", 0), ("9" * 30, 0)]
)
def test_numbers(text: str, number: int) -> None:
    """What is no number of 32 bits counts as none: such a copy has attempt 0, the lowest."""
    job = {"metadata": {"annotations": {"fedq.io/attempt": text, "fedq.io/priority": text}}}
    assert mirrored_attempt(job) == mirrored_priority(job) == number
    assert mirrored_attempt({"metadata": {}}) == 0


def test_a_number_too_long_to_read() -> None:
    """Python refuses to read integers of more than 4300 digits; that is no reason to fail."""
    job = {"metadata": {"annotations": {"fedq.io/attempt": "9" * 5000}}}
    assert mirrored_attempt(job) == 0
