"""What becomes of copies when the lease ends, and when it holds again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from federation.api import record as records
from federation.api.names import Mirror, Option
from federation.core.holding import Lease
from federation.edge.resources import CLUSTER_QUEUES, JOBS, WORKLOADS
from federation.jobs.batch_job import remote_job
from tests.unit.manager.support import stop, until
from tests.unit.worker_agent.leased import TERMS, Leased
from tests.unit.worker_agent.support import Worker, job, mirrored
from worker_agent import workloads
from worker_agent.facts import Stage
from worker_agent.settings import AgentSettings


async def test_the_end_of_the_lease() -> None:
    """`stop` is the default. What may go on does, and so do the cluster's own Jobs."""
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("said", "stop")
        await worker.copy_runs("silent")
        await worker.copy_runs("keep", "keep")
        await worker.copy_runs("twice", "duplicate-ok")
        worker.add(job("local"))
        await until(lambda: worker.started("local"))
        worker.later(TERMS.lease - 1)
        await worker.at_rest()
        assert all(worker.started(n) for n in ("said", "silent", "keep", "twice", "local"))
        writes = worker.writes()
        worker.later(1)
        await worker.until_held("said", "silent")
        await worker.at_rest()
        assert worker.writes() == writes + 2
        assert all(worker.started(n) for n in ("keep", "twice", "local"))
    why = worker.held("said")
    assert "since 2026-01-01T00:00:00Z" in why
    assert "lease of 30 s" in why
    assert "same attempt" in why
    assert worker.note_of("said", Mirror.ADMISSION)


async def test_nobody_has_to_wake_the_agent_for_it() -> None:
    """On the clocks of the machine, with nothing else going on."""
    worker = Worker()
    boottime = worker.settings.boottime
    lease = Lease().renewal(boottime(), 1, replace(TERMS, lease=1.0))
    ended = boottime() + 0.9
    worker.lease = lambda: lease
    keep = {Option.ON_DISCONNECT.value: "keep", Option.RERUN_AFTER.value: "2"}
    async with worker.running():
        worker.add(mirrored("a"), mirrored("limited", annotations=keep))
        await until(lambda: worker.started("a") and worker.started("limited"))
        await until(lambda: worker.note_of("a", Mirror.HELD))
        assert boottime() >= ended
        await until(lambda: worker.note_of("limited", Mirror.HELD))
        assert boottime() >= ended + 1


async def test_it_goes_on_with_the_same_attempt() -> None:
    """When its pods are gone and a renewal succeeds: as it was, with the counts that it had."""
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a", gpus=2)
        before = worker.get("a")
        worker._status("a", succeeded=1, failed=1)
        worker.ends()
        await worker.until_held("a")
        worker.renew()
        await worker.at_rest()
        assert worker.stage("a") is Stage.HELD  # its pods stop yet
        worker.stopping("a", 0)
        await worker.until_running("a")
        assert not worker.starts("a")
        after = worker.get("a")
    assert after["spec"] == before["spec"]
    notes, kept = before["metadata"]["annotations"], after["metadata"]["annotations"]
    times = {Mirror.HELD_SECONDS.value: "0", Mirror.RESUMED_AT.value: "2026-01-01T00:00:30Z"}
    assert notes | times == kept
    assert (after["status"]["succeeded"], after["status"]["failed"]) == (1, 1)


async def test_time_that_is_held_does_not_count() -> None:
    """Whichever agent holds it and lets it go on. What Kubernetes stops by itself, whose clock
    starts anew with each start, has what is left.
    """
    worker = Leased()
    async with worker.running():
        worker.offer("a", deadline=1000)
        await until(lambda: worker.started("a"))
        worker.run_pods("a")
        worker.later(20)
        worker.renew()
        worker.ends()
        await worker.until_held("a")
        held = remote_job("w", worker.get("a"))
        assert (held.held_s, held.ran_s) == (0, 50)
    worker.later(500)
    async with worker.running():
        worker.stopping("a", 0)
        worker.renew()
        await worker.until_running("a")
        assert worker.get("a")["spec"]["activeDeadlineSeconds"] == 950
        worker.run_pods("a")
        assert remote_job("w", worker.get("a")).held_s == 500
        worker.later(30)
        await worker.until_held("a")
        assert remote_job("w", worker.get("a")).ran_s == 80
    async with worker.running():
        worker.stopping("a", 0)
        worker.later(5)
        worker.renew()
        await worker.until_running("a")
        assert worker.get("a")["spec"]["activeDeadlineSeconds"] == 920
        assert remote_job("w", worker.get("a")).held_s == 505


async def test_a_lease_that_is_short_of_its_end_changes_nothing() -> None:
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
        writes = worker.writes()
        for _ in range(10):
            worker.later(25)
            worker.renew()
            await worker.at_rest()
        assert worker.writes() == writes
        assert worker.started("a")


async def test_a_copy_tells_under_which_lease_it_was_started() -> None:
    """And went on: by how often that may have ended. Jobs of the cluster itself do not."""
    worker = Leased()
    worker.state = Lease().renewal(worker.boot(), 1, TERMS, "a", 1)
    async with worker.running():
        await worker.copy_runs("a")
        worker.add(job("local"))
        await until(lambda: worker.started("local"))
        assert worker.note_of("a", Mirror.BREAKS) == "1"
        assert not worker.note_of("local", Mirror.BREAKS)
        worker.ends()
        await worker.until_held("a")
        worker.stopping("a", 0)
        worker.tell(worker.state.renewal(worker.boot(), 1, TERMS, "b", 2))
        await worker.until_running("a")
        assert worker.note_of("a", Mirror.BREAKS) == "2"


async def test_what_is_held_keeps_its_room() -> None:
    """A Job of the cluster itself waits, also when the pods are gone."""
    worker = Leased(2)
    async with worker.running() as agent:
        await worker.copy_runs("a", gpus=2)
        worker.ends()
        await worker.until_held("a")
        worker.stopping("a", 0)
        worker.add(job("local"))
        await worker.at_rest()
        assert not worker.started("local")
        assert sum(agent.tree.usage("cq").values()) == 2
        worker.renew()
        await worker.until_running("a")
        assert not worker.started("local")


async def test_keep_with_a_limit() -> None:
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a", "keep 100")
        await worker.copy_runs("b", "keep 10")
        worker.later(29)
        await worker.at_rest()
        assert worker.started("b")
        worker.later(1)
        await worker.until_held("b")
        worker.later(69)
        await worker.at_rest()
        assert worker.started("a")
        worker.later(1)
        await worker.until_held("a")
        assert "limit of 100 s" in worker.held("a")
        worker.stopping("a", 0)
        worker.renew()
        await worker.until_running("a")


async def test_a_limit_counts_from_the_last_renewal() -> None:
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a", "keep 100")
        for _ in range(12):
            worker.later(20)
            worker.renew()
            await worker.at_rest()
        assert worker.started("a")
        worker.later(99)
        await worker.at_rest()
        assert worker.started("a")
        worker.later(1)
        await worker.until_held("a")


@pytest.mark.parametrize("policy", ["perhaps", "keep soon", "keep -1", "keep nan", "STOP"])
async def test_what_cannot_be_understood_stops(policy: str) -> None:
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a", policy)
        worker.ends()
        await worker.until_held("a")


# Offers


async def test_offers_wait_while_the_lease_is_over() -> None:
    """They are not refused: nobody hears it, and the room may be there."""
    worker = Leased()
    async with worker.running():
        worker.ends()
        worker.offer("a")
        worker.offer("keep", "keep")
        worker.add(job("local"))
        await until(lambda: worker.started("local"))
        await worker.at_rest()
        assert not worker.answered("a")
        assert not worker.answered("keep")
        worker.renew()
        await worker.until_answered("a", "keep")
        assert worker.started("a")


async def test_a_start_that_waits_for_its_turn_until_the_lease_is_over() -> None:
    """It is not made, and nothing is charged for it."""
    worker = Leased()
    async with worker.running() as agent:
        slow = asyncio.Event()
        real = agent._decisions._start

        async def late(*arguments: Any) -> None:
            await slow.wait()
            await real(*arguments)

        agent._decisions._start = late  # type: ignore[method-assign]
        worker.offer("a")
        await until(lambda: agent.scheduler.holder(worker.get("a")["metadata"]["uid"]))
        worker.ends()
        slow.set()
        await worker.at_rest()
        assert not worker.answered("a")
        await until(lambda: not any(agent.tree.usage("cq").values()))


async def test_a_grace_longer_than_what_the_fence_waits_is_refused() -> None:
    worker = Leased()
    async with worker.running():
        for name, policy in (("a", ""), ("b", "keep 100"), ("c", "keep"), ("d", "duplicate-ok")):
            worker.offer(name, policy, grace=45)
        await worker.until_answered("a", "b", "c", "d")
        assert all(worker.started(name) for name in "abcd")
        for name, policy in (("e", ""), ("f", "keep 100"), ("g", "keep"), ("h", "duplicate-ok")):
            worker.offer(name, policy, grace=60)
        await worker.until_answered("e", "f", "g", "h")
        assert "is 60" in worker.refused("e")
        assert "within 45 s" in worker.refused("e")
        assert worker.refused("f")
        assert worker.started("g")
        assert worker.started("h")


# Fences


async def test_a_fence_and_the_verdict_to_adopt() -> None:
    """In the new epoch nothing of the old one goes on before the manager says so."""
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
        worker.ends()
        await worker.until_held("a")
        worker.stopping("a", 0)
        worker.tell(worker.state.fenced(2))
        worker.renew(2)
        await worker.at_rest()
        assert worker.stage("a") is Stage.HELD
        worker.adopt("a", 2)
        await worker.until_running("a")
        assert worker.note_of("a", Mirror.ATTEMPT) == "1"


async def test_a_fence_and_the_verdict_to_kill() -> None:
    """The copy is deleted: what it held is free."""
    worker = Leased(2)
    async with worker.running():
        await worker.copy_runs("a", gpus=2)
        worker.ends()
        await worker.until_held("a")
        worker.stopping("a", 0)
        worker.renew(2)
        worker.add(job("local", 2))
        await worker.at_rest()
        assert not worker.started("local")
        worker.fake.delete(JOBS, "a", "team")
        await until(lambda: worker.started("local"))


async def test_a_fence_of_an_agent_that_is_well() -> None:
    """What runs has until the deadline of its epoch to be adopted; then it is stopped."""
    worker = Leased()
    async with worker.running():
        for name in ("adopted", "left"):
            await worker.copy_runs(name)
        await worker.copy_runs("keep", "keep")
        worker.tell(worker.state.fenced(2))
        worker.offer("new")
        worker.later(10)
        await worker.at_rest()
        assert not worker.answered("new")
        assert all(worker.started(n) for n in ("adopted", "left", "keep"))
        worker.renew(2)
        await worker.until_answered("new")
        assert "epoch 1 is over" in worker.refused("new")
        worker.adopt("adopted", 2)
        await worker.at_rest()
        worker.later(19)
        worker.renew()
        await worker.at_rest()
        assert worker.started("left")
        worker.later(1)
        await worker.until_held("left")
        assert "has fenced epoch 1" in worker.held("left")
        assert worker.started("adopted")
        assert worker.started("keep")


async def test_a_fenced_lease_still_ends() -> None:
    """The agent is fenced and cannot take the new epoch: its deadline stays."""
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
        worker.tell(worker.state.fenced(2))
        await worker.at_rest()
        assert worker.started("a")
        worker.ends()
        await worker.until_held("a")


async def test_two_fences() -> None:
    """A copy that nobody adopted in the epoch after its own is not started in the next one."""
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a", "keep 1000")
        worker.ends()
        worker.renew(2)
        await worker.at_rest()
        assert worker.started("a")
        worker.ends()
        worker.renew(3)
        await worker.until_held("a")
        worker.stopping("a", 0)
        worker.adopt("a", 2)
        await worker.at_rest()
        assert worker.stage("a") is Stage.HELD
        worker.adopt("a", 3)
        await worker.until_running("a")


# An agent that starts


async def test_a_start_within_the_lease() -> None:
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
    worker.later(20)
    async with worker.running():
        await worker.at_rest()
        worker.renew()
        await worker.at_rest()
        assert worker.started("a")
        assert worker.held("a") == ""


async def test_a_start_after_the_lease() -> None:
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
    worker.ends()
    async with worker.running():
        await worker.until_held("a")


async def test_a_start_that_knows_of_no_deadline() -> None:
    """What runs waits for the first renewal, and for nothing else; offers do too."""
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
    worker.state = Lease()
    async with worker.running():
        worker.offer("new")
        worker.later(1000)
        await worker.at_rest()
        assert worker.started("a")
        assert not worker.answered("new")
        worker.tell(worker.state.failure())
        await worker.until_held("a")
        assert "was started" in worker.held("a")
        assert not worker.answered("new")
        worker.stopping("a", 0)
        worker.renew(1)
        await worker.until_running("a")
        await worker.until_answered("new")


async def test_a_first_renewal_that_succeeds_stops_nothing() -> None:
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
    worker.state = Lease()
    async with worker.running():
        await worker.at_rest()
        writes = worker.writes()
        worker.renew(1)
        await worker.at_rest()
        assert worker.writes() == writes


async def test_a_first_renewal_that_finds_a_fence_stops_at_once() -> None:
    """When the lease ended is not known: it may have ended long ago."""
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
        await worker.copy_runs("limited", "keep 1000")
        await worker.copy_runs("keep", "keep")
    worker.state = Lease()
    async with worker.running():
        worker.tell(worker.state.fenced(2))
        await worker.until_held("a", "limited")
        assert worker.started("keep")


# Others do things to what is held


async def test_somebody_starts_what_is_held() -> None:
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
        worker.ends()
        await worker.until_held("a")
        since, ran_s = worker.note_of("a", Mirror.HELD_AT), remote_job("w", worker.get("a")).ran_s
        for _ in range(3):
            worker.later(100)
            worker.fake.merge(JOBS, "a", {"spec": {"suspend": False}}, "team")
            await worker.until_held("a")
        assert (worker.note_of("a", Mirror.HELD_AT), ran_s) == (since, 30)
        assert remote_job("w", worker.get("a")).ran_s == 30
        worker.renew()
        worker.fake.merge(JOBS, "a", {"spec": {"suspend": False}}, "team")
        await worker.until_running("a")


async def test_a_queue_is_drained_while_its_jobs_are_held() -> None:
    """That is an eviction: the manager reads it, and queues the job elsewhere."""
    worker = Leased()
    async with worker.running() as agent:
        await worker.copy_runs("a")
        worker.ends()
        await worker.until_held("a")
        worker.stopping("a", 0)
        worker.fake.merge(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await until(lambda: worker.note_of("a", Mirror.EVICTED))
        assert worker.held("a") == ""
        await until(lambda: not any(agent.tree.usage("cq").values()))
        worker.renew()
        await worker.at_rest()
        assert not worker.started("a")


async def test_a_copy_that_ends_as_it_is_held() -> None:
    worker = Leased()
    async with worker.running() as agent:
        await worker.copy_runs("a")
        worker.ends()
        await worker.until_held("a")
        worker.end("a")
        await until(lambda: not any(agent.tree.usage("cq").values()))
        worker.renew()
        await worker.at_rest()
        assert worker.stage("a") is Stage.OVER


async def test_a_copy_that_is_deleted_as_it_is_held() -> None:
    """With its pods there yet: it is not started again."""
    worker = Leased()
    async with worker.running():
        await worker.copy_runs("a")
        worker.fake.merge(JOBS, "a", {"metadata": {"finalizers": ["x/y"]}}, "team")
        worker.ends()
        await worker.until_held("a")
        worker.fake.delete(JOBS, "a", "team")
        worker.stopping("a", 0)
        worker.renew()
        await worker.at_rest()
        assert not worker.started("a")


@pytest.mark.parametrize("how", ["drop", "lost", "status", "hang"])
async def test_an_api_server_that_fails(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker_agent.writes.RETRY_S", 0.001)
    monkeypatch.setattr("worker_agent.writes.HOLD_S", 0.01)
    worker = Leased()
    async with worker.running():
        for name in "abc":
            await worker.copy_runs(name)
        worker.fake.fail(lambda request: request.method == "PATCH", how=how, times=5)
        worker.ends()
        await worker.until_held(*"abc")
        for name in "abc":
            worker.stopping(name, 0)
        worker.fake.fail(
            lambda request: request.method == "PATCH",
            how="lost" if how == "hang" else how,
            times=5,
        )
        worker.renew()
        await worker.until_running(*"abc")


async def test_the_workload_says_why_it_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "COPY_AFTER_S", 0.0)
    monkeypatch.setattr(workloads, "QUIET_S", 0.0)
    worker = Leased()
    async with worker.running():
        task = asyncio.create_task(worker.workloads.run())
        try:
            await worker.copy_runs("a")
            await until(lambda: worker.fake.items(WORKLOADS))
            worker.ends()
            await worker.until_held("a")
            await until(lambda: "could not be reached" in admitted(worker))
            worker.stopping("a", 0)
            worker.renew()
            await until(lambda: admitted(worker) == "The workload is admitted")
        finally:
            await stop([task])


def admitted(worker: Leased) -> str:
    found = records.find(worker.status("a"), records.ConditionType.ADMITTED) or {}
    return str(found.get("message", "")) if found.get("status") == "True" else ""


# Crashes


async def through_the_end(worker: Any) -> None:
    """Two copies: held, fenced, one of them adopted; both go on in the end."""
    for name in "ab":
        worker.offer(name)
    await until(lambda: all(worker.started(name) for name in "ab"), "started")
    for name in "ab":
        worker.run_pods(name)
        worker._status(name, succeeded=1)
    worker.ends()
    await worker.until_held(*"ab")
    for name in "ab":
        worker.stopping(name, 0)
    worker.renew(2)
    worker.adopt("a", 2)
    await worker.until_running("a")
    worker.run_pods("a")
    assert worker.stage("b") is Stage.HELD
    worker.adopt("b", 2)
    await worker.until_running("b")
    for name in "ab":
        assert worker.note_of(name, Mirror.ATTEMPT) == "1"
        assert worker.get(name)["status"]["succeeded"] == 1


@pytest.mark.timeout(60)
async def test_the_agent_dies_before_any_of_its_writes() -> None:
    await Leased.relive(through_the_end)


# Many


@pytest.mark.timeout(60)
async def test_many_copies_stop_at_once() -> None:
    """One write each, as many at a time as the API server takes."""
    count = 100
    worker = Leased(count)
    async with worker.running():
        for index in range(count):
            worker.offer(f"j{index:03}")
        names = [f"j{index:03}" for index in range(count)]
        await until(lambda: all(worker.started(name) for name in names))
        await worker.at_rest()
        writes, most = worker.writes(), 0
        held = worker.agent.state.api.hold
        under_way = 0

        async def watched(*arguments: Any) -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await held(*arguments)
            under_way -= 1

        worker.agent.state.api.hold = watched  # type: ignore[method-assign]
        worker.ends()
        await worker.until_held(*names)
        assert worker.writes() == writes + count
        assert most == 64


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDQ_CLUSTER", "a")
    monkeypatch.setenv("FEDQ_MANAGEMENT_KUBECONFIG", "/x")
    assert AgentSettings().tier == "A"
    monkeypatch.setenv("FEDQ_TIER", "B")
    monkeypatch.setenv("FEDQ_DEADLINE_FILE", "/run/fedq/deadline.json")
    settings = AgentSettings()
    assert (settings.tier, str(settings.deadline_file)) == ("B", "/run/fedq/deadline.json")
    monkeypatch.setenv("FEDQ_TIER", "none")
    with pytest.raises(ValueError, match="tier"):
        AgentSettings()
