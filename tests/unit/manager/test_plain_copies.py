"""What is known of the copies on a cluster that plain Kueue runs, in whatever order it comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from federation.api.names import RESOURCE_IN_USE, Mirror
from federation.core.facts import BATCH_JOB, ObjectKey
from federation.edge.errors import WebhookFailed
from federation.edge.informer import Calls
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, WORKLOADS, Resource
from manager.cluster_worker import ClusterWorker
from manager.plain_copies import PlainCopies, PlainQueues
from manager.plain_writes import PlainWrites
from manager.protocol import ClusterSpec, Copy, CreateCopy, DeleteCopy, Inventory, Result
from tests.fakes.kube_api import FakeKube
from tests.unit.manager.support import until, webhook_away

Json = dict[str, Any]
KEY = "team/u"


class World:
    """The copies, and what was told of them."""

    def __init__(self) -> None:
        self.told: list[Copy] = []
        self.lists: list[Inventory] = []
        self.copies = PlainCopies("k", self.told.append, self._all)

    def _all(self, copies: Any, inventory: Inventory) -> None:
        self.lists.append(inventory)

    def watch(self, kind: Resource) -> Calls:
        async def identify(client: KubeClient) -> bool:
            return True

        return self.copies.calls(kind, None, identify)  # type: ignore[arg-type]  # no client is asked

    def list(self, version: int, *, jobs: Any = (), workloads: Any = ()) -> None:
        self.copies.see_all(WORKLOADS, workloads, version)
        self.copies.see_all(JOBS, jobs, version)


def thing(version: int, *, uid: str = "w", namespace: str = "team", of: str = "u") -> Json:
    notes = {Mirror.LOCAL_UID.value: of, Mirror.ATTEMPT.value: "1", Mirror.JOB.value: "j"}
    meta = {"name": "j", "namespace": namespace, "uid": uid, "annotations": notes, "labels": {}}
    return {"metadata": {**meta, "resourceVersion": str(version)}, "spec": {"suspend": False}}


def test_what_was_made_while_a_list_was_read() -> None:
    """Is newer than that, and no sign of a store that was restored."""
    world = World()
    world.list(10)
    world.copies.see(WORKLOADS, thing(21))
    world.copies.see_all(WORKLOADS, [], 20)
    assert world.copies.known
    assert world.copies.clone(KEY)
    assert world.lists[-1].local_uids == {"u"}


def test_what_was_deleted_while_a_list_was_read() -> None:
    """It does not come back: no watch would tell of its end."""
    world = World()
    world.list(10, workloads=[thing(9)])
    world.copies.removed(WORKLOADS, thing(8))
    assert world.told[-1].remote.gone
    world.copies.see_all(WORKLOADS, [thing(9)], 12)
    assert world.copies.clone(KEY) is None


def test_an_answer_that_is_older_than_a_list() -> None:
    """What it speaks of was deleted since."""
    world = World()
    world.list(20)
    world.copies.see(WORKLOADS, thing(15))
    assert world.copies.clone(KEY) is None


@pytest.mark.parametrize("first", [WORKLOADS, JOBS], ids=["workloads", "jobs"])
def test_a_store_that_was_restored(first: Resource) -> None:
    """Both are listed anew, in either order, and what was deleted is there again."""
    world = World()
    world.list(10, workloads=[thing(5)], jobs=[thing(6, uid="x")])
    for kind, uid in ((WORKLOADS, "w"), (JOBS, "x")):
        world.watch(kind).gone(thing(100, uid=uid))
    assert world.told[-1].remote.gone
    items = {WORKLOADS: thing(5), JOBS: thing(6, uid="x")}
    for kind in (first, JOBS if first is WORKLOADS else WORKLOADS):
        world.copies.see_all(kind, [items[kind]], 50)
        assert world.copies.known
    assert world.lists[-1].version == 50
    world.watch(JOBS).seen(thing(60, uid="x"))
    assert world.told[-1].remote.version == 60


def test_who_gets_its_label_back_is_seen_again() -> None:
    """To a watch it looked deleted."""
    world = World()
    world.list(10, jobs=[thing(9)])
    watch = world.watch(JOBS)
    watch.gone(thing(11))
    watch.seen(thing(12))
    assert world.copies.job(KEY)


def test_annotations_that_were_copied_into_another_namespace() -> None:
    """Are those of another copy, and its end is not that of ours."""
    world = World()
    world.list(10, jobs=[thing(9)])
    watch = world.watch(JOBS)
    watch.seen(thing(11, uid="forged", namespace="other"))
    forged = world.told[-1].remote
    watch.gone(thing(12, uid="forged", namespace="other"))
    assert forged.uid != world.copies.facts(KEY).uid
    assert world.told[-1].remote.uid == forged.uid
    assert not world.copies.facts(KEY).gone


def test_a_report_is_not_made_again_for_the_status_of_a_local_queue() -> None:
    """That changes with every Workload, and says nothing of what is free."""
    told: list[Json] = []
    queues = PlainQueues("k", told.append)
    door = {"metadata": {"namespace": "team", "name": "lq", "uid": "q"}, "spec": {}}
    queues.calls(CLUSTER_QUEUES).on_list([], "1")
    queues.calls(LOCAL_QUEUES).on_list([door], "1")
    queues.calls(LOCAL_QUEUES).seen({**door, "status": {"pendingWorkloads": 1}})
    assert len(told) == 1
    queues.calls(LOCAL_QUEUES).seen({**door, "spec": {"clusterQueue": "cq"}})
    queues.calls(LOCAL_QUEUES).gone(door)
    assert len(told) == 3


# Writes


@pytest.fixture
async def writes() -> Any:
    fake, world = FakeKube(namespaces=("team",)), World()
    world.list(0)
    async with KubeClient(Endpoint("https://fake", name="k"), transport=fake) as client:
        spec = ClusterSpec("k", b"", "o", plain=True)
        yield PlainWrites(client, spec, world.copies), fake, world


async def test_deleted_before_the_answer_came(writes: Any, monkeypatch: Any) -> None:
    """The watch was first: there is nothing to tell of, and nothing breaks."""
    made, _, world = writes
    monkeypatch.setattr(world.copies, "see", lambda kind, obj: None)
    command = CreateCopy(ObjectKey("team", "j"), "u", 1, {}, _fresh())
    assert (await made.run(command)).result is Result.RETRY


@pytest.mark.parametrize("attempt", [1, 2], ids=["the same", "another one"])
async def test_a_broken_webhook_says_nothing_of_an_offer_that_was_made_before(
    writes: Any, attempt: int
) -> None:
    """Its answer was lost, and no watch has told of it yet."""
    made, fake, _ = writes
    labels = {"kueue.x-k8s.io/multikueue-origin": "o"}
    clone = _fresh()
    clone["metadata"]["labels"] = labels
    fake.create(WORKLOADS, clone)
    clone["metadata"]["annotations"] = {
        **clone["metadata"]["annotations"], Mirror.ATTEMPT.value: str(attempt),
    }  # fmt: skip
    fake.admit = webhook_away
    command = CreateCopy(ObjectKey("team", "j"), "u", attempt, {}, clone)
    if attempt == 1:
        assert (await made.run(command)).result is Result.OK
    else:
        with pytest.raises(WebhookFailed):
            await made.run(command)


async def test_finalizers_of_others_stay(writes: Any) -> None:
    """Who set them waits for the end of the Workload."""
    made, fake, world = writes
    clone = _fresh()
    clone["metadata"]["finalizers"] = [RESOURCE_IN_USE, "example.com/audit"]
    stored = fake.create(WORKLOADS, clone)
    world.copies.see(WORKLOADS, stored)
    command = DeleteCopy(ObjectKey("team", "j"), f"{KEY}.1", None, wait=True)
    assert (await made.run(command)).result is Result.ABSENT
    assert fake.get(WORKLOADS, "j", "team")["metadata"]["finalizers"] == ["example.com/audit"]


async def test_copies_of_a_kind_that_is_switched_off() -> None:
    """They are not looked at, and do not end the worker."""
    fake = FakeKube(namespaces=("team",))
    left = _fresh()
    left["metadata"]["labels"] = {"kueue.x-k8s.io/multikueue-origin": "o"}
    fake.create(WORKLOADS, left)
    spec = ClusterSpec("k", b"", "o", external=(), off=frozenset({BATCH_JOB}), plain=True)
    client = KubeClient(Endpoint("https://fake", name="k"), transport=fake)
    worker = ClusterWorker(spec, client)
    task = asyncio.create_task(worker.run())
    try:
        await until(lambda: task.done() or worker._health.ok, "it is connected")
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _fresh() -> Json:
    found = thing(0)
    for field in ("uid", "resourceVersion"):
        del found["metadata"][field]
    return found
