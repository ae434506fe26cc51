"""What is wrong with the pods of a job, told in its record: short, seldom, and no demand here."""

from __future__ import annotations

from typing import Any

import pytest

from federation.api.names import Mirror
from federation.core import pod_note
from federation.core.effects import FinishWorkload
from federation.core.facts import Binding, JobState, ObjectKey, PodTrouble, Record, RemoteJob
from federation.core.stay import LifeRules
from federation.edge.resources import PODS
from manager.pod_watch import PodWatch
from manager.statuses import status_body
from tests.unit.manager.federation import Federation, writes
from tests.unit.manager.support import until
from tests.unit.manager.test_lifecycle import running
from tests.unit.worker_agent.support import Worker

Json = dict[str, Any]
GATE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def give_pod(worker: Worker, name: str, message: str = "", of: str = "j") -> None:
    """A pod as the Job controller makes it of the copy; with a message it has found no node."""
    template = worker.get(of)["spec"]["template"]
    meta = {**template["metadata"], "name": name, "namespace": "team"}
    worker.fake.create(PODS, {"metadata": meta, "spec": template["spec"]})
    said(worker, name, message)


def said(worker: Worker, name: str, message: str) -> None:
    status: Json = {"phase": "Running", "conditions": None}
    if message:
        status = {"phase": "Pending", "conditions": [GATE | {"message": message}]}
    worker.fake.merge(PODS, name, {"status": status}, "team", status=True)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_note, "LASTED_S", 0.02)
    monkeypatch.setattr(pod_note, "REWRITE_S", 0.02)


@pytest.mark.usefixtures("quick")
async def test_told_and_taken_back() -> None:
    """As long as it is so. Nothing of it is a pod, or anything that wants a node, on this side."""
    world = Federation("a")
    async with world.running():
        world.submit()
        worker = await running(world)
        give_pod(worker, "j-a")
        give_pod(worker, "j-b", "0/3 nodes are available\n\x1b[31m: no cards")
        text = "1 Running, 1 Pending: Unschedulable: 0/3 nodes are available [31m: no cards"
        await until(lambda: world.record().pods_note == text, "told")
        assert world.home.items(PODS) == []
        assert "Unschedulable" not in str(world.local())
        said(worker, "j-b", "")
        await until(lambda: world.record().pods_note == "", "taken back")


async def test_what_goes_well_costs_nothing() -> None:
    """Pods that start, run and end are no news; nor is a trouble that passes."""
    world = Federation("a")
    async with world.running():
        world.submit()
        worker = await running(world)
        await until(lambda: world.local()["status"].get("ready"), "its status is shown")
        before = writes(world.home)
        for n in range(5):
            give_pod(worker, f"j-{n}")
        give_pod(worker, "j-slow", "0/3 nodes")
        await until(lambda: next(iter(world.manager.controller.states.values())).pods, "heard of")
        said(worker, "j-slow", "")
        await until(
            lambda: not next(iter(world.manager.controller.states.values())).pods.text, "and over"
        )
        assert writes(world.home) == before


@pytest.mark.parametrize(
    ("ended", "known", "told"),
    [
        ("Failed", PodTrouble(2, "1 Failed: OOMKilled", 0.0), "1 Failed: OOMKilled"),
        ("Failed", PodTrouble(1, "1 Failed: OOMKilled", 0.0), None),  # of an earlier attempt
        ("Failed", None, None),
        ("Complete", PodTrouble(2, "1 Pending: Unschedulable", 0.0), ""),
    ],
)
def test_told_with_the_end(ended: str, known: PodTrouble | None, told: str | None) -> None:
    """Why a job failed stands in the write that says so; what went well in the end has no words."""
    key = ObjectKey("team", "j")
    record = Record("w", key, 1, binding=Binding("a", 2, 1, ""), pods_note="1 Pending")
    copy = RemoteJob("a", key, "c", 1, 2, suspended=False, finished=ended)
    state = JobState(record=record, remotes={"a": copy}, pods=known)
    rules = LifeRules(lambda local, remote: False)
    effect = FinishWorkload(ended, "a")
    body = status_body(effect, state, record, rules, "2026-01-01T00:00:00Z")
    assert body["status"].get("fedq") == (None if told is None else {"pods": told})


@pytest.mark.usefixtures("quick")
async def test_a_manager_that_starts_anew_takes_old_words_back() -> None:
    """What stands in the record may be of long ago."""
    world = Federation("a")
    async with world.running():
        world.submit()
        worker = await running(world)
        give_pod(worker, "j-a", "0/3 nodes")
        await until(lambda: world.record().pods_note, "told")
    said(worker, "j-a", "")
    async with world.running():
        await until(lambda: world.record().pods_note == "", "taken back")


async def test_a_cluster_that_does_not_show_its_pods() -> None:
    """All else works."""
    world = Federation("a")
    world.workers["a"].fake.fail(
        lambda request: request.url.path.endswith("/pods"), status=403, times=10_000
    )
    async with world.running():
        world.submit()
        await running(world)


def pod(uid: str, *, attempt: str = "1", phase: str = "Failed", reason: str = "X") -> Json:
    notes = {Mirror.LOCAL_UID.value: "u", Mirror.ATTEMPT.value: attempt}
    meta = {"uid": uid, "name": uid, "namespace": "team", "annotations": notes}
    return {"metadata": meta, "status": {"phase": phase, "reason": reason}}


def test_attempts_are_told_apart() -> None:
    """Pods of an attempt that stops say nothing of the next one."""
    woken: list[int] = []
    watch = PodWatch(lambda: woken.append(1))
    calls = watch.handler()
    calls.on_event("ADDED", pod("a", attempt="1"))
    calls.on_event("ADDED", pod("b", attempt="2", phase="Running", reason=""))
    assert [(n.attempt, n.text) for n in watch.news()] == [(1, "1 Failed: X")]
    calls.on_event("DELETED", pod("a", attempt="1"))
    assert watch.news() == ()
    calls.on_event("MODIFIED", pod("b", attempt="2"))
    assert [(n.attempt, n.text) for n in watch.news()] == [(2, "1 Failed: X")]
    assert woken == [1, 1]


def test_a_listing_tells_all() -> None:
    """Also that nothing is wrong."""
    watch = PodWatch(lambda: None)
    watch.handler().on_list([pod("a", phase="Running", reason="")], "5")
    assert [(n.local_uid, n.text) for n in watch.news()] == [("u", "")]
    watch.handler().on_event("ADDED", {"metadata": {"uid": "z", "name": "z"}})
    assert watch.news() == ()
