"""An elastic RayCluster: groups of workers follow its edits where it runs, without a restart."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from federation.api.names import ConditionType, Mirror
from federation.api.record import find
from federation.edge.resources import WORKLOADS, resource_of
from federation.jobs.kinds.kind import JobKind
from federation.jobs.kinds.registry import KINDS
from tests.unit.manager.federation import Federation
from tests.unit.manager.support import until
from tests.unit.manager.test_edited import workload
from tests.unit.manager.test_elastic import full, held
from tests.unit.manager.test_kinds import serving
from tests.unit.manager.test_lifecycle import _evicted
from tests.unit.worker_agent.test_growths_of_sets import cluster, template

Json = dict[str, Any]
RAY = KINDS["RayCluster.v1.ray.io"]
RAY_JOB = KINDS["RayJob.v1.ray.io"]
MANAGED = {"managedBy": "kueue.x-k8s.io/multikueue"}


class Ray:
    """A federation with a RayCluster, or what makes one, and the agent that the test plays."""

    def __init__(self, quota: int = 8, kind: JobKind = RAY) -> None:
        self.world = serving(kind, world=Federation("a", quota=quota))
        self.world.report("a", 20, 20)
        self.fake = self.world.workers["a"].fake
        self.res = resource_of(kind)

    def local(self) -> Json:
        return self.world.home.get(self.res, "r", "team")

    def copy(self) -> Json:
        return self.fake.get(self.res, "r", "team")

    def sizes(self) -> list[int]:
        return [group["replicas"] for group in self.copy()["spec"]["workerGroupSpecs"]]

    def given(self) -> dict[str, int]:
        sets = self.world.record("r").admission.pod_sets
        return {pods.name: pods.count for pods in sets if pods.name != "head"}

    def note(self, key: Mirror) -> str:
        return str(self.copy()["metadata"]["annotations"].get(key.value, ""))

    def asked(self) -> Json:
        return dict(json.loads(self.note(Mirror.GROW_TO) or "{}"))

    async def starts(self, body: Json) -> str:
        """Offered, started with what its flavor says, and it is ready."""
        body["spec"] |= MANAGED
        uid = str(self.world.home.create(self.res, body)["metadata"]["uid"])
        await until(lambda: self.fake.objects.data.get(self.res), "the copy")
        groups = deepcopy(self.copy()["spec"].get("workerGroupSpecs", []))
        for group in groups:
            group["template"]["spec"]["nodeSelector"] = {"card": "a100"}
        spec = {"suspend": False, **({"workerGroupSpecs": groups} if groups else {})}
        self.fake.merge(self.res, "r", {"spec": spec}, "team")
        await until(lambda: self.world.record("r").admitted, "it runs")
        return uid

    def edit(self, small: int, big: int, **fields: Any) -> None:
        """People change it on the management cluster."""
        groups = deepcopy(self.local()["spec"]["workerGroupSpecs"])
        groups[0] |= {"replicas": small, **fields}
        groups[1]["replicas"] = big
        self.world.home.merge(self.res, "r", {"spec": {"workerGroupSpecs": groups}}, "team")

    def grow(self) -> None:
        """The agent does what it is asked for."""
        spec = RAY.resize(self.copy(), self.asked())
        notes = {"annotations": {Mirror.GROW_TO.value: None}}
        self.fake.merge(self.res, "r", {"metadata": notes, "spec": spec}, "team")

    def lacking(self) -> str:
        found = find(workload(self.world, "r")["status"], ConditionType.SCALED)
        return str(found["message"]) if found is not None and found["status"] == "False" else ""

    def goes_on(self) -> None:
        """In its first attempt, never evicted, its pods where they were."""
        assert self.world.record("r").attempt == 1
        assert not _evicted(self.world, "r")
        assert not self.copy()["spec"]["suspend"]
        for group in self.copy()["spec"]["workerGroupSpecs"]:
            assert group["template"]["spec"]["nodeSelector"] == {"card": "a100"}


def elastic(small: int = 1, big: int = 1) -> Json:
    body = cluster(small, big, copied=False)
    body["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    return body


async def test_larger_while_there_is_quota() -> None:
    """Record first, then the agent is asked, with the bounds: one Workload, one copy."""
    ray = Ray()
    async with ray.world.running():
        uid = await ray.starts(elastic())
        ray.edit(3, 2, maxReplicas=6)
        await until(ray.asked, "asked")
        assert ray.given() == {"small": 3, "big": 2}
        assert held(ray.world, uid) == 7
        assert ray.sizes() == [1, 1]  # the agent has yet to charge them
        assert ray.asked()["small"] == {"replicas": 3, "minReplicas": 0, "maxReplicas": 6}
        counts = {p["name"]: p["count"] for p in workload(ray.world, "r")["spec"]["podSets"]}
        assert counts == {"head": 1, "small": 3, "big": 2}
        ray.grow()
        await until(lambda: not ray.lacking(), "told")
        ray.goes_on()
        assert len(ray.world.home.items(WORKLOADS)) == 1


async def test_larger_waits_for_quota() -> None:
    """All that is lacking waits together; it goes on with the old size and says why."""
    ray = Ray(quota=6)
    async with ray.world.running():
        other = await full(ray.world)
        uid = await ray.starts(elastic())
        ray.edit(2, 2)
        await until(ray.lacking, "told")
        assert ray.lacking().startswith(
            "It runs 3 pods and asks for 5 (small: 1 of 2, big: 1 of 2): "
        )
        assert (ray.given(), ray.sizes(), held(ray.world, uid)) == (
            {"small": 1, "big": 1},
            [1, 1],
            3,
        )
        other.end("first")
        await until(ray.asked, "asked")
        assert held(ray.world, uid) == 6
        ray.grow()
        await until(lambda: not ray.lacking(), "told")
        ray.goes_on()


async def test_smaller_frees_quota_at_once() -> None:
    """The copy first, by the list that stands there; what waits gets what is free."""
    ray = Ray(quota=5)
    async with ray.world.running():
        uid = await ray.starts(elastic(1, 2))
        ray.world.submit("next", 2)
        await until(lambda: ray.world.record("next"), "it waits")
        ray.edit(1, 1)
        await until(lambda: ray.given() == {"small": 1, "big": 1}, "given back")
        assert ray.sizes() == [1, 1]
        await ray.world.offered("next")
        assert held(ray.world, uid) == 3
        ray.goes_on()


async def test_one_group_larger_one_smaller() -> None:
    """What is given up is free before more is asked for: it needs no more quota than it has."""
    ray = Ray(quota=5)
    async with ray.world.running():
        uid = await ray.starts(elastic(1, 2))
        ray.edit(3, 1)
        await until(ray.asked, "asked")
        assert ray.sizes() == [1, 1]
        ray.grow()
        await until(lambda: held(ray.world, uid) == 5 and ray.sizes() == [3, 1], "both")
        ray.goes_on()


async def test_an_edit_of_its_pods_beside_the_number() -> None:
    """Those that run stay as they are, in the record too; other amounts are not given, and it says
    so.
    """
    ray = Ray()
    async with ray.world.running():
        await ray.starts(elastic())
        image = deepcopy(template())
        image["spec"]["containers"][0]["image"] = "other"
        ray.edit(2, 1, template=image)
        await until(ray.asked, "asked")
        ray.grow()
        await until(lambda: ray.sizes() == [2, 1], "grown")
        ray.edit(3, 1, template=template(2))
        await until(ray.lacking, "told")
        assert "its pods ask for other amounts (gpu)" in ray.lacking()
        ray.goes_on()


async def test_another_manager_goes_on() -> None:
    """From what it finds in the objects."""
    ray = Ray()
    async with ray.world.running():
        uid = await ray.starts(elastic())
        ray.edit(3, 2)
        await until(ray.asked, "asked")
    ray.grow()
    async with ray.world.running():
        await until(lambda: held(ray.world, uid) == 7, "charged")
        ray.edit(1, 2)
        await until(lambda: ray.given() == {"small": 1, "big": 2}, "smaller")
        assert ray.sizes() == [1, 2]
        ray.goes_on()


@pytest.mark.parametrize("kind", [RAY, RAY_JOB], ids=lambda kind: kind.kind)
async def test_what_does_not_grow_where_it_runs(kind: JobKind) -> None:
    """Without the annotation, and of kinds whose clusters the operator leaves as they were made:
    it leaves its cluster and queues for all of it.
    """
    ray = Ray(kind=kind)
    body = elastic()
    if kind is RAY_JOB:
        spec = {"suspend": True, "shutdownAfterJobFinishes": True, "submissionMode": "HTTPMode"}
        inner = {k: v for k, v in body["spec"].items() if k != "suspend"}
        body |= {"kind": kind.kind, "spec": {**spec, "rayClusterSpec": inner}}
    else:
        body["metadata"]["annotations"] = {}
    async with ray.world.running():
        await ray.starts(body)
        groups = deepcopy(body["spec"].get("rayClusterSpec", body["spec"])["workerGroupSpecs"])
        groups[0]["replicas"] = 2
        edit: Json = {"workerGroupSpecs": groups}
        edit = {"rayClusterSpec": edit} if kind is RAY_JOB else edit
        ray.world.home.merge(ray.res, "r", {"spec": edit}, "team")
        await until(lambda: _evicted(ray.world, "r"), "it leaves")
        found = find(workload(ray.world, "r")["status"], ConditionType.EVICTED)
        assert found is not None
        assert found["reason"] == "OutOfSync"


@pytest.mark.parametrize(("runs", "asks"), [(1, 2), (2, 1)])
async def test_other_hosts_are_for_the_next_start(runs: int, asks: int) -> None:
    """No number of replicas makes as many pods of what runs: nothing is written again and again."""
    ray, body = Ray(quota=20), elastic(2, 1)
    body["spec"]["workerGroupSpecs"][0]["numOfHosts"] = runs
    async with ray.world.running():
        await ray.starts(body)
        before = len(ray.fake.log)
        ray.edit(2, 2, numOfHosts=asks)
        ray.world.submit("next", 1)
        await ray.world.offered("next")
        written = [p for m, p in ray.fake.log[before:] if m == "PATCH" and "/rayclusters/" in p]
        assert written == []
        assert ray.given() == {"small": 2 * runs, "big": 1}
        ray.edit(2, 2, numOfHosts=runs)
        await until(ray.asked, "asked")
        ray.goes_on()


async def test_less_than_none_is_not_followed() -> None:
    """KubeRay's schema lets it pass; quota of others is not less than nothing."""
    ray = Ray()
    async with ray.world.running():
        uid = await ray.starts(elastic(2, 1))
        ray.edit(-3, 1)
        ray.world.submit("next", 1)
        await ray.world.offered("next")
        assert (ray.given(), ray.sizes()) == ({"small": 2, "big": 1}, [2, 1])
        assert held(ray.world, uid) == 4
        ray.edit(1, 1)
        await until(lambda: ray.given() == {"small": 1, "big": 1}, "smaller")
        ray.goes_on()
