"""From a pod to its process."""

from __future__ import annotations

from typing import Any

import pytest

from fedq.rig.pods.plan import grace_of, handled, plan_of
from fedq.rig.pods.process import NEVER
from fedq.rig.pods.status import ended, running

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


def pod(env: list[Json] | None = None, **notes: str) -> Json:
    annotations = {f"fedq.io/{key.replace('_', '-')}": value for key, value in notes.items()}
    return {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "u",
            "labels": {"fedq.io/process": "true"},
            "annotations": annotations,
            "ownerReferences": [{"uid": "owner", "controller": True}],
        },
        "spec": {
            "nodeName": "n",
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "i",
                    "env": env or [],
                    "resources": {"limits": {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "100"}},
                }
            ],
        },
    }


def test_only_pods_that_ask_for_it_and_have_a_node_are_handled() -> None:
    """All others are kwok's, or nobody's yet."""
    without_node, unmarked = pod(), pod()
    unmarked["metadata"]["labels"] = {"fedq.io/process": "false"}
    del without_node["spec"]["nodeName"]

    assert handled(pod())
    assert not handled(without_node)
    assert not handled(unmarked)


def test_who_a_run_is_comes_from_the_environment_that_the_job_sees() -> None:
    """Plain values and fields of the pod; what comes from other objects is left out."""
    plan = plan_of(
        pod(
            [
                {"name": "FEDQ_JOB_UID", "value": "job"},
                {"name": "FEDQ_ATTEMPT", "value": "3"},
                {"name": "FEDQ_ON_DISCONNECT", "value": "keep"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {
                    "name": "RUN",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.annotations['fedq.io/run-seconds']"}
                    },
                },
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            run_seconds="2.5",
        ),
        "worker-1",
    )

    assert {"NODE": "n", "RUN": "2.5"}.items() <= plan.env.items()
    assert "SECRET" not in plan.env
    assert plan.about == {
        "job": "job", "attempt": 3, "epoch": 0, "pod": "u", "name": "ns/p", "cluster": "worker-1",
        "policy": "keep", "gpus": 2, "devices": {},
    }  # fmt: skip
    assert (plan.seconds, plan.exit, plan.stop) == (2.5, 0, "0.0")


def test_a_pod_without_that_environment_belongs_to_its_owner() -> None:
    """As a Job does that was never moved."""
    about = plan_of(pod(), "w").about

    assert (about["job"], about["attempt"], about["policy"]) == ("owner", 0, "stop")


@pytest.mark.parametrize(
    ("notes", "seconds", "exit", "stop"),
    [
        ({}, 1.0, 0, "0.0"),
        ({"run_seconds": "many", "exit_code": "-1", "stop_seconds": ""}, 1.0, 0, "0.0"),
        ({"run_seconds": "90", "exit_code": "3", "stop_seconds": "4"}, 90.0, 3, "4.0"),
        ({"ignore_sigterm": "true", "stop_seconds": "4"}, 1.0, 0, NEVER),
    ],
)
def test_annotations_say_how_it_behaves(
    notes: dict[str, str], seconds: float, exit: int, stop: str
) -> None:
    """One that makes no sense counts as absent."""
    plan = plan_of(pod(**notes), "w")

    assert (plan.seconds, plan.exit, plan.stop) == (seconds, exit, stop)


def test_a_pod_that_is_always_restarted_runs_until_it_is_deleted() -> None:
    """Containers are never restarted here, so the process lasts."""
    always = pod(run_seconds="1")
    always["spec"]["restartPolicy"] = "Always"

    assert plan_of(always, "w").seconds > 10**7


def test_cards_are_those_that_the_pod_was_given() -> None:
    """Summed over its containers."""
    given = pod()
    note = "GPU-1,NVIDIA,1000,30:GPU-2,NVIDIA,500,20:;GPU-1,NVIDIA,1000,30:;"
    given["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = note

    devices = plan_of(given, "w").about["devices"]
    assert devices == {"GPU-1": [60.0, 2000.0], "GPU-2": [20.0, 500.0]}


def test_grace_is_that_of_the_deletion_else_that_of_the_pod() -> None:
    """Seconds; Kubernetes' default is thirty."""
    given = pod()
    assert grace_of(given) == 30
    given["spec"]["terminationGracePeriodSeconds"] = 5
    assert grace_of(given) == 5
    given["metadata"]["deletionGracePeriodSeconds"] = 0
    assert grace_of(given) == 0


def test_statuses_keep_the_conditions_of_others() -> None:
    """A list in a merge patch replaces the one before."""
    given = pod()
    scheduled = {"type": "PodScheduled", "status": "True"}
    given["status"] = {"conditions": [scheduled, {"type": "Ready", "status": "Unknown"}]}
    started = running(given, NOW)
    given["status"] = started
    over = ended(given, 137, NOW)

    for status, ready in ((started, "True"), (over, "False")):
        found = {condition["type"]: condition["status"] for condition in status["conditions"]}
        assert (found["PodScheduled"], found["Ready"]) == ("True", ready)
    assert started["phase"] == "Running"
    assert (over["phase"], over["startTime"]) == ("Failed", NOW)
    assert over["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert ended(given, 0, NOW)["phase"] == "Succeeded"
