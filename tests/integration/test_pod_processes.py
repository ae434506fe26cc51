"""Real processes for pods, on a real control plane: kwok leaves them alone, the runner does not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fedq.drill.history import Submitted, check, read_history
from fedq.drill.runs import Run, runs
from fedq.rig.pods.process import boottime
from fedq.rig.rig import Rig
from fedq.rig.waiting import wait_until
from fedq.stack import Stack

Json = dict[str, Any]
WORKER = "worker-1"
PATIENCE = 30.0

pytestmark = [pytest.mark.rig, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def stack(rig: Rig) -> Iterator[Stack]:
    """A runner on the first worker; processes that it leaves behind go with the rig."""
    made = Stack(rig)
    made.start_runner(WORKER)
    yield made
    rig.stop_process(f"runner/{WORKER}")


def job(name: str, seconds: float) -> Json:
    """A Job of one pod, as a mirrored copy is."""
    env = {"FEDQ_JOB_UID": name, "FEDQ_ATTEMPT": "1", "FEDQ_ON_DISCONNECT": "stop"}
    container = {
        "name": "main",
        "image": "none",
        "env": [{"name": key, "value": value} for key, value in env.items()],
    }
    meta = {
        "labels": {"fedq.io/process": "true"},
        "annotations": {"fedq.io/run-seconds": str(seconds)},
    }
    pod: Json = {"metadata": meta, "spec": {"restartPolicy": "Never"}}
    pod["spec"]["containers"] = [container]
    spec = {"backoffLimit": 0, "template": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def runs_of(stack: Stack, name: str) -> list[Run]:
    found = runs(read_history(stack.history), boottime())
    return [run for run in found if run.subject.job == name]


def submit(stack: Stack, name: str, seconds: float) -> None:
    stack.rig.kubectl(WORKER, "create", "-f", "-", input=json.dumps(job(name, seconds)))


def test_a_job_runs_as_a_process_and_completes(stack: Stack) -> None:
    """For its time, not for kwok's."""
    submit(stack, "runs", 2.0)
    stack.rig.kubectl(WORKER, "wait", "--for=condition=complete", "job/runs", "--timeout=30s")

    verdict = check(read_history(stack.history), [Submitted("runs")], boottime())
    assert (verdict.lost_jobs, verdict.violations) == (0, [])
    [run] = runs_of(stack, "runs")
    assert run.seconds >= 2.0
    assert run.subject.cluster == WORKER


def test_a_job_that_is_suspended_stops_its_process(stack: Stack) -> None:
    """The pod goes when the process has gone; resumed, it has another one."""
    submit(stack, "stops", 600)
    assert wait_until(lambda: len(runs_of(stack, "stops")) == 1, PATIENCE)
    stack.rig.kubectl(WORKER, "patch", "job/stops", "-p", '{"spec":{"suspend":true}}')
    stack.rig.kubectl(WORKER, "wait", "--for=delete", "pod", "-l", "job-name=stops")
    assert runs_of(stack, "stops")[0].exit == 143

    stack.rig.kubectl(WORKER, "patch", "job/stops", "-p", '{"spec":{"suspend":false}}')
    assert wait_until(lambda: len(runs_of(stack, "stops")) == 2, PATIENCE)
    stack.rig.kubectl(WORKER, "delete", "job/stops", "--wait=false")
    assert wait_until(lambda: not any(run.open for run in runs_of(stack, "stops")), PATIENCE)


def test_processes_outlive_api_server_and_runner(stack: Stack) -> None:
    """And are told of when both are there again."""
    submit(stack, "lives", 20)
    assert wait_until(lambda: len(runs_of(stack, "lives")) == 1, PATIENCE)
    server = stack.rig.process(f"{WORKER}/kube-apiserver")
    runner = stack.rig.process(f"runner/{WORKER}")
    assert server is not None
    assert runner is not None
    server.kill()
    runner.kill()
    time.sleep(2)  # the fault lasts longer than the heart of the process beats
    assert runs_of(stack, "lives")[0].open
    stack.rig.restart(f"{WORKER}/kube-apiserver")
    stack.start_runner(WORKER)
    stack.rig.kubectl(WORKER, "wait", "--for=condition=complete", "job/lives", "--timeout=90s")

    assert len(runs_of(stack, "lives")) == 1
