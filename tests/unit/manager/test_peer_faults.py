"""The faults under which other federations lose work or do it twice, on a whole manager."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bench.dst.clock import VirtualLoop
from federation.api.names import FEDQ_NAMESPACE, Mirror, Order
from federation.core.transit import PLACE_S
from federation.edge.resources import CLUSTER_QUEUES, JOBS, SECRETS, WORKLOADS
from manager.app import Manager
from tests.unit.manager.support import stop
from tests.unit.manager.test_clusters import Lives, play
from tests.unit.manager.virtual import virtually

Json = dict[str, Any]
Story = Callable[[Lives, Manager], Awaitable[None]]
DONE = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]


def there(world: Lives, cluster: str, name: str = "j") -> Json | None:
    found: Json | None = world.workers[cluster].fake.objects.data.get(JOBS, {}).get(("team", name))
    return found


def at(world: Lives, cluster: str, name: str = "j") -> Json:
    found = there(world, cluster, name)
    assert found is not None
    return found


def hold(world: Lives, cluster: str) -> None:
    """The agent's lease ends: the copy is suspended, its pods stop."""
    fake = world.workers[cluster].fake
    notes = {"metadata": {"annotations": {Mirror.HELD.value: "the lease is over"}}}
    fake.merge(JOBS, "j", {**notes, "spec": {"suspend": True}}, "team")
    status = {"active": 0, "ready": 0, "startTime": None}
    fake.merge(JOBS, "j", {"status": status}, "team", status=True)


def go_on(world: Lives, cluster: str) -> None:
    """The agent lets what it held go on."""
    notes = {"metadata": {"annotations": {Mirror.HELD.value: None}}}
    fake = world.workers[cluster].fake
    fake.merge(JOBS, "j", {**notes, "spec": {"suspend": False}}, "team")
    world.workers[cluster].run_pods("j")


def end(world: Lives, cluster: str, at: str = "2026-01-01T00:00:00Z") -> None:
    fake = world.workers[cluster].fake
    status = {"active": 0, "ready": 0, "succeeded": 1, "completionTime": at, "conditions": DONE}
    started = fake.get(JOBS, "j", "team")["status"].get("startTime", at)
    fake.merge(JOBS, "j", {"status": {"startTime": started, **status}}, "team", status=True)


def other(place: str) -> str:
    return "b" if place == "a" else "a"


def message(world: Lives) -> str:
    obj = world.home.items(WORKLOADS)[0]
    found = next(c for c in obj["status"]["conditions"] if c["type"] == "Finished")
    return str(found["message"])


async def rerun(world: Lives, place: str) -> str:
    """Lose the cluster where the job runs, until it runs on the other one."""
    world.lose(place)
    await world.until(lambda: there(world, other(place)))
    world.start(world.workers[other(place)], "j")
    fake, status = world.workers[other(place)].fake, {"startTime": "2026-02-01T00:00:00Z"}
    fake.merge(JOBS, "j", {"status": {**status, "active": 1, "ready": 1}}, "team", status=True)
    await world.until(lambda: world.record().admitted and world.record().attempt == 2)
    return other(place)


def test_the_run_elsewhere_survives_the_return() -> None:
    """E1, E1b: the old copy goes, not the new one; the local Job follows it to its end."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        second = await rerun(world, place)
        uid = at(world, second)["metadata"]["uid"]
        assert world.local()["status"]["startTime"] == "2026-01-01T00:00:00Z"  # never suspended
        world.heal(place)
        await world.until(lambda: there(world, place) is None)
        await asyncio.sleep(120)
        kept = at(world, second)
        assert (kept["metadata"]["uid"], kept["spec"]["suspend"]) == (uid, False)
        end(world, second, "2026-02-01T01:00:00Z")
        await world.until(lambda: world.record().finished)
        assert world.local()["status"]["conditions"] == DONE
        assert f"on cluster {second}, attempt 2" in message(world)

    play(story, "a", "b")


def test_it_was_completed_during_the_cut() -> None:
    """Its result counts although it runs elsewhere by now; that copy is removed."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        second = await rerun(world, place)
        end(world, place)
        world.heal(place)
        await world.until(lambda: world.record().finished)

        assert f"on cluster {place}, attempt 1" in message(world)
        assert world.local()["status"]["conditions"] == DONE
        await world.until(lambda: there(world, second) is None)

    play(story, "a", "b")


def test_it_was_completed_and_is_back_in_time() -> None:
    """Nothing runs again."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        world.lose(place)
        await world.until(lambda: world.phase(place) == "Fenced")
        end(world, place)
        world.heal(place)
        await world.until(lambda: world.record().finished)

        assert world.record().attempt == 1
        assert there(world, other(place)) is None

    play(story, "a", "b")


def test_back_before_it_runs_elsewhere() -> None:
    """It was fenced and stopped: the manager adopts it, and it goes on in the same attempt."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        world.lose(place)
        hold(world, place)
        await world.until(lambda: world.phase(place) == "Fenced")
        world.heal(place)
        notes = Mirror.EPOCH.value
        await world.until(lambda: at(world, place)["metadata"]["annotations"][notes] == "2")
        await world.until(lambda: not world.local()["status"].get("active"))
        go_on(world, place)
        await world.until(lambda: world.local()["status"].get("active") == 1)
        assert world.record().binding.epoch == 2
        end(world, place)
        await world.until(lambda: world.record().finished)

        assert world.record().attempt == 1
        assert there(world, other(place)) is None

    play(story, "a", "b")


def test_back_in_the_same_epoch() -> None:
    """It was held for a minute: nothing is decided, nothing moves, and it is shown."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        world.lose(place)
        await world.until(lambda: world.phase(place) == "Suspect")
        hold(world, place)
        world.heal(place)
        await world.until(lambda: not world.local()["status"].get("active"))
        assert not world.local()["spec"]["suspend"]
        assert world.record().admitted
        go_on(world, place)
        await world.until(lambda: world.local()["status"].get("active") == 1)

        assert (world.record().attempt, world.record().binding.epoch) == (1, 1)

    play(story, "a", "b")


def test_a_namesake_on_the_worker() -> None:
    """E5: a Job of that name that is not ours is left alone, and the job runs elsewhere."""

    async def story(world: Lives, manager: Manager) -> None:
        foreign: Json = {
            "metadata": {"name": "j", "namespace": "team"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": []}}},
        }
        uid = world.workers["a"].fake.create(JOBS, foreign)["metadata"]["uid"]
        world.submit("j")
        await world.until(lambda: there(world, "b"))

        assert at(world, "a")["metadata"]["uid"] == uid
        assert world.record().binding.cluster == "b"

    play(story, "a", "b")


@pytest.mark.parametrize("writes", [1, 2])
def test_a_manager_that_is_killed_on_the_way(writes: int) -> None:
    """E7: after each of the two writes that take a job from a lost cluster to another one."""

    async def main(loop: VirtualLoop) -> None:
        world = Lives("a", "b")
        async with world.alive():
            place = await world.run("j")
            world.lose(place)
            await world.until(lambda: world.phase(place) == "Fenced")
            await after(world, writes)
        agents = asyncio.create_task(world._agent(other(place)))
        try:
            async with world.running():
                await world.until(lambda: there(world, other(place)))
                world.start(world.workers[other(place)], "j")
                world.workers[other(place)].run_pods("j")
                await world.until(lambda: world.record().admitted)
                end(world, other(place))
                await world.until(lambda: world.record().finished)
                record = world.record()
        finally:
            await stop([agents])

        assert (record.attempt, record.binding.cluster) == (2, other(place))

    virtually(main)


async def after(world: Lives, writes: int) -> None:
    """Until so many writes of jobs have reached the management cluster."""
    reached = asyncio.Event()

    class Log(list[tuple[str, str]]):
        left = writes

        def append(self, item: tuple[str, str]) -> None:
            super().append(item)
            method, path = item
            Log.left -= method != "GET" and ("/jobs/" in path or "/workloads/" in path)
            if Log.left == 0:
                reached.set()

    world.home.log = Log(world.home.log)
    async with asyncio.timeout(300):
        await reached.wait()


def test_it_goes_on_where_it_may_run_twice() -> None:
    """Suspected, and no room elsewhere: what still runs when the cluster is back is left alone."""

    async def story(world: Lives, manager: Manager) -> None:
        world.home.merge(CLUSTER_QUEUES, "cq", option("duplicate-ok"))
        place = await world.run("j")
        uid = at(world, place)["metadata"]["uid"]
        world.report(other(place), available=0)
        world.lose(place)
        await world.until(lambda: world.record().binding is None)
        await asyncio.sleep(20)
        world.heal(place)
        await world.until(lambda: world.record().admitted)
        kept = at(world, place)
        assert (kept["metadata"]["uid"], kept["spec"]["suspend"]) == (uid, False)
        assert world.record().attempt == 1
        await world.until(lambda: world.local()["status"].get("active") == 1)
        end(world, place)
        await world.until(lambda: world.record().finished)

    play(story, "a", "b")


def test_no_place_elsewhere() -> None:
    """The record says at once that it runs nowhere, and the Job when it has waited for a minute."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        world.report(other(place), available=0)
        world.lose(place)
        await world.until(lambda: world.record().binding is None)
        assert world.record().life.evicted == "ClusterLost"
        assert not world.local()["spec"]["suspend"]
        await asyncio.sleep(PLACE_S - 5)  # virtual time
        assert not world.local()["spec"]["suspend"]
        await asyncio.sleep(10)  # virtual time
        assert world.local()["spec"]["suspend"]
        status = world.local()["status"]
        assert (status.get("active"), status.get("startTime")) == (None, None)
        await world.until(lambda: world.record().reason == "WaitingForQuota")
        world.report(other(place), available=8)
        await world.until(lambda: there(world, other(place)))
        world.start(world.workers[other(place)], "j")
        await world.until(lambda: world.record().admitted)
        await world.until(lambda: not world.local()["spec"]["suspend"])
        assert world.record().life.active

    play(story, "a", "b")


def option(policy: str) -> Json:
    return {"metadata": {"annotations": {"fedq.io/on-disconnect": policy}}}


def test_a_run_elsewhere_at_once() -> None:
    """What may run twice does as soon as its cluster is silent; the first result counts."""

    async def story(world: Lives, manager: Manager) -> None:
        world.home.merge(CLUSTER_QUEUES, "cq", option("duplicate-ok"))
        place = await world.run("j")
        last = world.renewed[place]
        second = await rerun(world, place)
        assert asyncio.get_running_loop().time() - last < 60
        assert at(world, second)["metadata"]["annotations"]["fedq.io/on-disconnect"] == (
            "duplicate-ok"
        )
        world.heal(place)
        await world.until(lambda: there(world, place) is None)
        assert at(world, second)["spec"]["suspend"] is False

    play(story, "a", "b")


def test_moved_by_order() -> None:
    """It is stopped first, then runs where it was ordered to, and the order is gone."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        target = "c" if place != "c" else "b"
        order(world, "nowhere")
        await world.until(lambda: "no such cluster" in world.record().note)
        order(world, target)
        await world.until(lambda: there(world, target))
        assert there(world, place) is None
        await world.until(lambda: not world.record().move_to)

        assert (world.record().binding.cluster, world.record().attempt) == (target, 2)

    play(story, "a", "b", "c")


def test_a_job_is_not_moved_to_where_it_can_never_run() -> None:
    """It goes on, and says what is missing there; when that has come it is moved."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        target = "b" if place == "a" else "a"
        world.report(target, available=0, nominal=0)
        order(world, target)
        await world.until(lambda: "gpu: 1 needed" in world.record().note)
        assert world.record().note.startswith(f"it cannot be moved to {target}: ")
        await asyncio.sleep(60)  # virtual time
        assert (there(world, place) is not None, world.record().attempt) == (True, 1)
        world.report(target)
        await world.until(lambda: there(world, target))
        assert (world.record().attempt, world.record().note) == (2, "")

    play(story, "a", "b")


def order(world: Lives, target: str) -> None:
    name = world.home.items(WORKLOADS)[0]["metadata"]["name"]
    notes = {"metadata": {"annotations": {Order.MOVE_TO.value: target}}}
    world.home.merge(WORKLOADS, name, notes, "team")


def test_what_takes_too_long_to_stop_is_not_started() -> None:
    """Both numbers are told; another policy lets it run."""

    async def story(world: Lives, manager: Manager) -> None:
        slow: Json = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "j",
                "namespace": "team",
                "labels": {"kueue.x-k8s.io/queue-name": "lq"},
            },
            "spec": {
                "suspend": True,
                "managedBy": "kueue.x-k8s.io/multikueue",
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "terminationGracePeriodSeconds": 600,
                        "containers": [{"name": "c", "resources": {"requests": {"gpu": "1"}}}],
                    }
                },
            },
        }
        world.home.create(JOBS, slow)
        await world.until(lambda: world.record() and world.record().reason == "Misconfigured")
        assert "is 600" in world.record().message
        assert "45 s" in world.record().message
        world.home.merge(JOBS, "j", option("keep"), "team")
        await world.until(lambda: world.copy("j"))
        assert world.record().binding.policy == "keep"

    play(story, "a", "b")


def test_nothing_is_tried_where_there_is_no_link() -> None:
    """C5: the MultiKueueCluster is deleted, and the job has to be stopped there: that waits."""

    async def story(world: Lives, manager: Manager) -> None:
        place = await world.run("j")
        secret = world.home.get(SECRETS, place, FEDQ_NAMESPACE)
        world.home.delete(SECRETS, place, FEDQ_NAMESPACE)
        await world.until(lambda: place not in manager.clusters.links)
        steps: list[str] = []
        run = manager.controller.run_effects
        assert run is not None
        manager.controller.run_effects = lambda uid, effects: (
            steps.append(uid),
            run(uid, effects),
        )[1]
        name = world.home.items(WORKLOADS)[0]["metadata"]["name"]
        world.home.merge(WORKLOADS, name, {"spec": {"active": False}}, "team")
        await asyncio.sleep(90)
        assert len(steps) <= 4, "the eviction, and one try to remove the copy"
        assert at(world, place)["spec"]["suspend"] is False
        meta = {"name": place, "namespace": FEDQ_NAMESPACE}
        world.home.create(SECRETS, {**secret, "metadata": meta})
        await world.until(lambda: there(world, place) is None, 30)
        await world.until(lambda: world.record().binding is None, 30)

    play(story, "a", "b")
