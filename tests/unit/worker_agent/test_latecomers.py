"""Pods that come to a group on a worker in the place of others that failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from federation.api.names import Label, Mirror
from federation.core.types import FlavorResource
from federation.edge.resources import PODS
from federation.jobs.kinds.registry import KINDS
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import Worker, mirrored

Json = dict[str, Any]
GPU = FlavorResource("f", "gpu")
GATE = {"name": "kueue.x-k8s.io/admission"}
GROUP = {"kueue.x-k8s.io/pod-group-total-count": "2"}
ROLE = "kueue.x-k8s.io/role-hash"


def pod(name: str, *, copied: bool, gpus: int = 1, role: str = "r", **notes: str) -> Json:
    """One of group g, as the manager makes it or people do."""
    meta = mirrored("g")["metadata"] if copied else {"namespace": "team", "annotations": {}}
    labels = {**meta.get("labels", {}), Label.QUEUE_NAME.value: "lq"}
    labels["kueue.x-k8s.io/pod-group-name"] = "g"
    told = {**meta["annotations"], **GROUP, **notes, **({ROLE: role} if copied else {})}
    container = {"name": "c", "image": "i", "resources": {"requests": {"gpu": str(gpus)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "name": name, "labels": labels, "annotations": told},
        "spec": {"schedulingGates": [GATE], "containers": [container]},
    }


class Group:
    """A group of two pods on a worker."""

    def __init__(self, *, copied: bool, nominal: int = 4, **notes: str) -> None:
        self.worker, self.copied, self.notes = Worker(nominal), copied, notes
        self.worker.kinds = (KINDS["Pod.v1"],)
        self.worker.settings = replace(self.worker.settings, kinds=KINDS)
        self.fake = self.worker.fake

    def add(self, *names: str, **more: Any) -> None:
        for name in names:
            self.fake.create(PODS, pod(name, copied=self.copied, **self.notes, **more))
            self.is_in(name, "Pending")

    def get(self, name: str) -> Json:
        return self.fake.get(PODS, name, "team")

    def is_in(self, name: str, phase: str) -> None:
        self.fake.merge(PODS, name, {"status": {"phase": phase}}, "team", status=True)

    def gone(self, name: str) -> bool:
        """Whether it was let go, to the nodes of its flavor."""
        spec = self.get(name)["spec"]
        return not spec["schedulingGates"] and spec["nodeSelector"] == {"card": "a100"}

    async def runs(self) -> None:
        self.add("a", "b")
        await until(lambda: self.gone("a") and self.gone("b"), "started")
        for name in ("a", "b"):
            self.is_in(name, "Running")

    def used(self) -> int:
        return self.worker.agent.tree.usage("cq").get(GPU, 0)


@pytest.mark.parametrize("copied", [True, False], ids=["a copy", "of people"])
@pytest.mark.parametrize("failed", ["a", "b"])
async def test_it_is_let_go_with_what_the_other_was_given(failed: str, copied: bool) -> None:
    """No quota is charged for it, and the note stays as it is."""
    group = Group(copied=copied)
    async with group.worker.running():
        await group.runs()
        note = group.get("a")["metadata"]["annotations"][Mirror.ADMISSION.value]
        group.is_in(failed, "Failed")
        group.worker.later(5)
        group.add("c", "d")
        await until(lambda: group.gone("c"), "let go")
        await until(lambda: group.used() == 2, "as many as before")
        assert group.get("d")["spec"]["schedulingGates"] == [GATE]
        assert group.get("a")["metadata"]["annotations"][Mirror.ADMISSION.value] == note
        group.is_in("c", "Running")
        group.is_in("c", "Failed")
        await until(lambda: group.gone("d"), "the next one")


async def test_a_group_that_is_not_to_be_retried_ends() -> None:
    """Its quota is free, and none takes the place of another."""
    group = Group(copied=False, **{"kueue.x-k8s.io/retriable-in-group": "false"})
    async with group.worker.running():
        await group.runs()
        group.is_in("b", "Failed")
        group.worker.later(5)
        group.add("c")
        group.is_in("a", "Succeeded")
        await until(lambda: group.used() == 0, "ended")
        assert group.get("c")["spec"]["schedulingGates"] == [GATE]


async def test_a_group_waits_for_another_pod() -> None:
    """It keeps the quota of those that failed; what has succeeded needs none."""
    group = Group(copied=False)
    async with group.worker.running():
        await group.runs()
        group.is_in("a", "Succeeded")
        group.is_in("b", "Failed")
        await until(lambda: group.used() == 1, "one succeeded")
        group.worker.later(5)
        group.add("c")
        await until(lambda: group.gone("c"), "let go")
        group.is_in("c", "Succeeded")
        await until(lambda: group.used() == 0, "ended")


async def test_one_that_asks_for_something_else_waits() -> None:
    group = Group(copied=False)
    async with group.worker.running():
        await group.runs()
        group.is_in("b", "Failed")
        group.worker.later(5)
        group.add("c", gpus=2)
        group.add("d")
        await until(lambda: group.gone("d"), "the one that fits")
        assert group.get("c")["spec"]["schedulingGates"] == [GATE]


async def test_a_group_of_people_that_lost_a_pod_waits_for_another_one() -> None:
    """As in Kueue it ends when as many have succeeded as belong to it."""
    group = Group(copied=False)
    async with group.worker.running():
        await group.runs()
        group.fake.delete(PODS, "b", "team")
        group.is_in("a", "Succeeded")
        await until(lambda: group.used() == 1, "one succeeded")
        group.worker.later(5)
        group.add("c")
        await until(lambda: group.gone("c"), "let go")
        group.is_in("c", "Succeeded")
        await until(lambda: group.used() == 0, "ended")
