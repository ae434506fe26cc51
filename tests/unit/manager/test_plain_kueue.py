"""A cluster that plain Kueue runs gets work and behaves, without an agent."""

from __future__ import annotations

import pytest

from federation.api.names import Label, Mirror, Option, Trait
from federation.core.facts import ObjectKey, RemoteJob
from federation.core.failover import OnDisconnect
from federation.edge.resources import JOBS, LEASES, MULTIKUEUE_CLUSTERS, WORKLOADS
from federation.jobs import batch_job
from tests.unit.manager import plain
from tests.unit.manager.federation import writes
from tests.unit.manager.plain import PlainFederation, clone
from tests.unit.manager.support import until
from tests.unit.worker_agent.support import job


async def test_the_whole_way() -> None:
    """The Workload goes first; when it is admitted, the Job; then as ever. Both are removed."""
    world = PlainFederation("k")
    async with world.running():
        world.submit()
        worker = world.workers["k"]
        await until(lambda: clone(worker), "an offer")
        offered = clone(worker)
        assert offered is not None
        assert offered["metadata"]["name"] == world.record().key.name
        assert offered["spec"]["queueName"] == "lq"
        assert world.copy() is None
        await plain.run(world)
        bound = world.record().binding
        assert (bound.cluster, bound.policy) == ("k", OnDisconnect.DUPLICATE_OK)
        assert world.copy()[1]["metadata"]["labels"][Label.PREBUILT_WORKLOAD_NAME.value]  # type: ignore[index]  # a copy is there
        await until(lambda: not world.local()["spec"]["suspend"], "started here")
        worker.run_pods("j")
        await until(lambda: world.local()["status"].get("active") == 1, "status")
        worker.end("j")
        await until(lambda: world.record().finished, "finished")
        await until(lambda: not (world.copy() or clone(worker)), "removed")
        assert batch_job.finished(world.local()["status"]) == "Complete"
    assert not [o for o in world.home.items(LEASES) if o["metadata"]["name"] == "k"]
    made = writes(worker.fake)
    assert (made["POST workloads"], made["POST jobs"], made["DELETE jobs"]) == (1, 1, 1)


async def test_it_is_shown_as_what_it_is() -> None:
    """Tier none."""
    world = PlainFederation("k")

    def status() -> dict[str, object]:
        found = world.home.get(MULTIKUEUE_CLUSTERS, "k").get("status") or {}
        return found.get("fedq") or {}

    async with world.running():
        await until(lambda: status().get("phase") == "Ready", "ready")
        assert status()["tier"] == "none"


@pytest.mark.parametrize(
    ("notes", "reason"),
    [
        ({Option.ON_DISCONNECT.value: "stop"}, "its policy stop needs"),
        (
            {Option.ON_DISCONNECT.value: "keep", Option.RERUN_AFTER.value: "10m"},
            "the limit of its policy keep needs",
        ),
    ],
)
async def test_what_somebody_has_to_stop_is_not_placed_there(
    notes: dict[str, str], reason: str
) -> None:
    """With the reason; where an agent is it is placed."""
    world = PlainFederation("k")
    async with world.running():
        world.submit(**notes)
        await until(lambda: world.record() and reason in world.record().message, reason)
    assert clone(world.workers["k"]) is None


async def test_agents_come_first() -> None:
    """The weaker promise is only made where there is no place that keeps the better one."""
    world = PlainFederation("k", "z")
    async with world.running():
        world.submit("j", gpus=4)
        worker = await world.offered()
        assert worker is world.workers["z"]
        world.submit("i", gpus=4)
        await until(lambda: clone(world.workers["k"], "i"), "the other cluster is full")


SAID = {
    "no room": ("Pending", "insufficient unused quota for gpu"),
    "no queue": ("Inadmissible", "LocalQueue lq doesn't exist"),
}


@pytest.mark.parametrize("name", SAID)
async def test_not_admitted_and_placed_elsewhere(name: str) -> None:
    """Kueue's no is an answer: the Workload goes, and the job to another cluster."""
    reason, message = SAID[name]
    world = PlainFederation("ka", "kb")
    async with world.running():
        world.submit()
        first, second = world.workers["ka"], world.workers["kb"]
        await until(lambda: clone(first), "an offer")
        plain.says(first, ("QuotaReserved", "False", reason, message))
        await until(lambda: clone(second), "an offer to the other")
        assert clone(first) is None
        refused = world.manager.controller.states[world.local()["metadata"]["uid"]].refusals
        assert refused["ka"].message == message
        await plain.run(world, "kb")
    assert writes(first.fake) == {"POST workloads": 1, "DELETE workloads": 1}


async def test_waiting_for_others_to_leave_is_no_answer() -> None:
    """Victims are not stopped in vain."""
    world = PlainFederation("ka", "kb")
    async with world.running():
        world.submit()
        first = world.workers["ka"]
        await until(lambda: clone(first), "an offer")
        text = "insufficient unused quota. Pending the preemption of 1 workload(s)"
        plain.says(first, ("QuotaReserved", "False", "Pending", text))
        await until(lambda: _copy(world).deciding_until, "it waits")
        await plain.run(world, "ka")
    assert clone(world.workers["kb"]) is None


async def test_evicted_there_and_queued_again() -> None:
    """The copy is removed before Kueue could start it again, and the job runs elsewhere."""
    world = PlainFederation("ka", "kb")
    async with world.running():
        world.submit()
        first = await plain.run(world, "ka")
        first.run_pods("j")
        plain.evict(first)
        second = await plain.run(world, "kb")
        assert clone(first) is None
        assert ("team", "j") not in first.fake.objects.data[JOBS]
        assert world.record().binding.attempt == 2
        second.end("j")
        await until(lambda: world.record().finished, "finished")


async def test_a_namesake_is_left_alone() -> None:
    """A Job of that cluster's own: the Workload goes again, the job elsewhere."""
    world = PlainFederation("ka", "kb")
    first = world.workers["ka"]
    first.add(job("j"))
    async with world.running():
        world.submit()
        await until(lambda: clone(first), "an offer")
        plain.admit(first)
        await until(lambda: clone(world.workers["kb"]), "an offer to the other")
        assert clone(first) is None
    assert Label.MULTIKUEUE_ORIGIN.value not in first.get("j")["metadata"]["labels"]
    assert first.get("j")["spec"]["suspend"]


async def test_deleted_here_and_removed_there() -> None:
    """Offered or running: nothing is left."""
    world = PlainFederation("k")
    worker = world.workers["k"]
    async with world.running():
        world.submit("i")
        await until(lambda: clone(worker, "i"), "an offer")
        world.submit("j")
        await plain.run(world)
        for name in ("i", "j"):
            world.home.delete(JOBS, name, "team")
        await until(lambda: not worker.fake.items(WORKLOADS), "no Workload is left")
        await until(lambda: not worker.fake.items(JOBS), "no Job is left")
        await until(lambda: not world.home.items(WORKLOADS), "no record is left")


async def test_orphans_are_removed_and_others_are_not() -> None:
    """What was left while no manager looked, of this origin alone."""
    world = PlainFederation("k")
    worker = world.workers["k"]
    async with world.running():
        for name in ("i", "j"):
            world.submit(name)
        await until(lambda: clone(worker, "i"), "an offer")
        await plain.run(world)
    for name in ("i", "j"):
        world.home.delete(JOBS, name, "team")
    for found in world.home.items(WORKLOADS):
        world.home.delete(WORKLOADS, found["metadata"]["name"], "team")
    for origin in ("another", ""):
        labels = {Label.MULTIKUEUE_ORIGIN.value: origin} if origin else {}
        meta = {"name": f"theirs{origin}", "namespace": "team", "labels": labels}
        worker.fake.create(WORKLOADS, {"metadata": meta, "spec": {"podSets": []}})
    async with world.running():
        await until(lambda: not worker.fake.items(JOBS), "the Job is removed")
        await until(lambda: len(worker.fake.items(WORKLOADS)) == 2, "and both Workloads")
    left = {found["metadata"]["name"] for found in worker.fake.items(WORKLOADS)}
    assert left == {"theirs", "theirsanother"}


async def test_a_new_manager_goes_on() -> None:
    """With a Workload that was admitted while there was none, and with a Job that runs."""
    world = PlainFederation("k")
    worker = world.workers["k"]
    async with world.running():
        for name in ("i", "j"):
            world.submit(name)
        await until(lambda: clone(worker, "i"), "an offer")
        await plain.run(world)
    plain.admit(worker, "i")
    async with world.running():
        await plain.run(world, name="i")
        assert world.record("j").binding.attempt == 1
        worker.end("j")
        await until(lambda: world.record("j").finished, "finished")
    assert writes(worker.fake)["POST jobs"] == 2


async def test_what_ended_is_kept_for_a_while() -> None:
    """For those who read its logs, with its Workload; it goes with its Job here."""
    world = PlainFederation("k")
    world.keep_finished_s = 600.0
    async with world.running():
        world.submit()
        worker = await plain.run(world)
        worker.end("j")
        plain.says(worker, ("Finished", "True", "Succeeded", "done"))
        await until(lambda: world.record().finished, "finished")
        assert world.copy()
        assert clone(worker)
        world.home.delete(JOBS, "j", "team")
        await until(lambda: not (world.copy() or clone(worker)), "removed")


async def test_a_job_that_somebody_deletes_there_is_not_made_twice() -> None:
    """In the same attempt: it has run. It is queued again as a new one."""
    world = PlainFederation("k")
    async with world.running():
        world.submit()
        worker = await plain.run(world)
        worker.fake.delete(JOBS, "j", "team")
        await until(lambda: (found := world.record()) and found.attempt == 2, "a new attempt")
        await until(lambda: (found := clone(worker)) and _attempt(found) == "2", "a new Workload")


async def test_an_agent_where_none_is_said_to_be() -> None:
    """Two would decide there: it gets no work, and it is said what to do."""
    world = PlainFederation("k")
    async with world.running() as manager:
        await until(lambda: manager.clusters.usable("k"), "well")
        lease = {"metadata": {"name": "k", "namespace": "fedq-system"}}
        spec = {"renewTime": "2026-01-01T00:00:00Z", "holderIdentity": "a"}
        world.home.create(LEASES, {**lease, "spec": spec})
        later = {"spec": {"renewTime": "2026-01-01T00:00:05Z"}}
        watches = manager.clusters.watcher.leases.watches
        await until(lambda: "k" in watches, "it is seen")
        world.home.merge(LEASES, "k", later, "fedq-system")
        await until(lambda: not manager.clusters.usable("k"), "not used")
        link = manager.clusters.links["k"]
        assert Trait.AGENT.value in manager.clusters.problem(link)


def _copy(world: PlainFederation) -> RemoteJob:
    """What the manager knows of the only copy; nothing of it yet is one that says nothing."""
    state = world.manager.controller.states[world.local()["metadata"]["uid"]]
    return next(iter(state.remotes.values()), RemoteJob("", ObjectKey("", ""), "", 0, 0, True))


def _attempt(obj: dict[str, dict[str, dict[str, str]]]) -> str:
    return obj["metadata"]["annotations"][Mirror.ATTEMPT.value]
