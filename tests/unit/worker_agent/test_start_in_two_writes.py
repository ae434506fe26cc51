"""A TrainJob is started by two writes: its operator, which tells its status meanwhile, and others
may come between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from federation.api.names import Mirror
from federation.edge.resources import resource_of
from federation.jobs.kinds.registry import KINDS
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, mirrored

Json = dict[str, Any]
TRAIN = KINDS["TrainJob.v1alpha1.trainer.kubeflow.org"]
RES = resource_of(TRAIN)


def offered() -> Json:
    trainer = {"numNodes": 2, "resourcesPerNode": {"requests": {"gpu": "1"}}}
    spec = {"suspend": True, "runtimeRef": {"name": "torch"}, "trainer": trainer}
    meta = mirrored("t")["metadata"]
    return {"apiVersion": TRAIN.api_version, "kind": TRAIN.kind, "metadata": meta, "spec": spec}


class Between:
    """Changes the TrainJob once, after the first of the two writes."""

    def __init__(self, worker: Worker, change: Callable[[], object]) -> None:
        self._worker, self._change = worker, change
        self.came = False
        worker.fake.objects.listeners.append(self._look)

    def _look(self) -> None:
        for obj in self._worker.fake.items(RES):
            if obj["spec"].get("runtimePatches") and obj["spec"]["suspend"] and not self.came:
                self.came = True
                asyncio.get_running_loop().call_soon(self._change)


def trained(worker: Worker) -> Json:
    return worker.fake.get(RES, "t", "team")


@pytest.fixture
def worker() -> Worker:
    found = Worker()
    found.kinds = (TRAIN,)
    found.settings = replace(found.settings, kinds=KINDS)
    found.fake.resources.append(RES)
    found.fake.with_status.add(RES)
    return found


async def test_its_operator_tells_its_status_between(worker: Worker) -> None:
    said = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
    between = Between(worker, lambda: worker.fake.merge(RES, "t", said, "team", status=True))
    async with worker.running():
        worker.fake.create(RES, offered())
        await until(lambda: not trained(worker)["spec"]["suspend"])
    assert between.came
    assert trained(worker)["status"] == said["status"]


async def test_it_is_withdrawn_between(worker: Worker) -> None:
    """What the manager takes back is not started."""
    mark = {"metadata": {"annotations": {Mirror.REFUSED.value: "Withdrawn: no answer"}}}
    between = Between(worker, lambda: worker.fake.merge(RES, "t", mark, "team"))
    async with worker.running():
        worker.fake.create(RES, offered())
        await until(lambda: between.came)
        await worker.at_rest()
    assert trained(worker)["spec"]["suspend"] is True
