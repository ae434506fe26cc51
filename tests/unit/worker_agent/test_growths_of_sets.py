"""Copies of RayClusters that are to have more workers of some group while they run."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from federation.api.names import Label, Mirror
from federation.core.types import FlavorResource
from federation.edge.resources import resource_of
from federation.jobs.batch_job import decode_admission
from federation.jobs.kinds.registry import KINDS
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, job, mirrored

Json = dict[str, Any]
RAY = KINDS["RayCluster.v1.ray.io"]
RES = resource_of(RAY)
GPU = FlavorResource("f", "gpu")
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


def template(gpus: int = 1) -> Json:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"gpu": str(gpus)}}}]}}


def cluster(small: int = 1, big: int = 1, *, copied: bool = True) -> Json:
    """A RayCluster with a head that needs nothing, as the manager offers it, or a local one."""
    meta = (
        mirrored("r", annotations=ELASTIC)["metadata"]
        if copied
        else {
            "name": "r",
            "namespace": "team",
            "labels": {Label.QUEUE_NAME.value: "lq"},
        }
    )
    sizes = (("small", small, 1), ("big", big, 2))
    groups = [
        {"groupName": name, "replicas": count, "maxReplicas": 4, "template": template(gpus)}
        for name, count, gpus in sizes
    ]
    head = {"template": {"spec": {"containers": [{"name": "h"}]}}, "rayStartParams": {}}
    spec = {"suspend": True, "headGroupSpec": head, "workerGroupSpecs": groups}
    return {"apiVersion": RAY.api_version, "kind": RAY.kind, "metadata": meta, "spec": spec}


class Cluster:
    """The RayCluster on a worker, and the manager's words on it."""

    def __init__(self, nominal: int = 8) -> None:
        self.worker = Worker(nominal)
        self.worker.kinds = (RAY,)
        self.worker.settings = replace(self.worker.settings, kinds=KINDS)
        fake = self.fake = self.worker.fake
        fake.resources.append(RES)
        fake.with_status.add(RES)

    def get(self) -> Json:
        return self.fake.get(RES, "r", "team")

    def groups(self) -> list[Json]:
        found: list[Json] = self.get()["spec"]["workerGroupSpecs"]
        return found

    def sizes(self) -> list[int]:
        return [group["replicas"] for group in self.groups()]

    def note(self, key: Mirror) -> str:
        return str(self.get()["metadata"]["annotations"].get(key.value, ""))

    def charged(self) -> list[int]:
        """What its own note says of the groups."""
        found = decode_admission(self.note(Mirror.ADMISSION))
        assert found is not None
        return [pods.count for pods in found.pod_sets[1:]]

    def used(self) -> int:
        return self.worker.agent.tree.usage("cq").get(GPU, 0)

    async def starts(self, small: int = 1, big: int = 1, *, copied: bool = True) -> None:
        self.fake.create(RES, cluster(small, big, copied=copied))
        await until(lambda: not self.get()["spec"]["suspend"], "started")
        self.fake.merge(RES, "r", {"status": {"state": "ready"}}, "team", status=True)
        await until(lambda: self.used() == small + 2 * big, "charged")

    def ask(self, small: int, big: int, **bounds: int) -> None:
        """The manager wants it to have so many."""
        said = {"small": {"replicas": small, **bounds}, "big": {"replicas": big}}
        notes = {Mirror.GROW_TO.value: json.dumps(said), Mirror.GROW_REFUSED.value: None}
        self.fake.merge(RES, "r", {"metadata": {"annotations": notes}}, "team")

    def edit(self, small: int, big: int) -> None:
        """Somebody changes its numbers on the worker."""
        groups = deepcopy(self.groups())
        groups[0]["replicas"], groups[1]["replicas"] = small, big
        self.fake.merge(RES, "r", {"spec": {"workerGroupSpecs": groups}}, "team")


async def test_room_for_more() -> None:
    """Numbers, bounds and note are written at once; what the start put into templates stands."""
    ray = Cluster()
    async with ray.worker.running():
        await ray.starts()
        before = deepcopy(ray.groups())
        ray.ask(3, 2, maxReplicas=9)
        await until(lambda: ray.sizes() == [3, 2], "grown")
        assert ray.charged() == [3, 2]
        assert ray.note(Mirror.GROW_TO) == ""
        assert ray.groups()[0]["maxReplicas"] == 9
        assert [g["template"] for g in ray.groups()] == [g["template"] for g in before]
        assert ray.groups()[0]["template"]["spec"]["nodeSelector"] == {"card": "a100"}
        await until(lambda: ray.used() == 7, "charged")
        assert not ray.get()["spec"]["suspend"]


async def test_all_or_nothing() -> None:
    """There is room for one group and not for both: it is refused, with the numbers, and goes on
    with what it has.
    """
    ray = Cluster(6)
    async with ray.worker.running():
        await ray.starts()
        ray.worker.add(job("local"))
        await until(lambda: ray.worker.started("local"), "the other")
        ray.ask(2, 2)
        await until(lambda: ray.note(Mirror.GROW_REFUSED), "refused")
        assert ray.note(Mirror.GROW_REFUSED).startswith("WaitingForQuota: ")
        assert ray.sizes() == ray.charged() == [1, 1]
        assert ray.used() == 4
        ray.ask(2, 1)
        await until(lambda: ray.sizes() == [2, 1], "one of them")


async def test_smaller_frees_quota_at_once() -> None:
    ray = Cluster(5)
    async with ray.worker.running():
        await ray.starts(1, 2)
        ray.worker.add(job("local", 2))
        ray.edit(1, 1)
        await until(lambda: ray.worker.started("local"), "the room is used")
        await until(lambda: ray.used() == 5, "all of it")
        assert not ray.get()["spec"]["suspend"]


async def test_what_somebody_else_gave_it_is_taken_away() -> None:
    """Nobody but the agent makes a copy larger than what is charged, of any group."""
    ray = Cluster(8)
    async with ray.worker.running():
        await ray.starts(2, 1)
        ray.edit(1, 3)
        await until(lambda: ray.sizes() == [1, 1], "cut")
        await until(lambda: ray.used() == 3, "and charged as it is")
        assert not ray.get()["spec"]["suspend"]


HEADLESS = '{"clusterQueue": "cq", "podSets": []}'


@pytest.mark.parametrize("asked", [False, True], ids=["edited", "and asked for more"])
async def test_a_note_that_it_cannot_be_cut_to_stops_it(asked: bool) -> None:
    """Somebody took the head out of its note, of which there is always one: it is told so, once,
    and nothing is written again and again.
    """
    ray = Cluster(8)
    async with ray.worker.running():
        await ray.starts(2, 1)
        if asked:
            ray.ask(3, 1)
            await until(lambda: ray.sizes() == [3, 1], "grown")
        writes = ray.worker.writes("PATCH", "/rayclusters/")
        notes = {Mirror.ADMISSION.value: HEADLESS}
        ray.fake.merge(RES, "r", {"metadata": {"annotations": notes}}, "team")
        await until(lambda: ray.get()["spec"]["suspend"], "stopped")
        assert ray.note(Mirror.EVICTED).startswith('{"reason":"OutOfSync"')
        assert "its note of admission has 0 pods of head, its spec makes 1 at least" in ray.note(
            Mirror.EVICTED
        )
        assert ray.worker.writes("PATCH", "/rayclusters/") <= writes + 2


async def test_a_cut_that_the_api_server_refuses_stops_it() -> None:
    """It would refuse the next one as well."""
    ray = Cluster(8)
    async with ray.worker.running():
        await ray.starts(2, 1)
        ray.fake.fail(lambda r: _cuts(r.content), status=422, times=99)
        ray.edit(1, 3)
        await until(lambda: ray.get()["spec"]["suspend"], "stopped")
        assert "its spec makes more pods than were admitted: " in ray.note(Mirror.EVICTED)


def _cuts(body: bytes) -> bool:
    return b"workerGroupSpecs" in body and b'"suspend"' not in body


async def test_more_of_one_group_is_refused_while_another_is_to_be_smaller() -> None:
    """Nothing that is charged makes both so: the manager takes away first, then it asks. Who else
    asks is told so, once.
    """
    ray = Cluster(8)
    async with ray.worker.running():
        await ray.starts(2, 1)
        ray.ask(1, 2)
        await until(lambda: ray.note(Mirror.GROW_REFUSED), "refused")
        assert "small is to have 1 pods, and has 2" in ray.note(Mirror.GROW_REFUSED)
        assert ray.sizes() == [2, 1]
        await ray.worker.at_rest()
        cycles = ray.worker.agent.scheduler.cycles
        await asyncio.sleep(0.05)  # nothing more is to happen
        assert ray.worker.agent.scheduler.cycles <= cycles + 1


async def test_a_local_one_that_is_made_larger_queues_again() -> None:
    """As Kueue has it."""
    ray = Cluster(8)
    async with ray.worker.running():
        await ray.starts(copied=False)
        ray.edit(2, 1)
        await until(lambda: ray.get()["spec"]["suspend"], "stopped")
        text = "It was admitted with 3 pods and its spec makes 4 now"
        assert text in ray.note(Mirror.EVICTED)
