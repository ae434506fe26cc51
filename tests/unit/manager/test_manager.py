"""The whole manager in one process, against fake API servers and an agent that the test plays."""

from __future__ import annotations

import asyncio

import pytest

from federation.api import record as records
from federation.api.names import FEDQ_NAMESPACE, Label, Mirror, Option
from federation.core.policies import PodsReady, Policies
from federation.edge.kube import KubeClient
from federation.edge.kubeconfig import Endpoint
from federation.edge.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LEASES,
    LOCAL_QUEUES,
    WORKER_REPORTS,
    WORKLOADS,
)
from federation.jobs import batch_job
from manager import queue_status
from manager.app import Manager
from manager.link import ClusterLink
from manager.protocol import Health
from manager.queue_health import QueueHealth
from manager.queue_status import QueueStatus
from tests.unit.manager.federation import ORIGIN, FakeRuntime, Federation, writes
from tests.unit.manager.support import until, webhook_away
from tests.unit.worker_agent.support import custom, job


@pytest.mark.parametrize("pods_ready", [None, PodsReady()])
async def test_the_whole_way(pods_ready: PodsReady | None) -> None:
    """Submitted → bound → offered → admitted → status → complete → copy removed; in no more writes
    where pods have to be ready.
    """
    world = Federation("a", policies=Policies(pods_ready=pods_ready))
    async with world.running():
        world.submit()
        worker = await world.offered()
        assert world.record().binding.cluster == "a"
        assert worker.get("j")["spec"]["suspend"]
        world.start(worker)
        await until(lambda: world.record().admitted, "admitted")
        await until(lambda: not world.local()["spec"]["suspend"], "started here")
        worker.run_pods("j")
        await until(lambda: world.local()["status"].get("active") == 1, "status")
        worker.end("j")
        await until(lambda: world.record().finished, "finished")
        await until(lambda: world.copy() is None, "removed")
        assert batch_job.finished(world.local()["status"]) == "Complete"
        assert dict(world.manager.scheduler.snapshot.tree.usage("cq")) in ({}, {("f", "gpu"): 0})
        assert world.manager.scheduler.items == {}
    assert sum(writes(world.home).values()) <= 7, writes(world.home)
    assert writes(worker.fake) == {"POST jobs": 1, "DELETE jobs": 1}


async def test_refused_and_placed_elsewhere() -> None:
    """Attempt 2, on the other cluster; nothing is left on the first."""
    world = Federation("a", "b")
    async with world.running():
        world.submit()
        first = await world.offered()
        world.refuse(first)
        await until(lambda: world.record().attempt == 2, "the next attempt")
        await until(lambda: world.record().binding is not None, "bound")
        assert world.workers[world.record().binding.cluster] is not first
        await until(lambda: first.fake.items(JOBS) == [], "removed")


async def test_a_webhook_that_is_away_moves_a_job_elsewhere() -> None:
    """Its quota there is not held until somebody mends it."""
    world = Federation("a", "b")
    world.workers["a"].fake.admit = webhook_away
    async with world.running():
        world.submit(**{Option.PREFER_CLUSTERS.value: "a"})
        assert await world.offered() is world.workers["b"]
        assert world.record().attempt == 2


async def test_deleted_while_it_runs() -> None:
    """The copy goes, the Workload goes, the quota is free, nothing is remembered."""
    world = Federation("a")
    async with world.running():
        world.submit()
        world.start(await world.offered())
        await until(lambda: world.record().admitted)
        world.home.delete(JOBS, "j", "team")
        await until(lambda: world.copy() is None, "the copy is removed")
        await until(lambda: world.manager.controller.states == {}, "it is forgotten")
        assert world.home.items(WORKLOADS) == []


@pytest.mark.parametrize("phase", ["waiting", "offered", "running", "ended"])
async def test_restarted(phase: str) -> None:
    """A new manager goes on from the record and the copies, and writes nothing twice."""
    world = Federation("a")
    worker = world.workers["a"]
    async with world.running():
        if phase == "waiting":
            world.home.merge(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "Hold"}}, "team")
        world.submit()
        await until(lambda: world.record() is not None)
        if phase != "waiting":
            await world.offered()
        if phase in ("running", "ended"):
            world.start(worker)
            await until(lambda: not world.local()["spec"]["suspend"])
    if phase == "waiting":
        world.home.merge(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "None"}}, "team")
    if phase == "ended":
        worker.run_pods("j")
        worker.end("j")
    created = writes(world.home)["POST workloads"]
    async with world.running():
        await world.offered() if phase != "ended" else None
        if phase in ("waiting", "offered"):
            world.start(worker)
        if phase != "ended":
            await until(lambda: not world.local()["spec"]["suspend"])
            worker.run_pods("j")
            worker.end("j")
        await until(lambda: world.record().finished, "finished")
        await until(lambda: world.copy() is None, "removed")
        assert world.record().attempt == 1
    assert writes(world.home)["POST workloads"] == created == 1


async def test_the_record_is_deleted_while_no_manager_runs() -> None:
    """The old copy is seen, and gone, before the job is offered again: it never runs twice."""
    world = Federation("a", "b")
    async with world.running():
        world.submit()
        first = await world.offered()
        world.start(first)
        await until(lambda: world.record().admitted, "admitted")
    world.home.delete(WORKLOADS, world.record().key.name, "team")
    running: set[tuple[bool, bool]] = set()

    def copies() -> tuple[bool, bool]:
        found = tuple(bool(worker.fake.items(JOBS)) for worker in world.workers.values())
        return (found[0], found[1])

    async with world.running():
        await until(lambda: running.add(copies()) or not first.fake.items(JOBS), "stopped")
        await world.offered()
    assert (True, True) not in running


async def test_the_index_is_lost() -> None:
    """It is filled again from memory; what waits is dispatched."""
    world = Federation("a")
    async with world.running() as manager:
        world.report("a", 0)
        await until(lambda: _available(manager) == 0)
        world.submit()
        await until(lambda: manager.scheduler.items)
        world.index.lost = True
        world.submit("k")
        await until(lambda: manager.dispatcher.fills == 2, "filled again")
        world.report("a", 4)
        await world.offered("j")
        await world.offered("k")


def _available(manager: Manager) -> int:
    queues = manager.clusters.links["a"].ledger.view("").queues if manager.clusters.links else {}
    return next(iter(queues["cq"].amounts.values())).available if "cq" in queues else -1


async def test_a_queue_stopped_while_the_job_was_bound() -> None:
    """When it comes back from its cluster it is not queued: its door is closed."""
    world = Federation("a")
    async with world.running() as manager:
        uid = world.submit()
        worker = await world.offered()
        world.home.merge(LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "Hold"}}, "team")
        await until(lambda: manager.catalog.queue_problem("team", "lq"))
        world.refuse(worker)
        await until(lambda: world.record().reason == "Inadmissible", "told why")
        assert "is stopped" in world.record().message
        assert uid not in manager.scheduler.items


async def test_more_jobs_than_room() -> None:
    """What fits the worker is offered, the rest waits with a reason and holds no quota."""
    world = Federation("a")
    async with world.running() as manager:
        for n in range(6):
            world.submit(f"j{n}")
        await until(lambda: len(world.workers["a"].fake.items(JOBS)) == 4, "four offers")
        await until(lambda: manager.scheduler.snapshot.tree.usage("cq") == {("f", "gpu"): 4})
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(world.workers["a"].fake.items(JOBS)) == 4
        assert len(manager.scheduler.items) == 2


async def test_a_foreign_job_of_that_name() -> None:
    """Left alone; the job goes to the other cluster."""
    world = Federation("a", "b")
    foreign = job("j")
    world.workers["a"].fake.create(JOBS, foreign)
    async with world.running():
        world.submit()
        await until(lambda: (r := world.record()) and r.binding and r.binding.cluster == "b")
        await until(lambda: world.workers["b"].fake.items(JOBS))
        assert Mirror.LOCAL_UID.value not in world.workers["a"].get("j")["metadata"]["annotations"]


async def test_orphans_are_removed() -> None:
    """A copy whose job was deleted while no manager ran."""
    world = Federation("a")
    async with world.running():
        world.submit()
        await world.offered()
    world.home.delete(JOBS, "j", "team")
    async with world.running():
        await until(lambda: world.copy() is None, "the orphan is removed")


@pytest.mark.parametrize(("stopping", "waits"), [(0, False), (2, True)])
async def test_an_orphan_whose_pods_stop_yet_keeps_its_room(stopping: int, waits: bool) -> None:
    """It was held when its job was deleted: it is gone when its pods are."""
    world = Federation("a")
    async with world.running():
        world.submit()
        world.start(await world.offered())
        await until(lambda: world.record().admitted)
    world.home.delete(JOBS, "j", "team")
    worker = world.workers["a"]
    worker.fake.merge(JOBS, "j", {"spec": {"suspend": True}}, "team")
    worker.fake.merge(JOBS, "j", {"status": {"terminating": stopping}}, "team", status=True)
    worker.fake.objects.blocked = lambda res, obj: res is JOBS
    async with world.running():
        if waits:
            await until(lambda: worker.get("j")["metadata"].get("deletionTimestamp"))
            worker.fake.merge(JOBS, "j", {"metadata": {"finalizers": None}}, "team")
        await until(lambda: world.copy() is None, "the orphan is removed")


# What comes late, and what others wrote


async def test_late_news_of_a_deleted_job() -> None:
    """The answer to our own write, read after the watch told of the deletion, is not a job."""
    world = Federation("a")
    async with world.running() as manager:
        world.submit()
        world.start(await world.offered())
        await until(lambda: world.record().admitted)
        job, workload = world.local(), world.home.items(WORKLOADS)[0]
        world.home.delete(JOBS, "j", "team")
        await until(lambda: manager.controller.states == {}, "it is forgotten")
        manager.controller.see_job(job)
        manager.controller.workloads.see(workload)
        assert manager.controller.states == {}


async def test_late_news_of_the_job_before() -> None:
    """They do not end the new job of the same name."""
    world = Federation("a")
    async with world.running() as manager:
        world.submit()
        await world.offered()
        before = world.local()
        world.home.delete(JOBS, "j", "team")
        uid = world.submit()
        await until(lambda: uid in manager.controller.states)
        manager.controller.see_job(before)
        local = manager.controller.states[uid].local
        assert local is not None


async def test_a_workload_deleted_by_hand() -> None:
    """It is made again; late news of the old one are not taken for the new one's."""
    world = Federation("a")
    async with world.running() as manager:
        world.report("a", 0)
        await until(lambda: _available(manager) == 0)
        uid = world.submit()
        await until(lambda: uid in manager.scheduler.items)
        old = world.home.items(WORKLOADS)[0]
        world.home.delete(WORKLOADS, old["metadata"]["name"], "team")
        await until(lambda: (r := world.record()) and r.uid != old["metadata"]["uid"])
        manager.controller.workloads.see(old)
        manager.controller.workloads.deleted(old)
        record = manager.controller.states[uid].record
        assert record is not None
        assert record.uid == world.record().uid


async def test_a_label_taken_away_and_given_back() -> None:
    """For the watch the job was deleted; it is taken up again nevertheless."""
    world = Federation("a")
    async with world.running() as manager:
        uid = world.submit()
        await world.offered()
        label = Label.QUEUE_NAME.value
        world.home.merge(JOBS, "j", {"metadata": {"labels": {label: None}}}, "team")
        await until(lambda: manager.controller.states == {}, "it is let go")
        world.home.merge(JOBS, "j", {"metadata": {"labels": {label: "lq"}}}, "team")
        await until(lambda: uid in manager.controller.states, "it is taken up")
        await world.offered()


async def test_a_cluster_is_well_again_and_has_nothing_new_to_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was passed over while it was not is offered."""
    monkeypatch.setattr("manager.dispatcher.EXPLAIN_S", 0.01)
    world = Federation("a")
    async with world.running() as manager:
        link = await _active_link(manager)
        link.health = Health(False, "ClientConnectionFailed", "no answer")
        world.submit()
        await until(lambda: (r := world.record()) and "no answer" in r.message, "told why")
        assert world.copy() is None
        link.health = Health(True, "Active", "Connected")
        await world.offered()


async def _active_link(manager: Manager) -> ClusterLink:
    clusters = manager.clusters
    await until(lambda: (link := clusters.links.get("a")) and not clusters.problem(link))
    return clusters.links["a"]


async def test_a_report_that_cannot_be_read() -> None:
    """It stops that cluster only, with the reason."""
    world = Federation("a", "b")
    async with world.running() as manager:
        link = await _active_link(manager)
        report = {"status": {"countedResourceVersion": "many"}}
        world.workers["a"].fake.merge(WORKER_REPORTS, "a", report, status=True)
        await until(lambda: "UnreadableWorkerReport" in manager.clusters.problem(link))
        world.submit()
        assert await world.offered() is world.workers["b"]
        world.report("a")
        await until(lambda: not manager.clusters.problem(link))


async def test_an_epoch_that_is_no_number() -> None:
    """An agent may write its Lease: what it writes there must not stop the manager."""
    world = Federation("a")
    async with world.running() as manager:
        nonsense = {"metadata": {"annotations": {Mirror.EPOCH.value: "nonsense"}}}
        world.home.merge(LEASES, "a", nonsense, FEDQ_NAMESPACE)
        world.submit()
        await world.offered()
        assert manager.clusters.epoch("a") == 1


async def test_a_workload_of_that_name_is_somebody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left alone and not asked for without a pause; the job goes on when it is gone."""
    pause = 0.05
    monkeypatch.setattr("manager.effects.AFTER_REFUSED_WRITE_S", pause)
    world = Federation("a")
    uid = world.submit()
    name = records.workload_name("Job", "batch", "j", uid)
    world.home.create(WORKLOADS, custom("Workload", name, {"queueName": "lq"}, "team"))
    async with world.running() as manager:
        await until(lambda: manager.controller.states[uid].failures > 2, "tried again")
        assert writes(world.home)["POST workloads"] == manager.controller.states[uid].failures
        world.home.delete(WORKLOADS, name, "team")
        await world.offered()


async def test_a_service_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager ends, and says so as long as it is still there."""

    async def crash(self: QueueStatus) -> None:
        raise RuntimeError("a bug")

    world = Federation("a")
    client = KubeClient(Endpoint("https://home", name="home"), transport=world.home)
    runtime = FakeRuntime(world.workers)
    manager = Manager(client, world.index, runtime, ORIGIN)
    monkeypatch.setattr(QueueStatus, "tick", crash)
    told: list[str] = []
    manager.on_crash = lambda: told.append(manager.problem())
    with pytest.raises(ExceptionGroup):
        await manager.run()
    await runtime.aclose()
    await client.aclose()
    assert told == ["queue-status has crashed, see the log: the manager is ending"]


async def test_queues_that_change_while_their_status_is_written() -> None:
    """New and deleted queues in the middle of a round of writes."""
    world = Federation("a")
    async with world.running() as manager:
        names = [f"lq-{n}" for n in range(20)]
        for name in names:
            queue = custom("LocalQueue", name, {"clusterQueue": "cq"}, "team")
            world.home.create(LOCAL_QUEUES, queue)
        await until(lambda: len(manager.catalog.local_queues) == 21)
        health = QueueHealth(manager.catalog, manager.clusters.membership)
        status = QueueStatus(manager.client, manager.controller, health)
        tick = asyncio.create_task(status.tick())
        while not tick.done():
            world.home.delete(LOCAL_QUEUES, names.pop(), "team") if names else None
            await asyncio.sleep(0)
        await tick


async def test_what_a_manager_before_wrote_late_is_put_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A while after the start all statuses of queues are written once more."""
    monkeypatch.setattr(queue_status, "EVERY_S", 0.01)
    world = Federation("a")
    async with world.running():
        world.submit()
        await world.offered()

        def shown() -> int:
            status = world.home.get(CLUSTER_QUEUES, "cq").get("status") or {}
            return int(status.get("reservingWorkloads", -1))

        await until(lambda: shown() == 1, "the status is written")
        late = {"status": {"reservingWorkloads": 0}}
        world.home.merge(CLUSTER_QUEUES, "cq", late, status=True)
        await until(lambda: shown() == 1, "it is right again")


async def test_a_workload_that_lost_its_owner() -> None:
    """It was taken away by hand; the record stays the job's, and its versions are followed."""
    world = Federation("a")
    async with world.running() as manager:
        uid = world.submit()
        worker = await world.offered()
        name = world.home.items(WORKLOADS)[0]["metadata"]["name"]
        nobody = {"metadata": {"ownerReferences": None, "labels": None}}
        world.home.merge(WORKLOADS, name, nobody, "team")
        version = int(world.home.get(WORKLOADS, name, "team")["metadata"]["resourceVersion"])
        await until(lambda: (r := manager.controller.states[uid].record) and r.version >= version)
        world.start(worker)
        worker.run_pods("j")
        worker.end("j")
        await until(lambda: world.copy() is None, "it is finished and removed")
        assert manager.controller.states[uid].failures == 0


async def test_a_local_queue_that_leads_elsewhere_now() -> None:
    """Deleted and created at once while a job waits: the job waits in the other ClusterQueue."""
    world = Federation("a")
    async with world.running() as manager:
        world.report("a", 0)
        await until(lambda: _available(manager) == 0)
        other = next(q for q in world.home.items(CLUSTER_QUEUES) if q["metadata"]["name"] == "cq")
        world.home.create(CLUSTER_QUEUES, custom("ClusterQueue", "other", other["spec"]))
        uid = world.submit()
        await until(lambda: uid in manager.scheduler.items)
        world.home.delete(LOCAL_QUEUES, "lq", "team")
        queue = custom("LocalQueue", "lq", {"clusterQueue": "other"}, "team")
        world.home.create(LOCAL_QUEUES, queue)
        await until(lambda: (i := manager.scheduler.items.get(uid)) and i.cluster_queue == "other")
        world.report("a", 4)
        await world.offered()
        assert world.record().admission.cluster_queue == "other"


async def test_a_binding_without_its_attempt() -> None:
    """Somebody took it away by hand: the copy is removed, and the job goes on with the next one."""
    world = Federation("a")
    async with world.running():
        world.submit()
        world.start(await world.offered())
        await until(lambda: world.record().admitted)
        name = world.home.items(WORKLOADS)[0]["metadata"]["name"]
        world.home.merge(
            WORKLOADS, name, {"status": {"fedq": {"attempt": None}}}, "team", status=True
        )
        await until(lambda: world.record().attempt == 2, "the next attempt")
