"""The runner of one cluster, with real processes and an API server that fails."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import PODS
from fedq.rig.podrunner import run
from fedq.rig.pods.handle import Handle
from fedq.rig.pods.keeper import Place
from tests.fakes.kube_api import FakeKube

Json = dict[str, Any]
HELD = "test/graceful"
"""A finalizer: the fake server deletes at once what has none."""


def pod(seconds: float, **notes: str) -> Json:
    annotations = {f"fedq.io/{key.replace('_', '-')}": value for key, value in notes.items()}
    steer = {"fedq.io/run-seconds": str(seconds), **annotations}
    return {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "labels": {"fedq.io/process": "true"},
            "annotations": steer,
            "finalizers": [HELD],
        },
        "spec": {
            "nodeName": "n",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "i"}],
        },
    }


async def until(condition: Callable[[], object]) -> None:
    """Wait for what a process or the runner does."""
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.02)  # a poll interval inside a bounded wait
    pytest.fail("it did not happen within ten seconds")


@pytest.fixture
def fake() -> FakeKube:
    return FakeKube()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Histories; no process is left behind."""
    yield tmp_path
    for file in tmp_path.glob("*.jsonl"):
        if (handle := Handle.find(file)) is not None:
            handle.kill()


@asynccontextmanager
async def runner(fake: FakeKube, folder: Path, *hook: str) -> AsyncIterator[None]:
    """A runner that works while the block runs, and is then gone without a word."""
    async with KubeClient(Endpoint("https://fake", name="w"), transport=fake) as client:
        task = asyncio.create_task(run(Place(client, "w", folder, "test:pods/w", hook)))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


def phase(fake: FakeKube) -> str:
    return str((fake.get(PODS, "p", "default").get("status") or {}).get("phase"))


def process(folder: Path) -> Handle:
    [file] = folder.glob("*.jsonl")
    handle = Handle.find(file)
    assert handle is not None
    return handle


async def test_a_pod_runs_and_succeeds(fake: FakeKube, folder: Path) -> None:
    """As long as its annotation says."""
    async with runner(fake, folder):
        fake.create(PODS, pod(0.6))
        await until(lambda: phase(fake) == "Running")
        await until(lambda: phase(fake) == "Succeeded")


async def test_a_pod_that_is_deleted_goes_when_its_process_has_gone(
    fake: FakeKube, folder: Path
) -> None:
    """Not before: whoever waits for the object waits for the process."""
    async with runner(fake, folder):
        fake.create(PODS, pod(60, ignore_sigterm="true"))
        await until(lambda: phase(fake) == "Running")
        handle = process(folder)
        living: list[bool] = []
        fake.objects.listeners.append(lambda: living.append(handle.alive))
        fake.delete(PODS, "p", "default")
        await until(lambda: any(method == "DELETE" for method, _ in fake.log))

        # The deletion itself, and then the status.
        assert living[:2] == [True, False]
        assert phase(fake) == "Failed"


HOOK = """
import json, sys
config = json.load(open(json.load(sys.stdin)["bundle"] + "/config.json"))
if "REFUSED=yes" in config["process"]["env"]:
    sys.exit("not here")
"""


@pytest.mark.parametrize(("env", "ends"), [("yes", "Failed"), ("no", "Succeeded")])
async def test_a_hook_is_asked_first(fake: FakeKube, folder: Path, env: str, ends: str) -> None:
    """A pod that it refuses has failed without a process, and says why."""
    refused = pod(0.1)
    refused["spec"]["containers"][0]["env"] = [{"name": "REFUSED", "value": env}]
    async with runner(fake, folder, sys.executable, "-c", HOOK):
        fake.create(PODS, refused)
        await until(lambda: phase(fake) == ends)
    [status] = fake.get(PODS, "p", "default")["status"]["containerStatuses"]

    assert bool(os.listdir(folder)) == (env == "no")
    told = status["state"]["terminated"]
    assert (told["exitCode"], told["message"]) == ((128, "not here") if env == "yes" else (0, ""))


async def test_processes_do_not_care_whether_the_api_server_answers(
    fake: FakeKube, folder: Path
) -> None:
    """What became of them is told when it does again."""
    async with runner(fake, folder):
        fake.create(PODS, pod(1.0))
        await until(lambda: phase(fake) == "Running")
        fake.cut()
        handle = process(folder)
        await until(lambda: not handle.alive)
        assert phase(fake) == "Running"
        fake.heal()
        await until(lambda: phase(fake) == "Succeeded")


async def test_a_runner_that_starts_anew_takes_over(fake: FakeKube, folder: Path) -> None:
    """The process that is there is the pod's, and no other is started."""
    async with runner(fake, folder):
        fake.create(PODS, pod(2.0))
        await until(lambda: phase(fake) == "Running")
    before = process(folder)
    assert before.alive
    async with runner(fake, folder):
        await until(lambda: phase(fake) == "Succeeded")

    assert process(folder) == before


async def test_what_ended_while_no_runner_was_there_is_told(fake: FakeKube, folder: Path) -> None:
    """From what the process wrote last."""
    async with runner(fake, folder):
        fake.create(PODS, pod(0.5, exit_code="9"))
        await until(lambda: list(folder.glob("*.jsonl")))
    await until(lambda: not process(folder).alive)
    async with runner(fake, folder):
        await until(lambda: phase(fake) == "Failed")


async def test_a_process_whose_pod_was_removed_meanwhile_is_ended(
    fake: FakeKube, folder: Path
) -> None:
    """Nobody else would."""
    async with runner(fake, folder):
        fake.create(PODS, pod(60))
        await until(lambda: phase(fake) == "Running")
    handle = process(folder)
    fake.merge(PODS, "p", {"metadata": {"finalizers": None}}, "default")
    fake.delete(PODS, "p", "default")
    assert handle.alive
    async with runner(fake, folder):
        await until(lambda: not handle.alive)
