"""The simulation finds what is wrong: each bug planted here breaks the rule that it should.

Without bugs the first 200 seeds are clean, and a seed is the same every time.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from bench.dst.faults import Faults
from bench.dst.guard import Guard
from bench.dst.index import OpenedIndex, ShakyIndex
from bench.dst.run import Plan, drawn, run_seed
from bench.dst.world import World, has_cards
from federation.api import lease
from federation.api.renewal import Told
from federation.core import doubt, loss
from federation.core.checks import CheckState
from federation.core.devices.ledger.holding import Holding, State
from federation.core.facts import JobState
from federation.core.failover import FAST
from federation.core.holding import NEVER, Lease
from federation.core.lease import Watch
from federation.core.queueing import Entry, IndexLost
from federation.core.scheduler import Scheduler
from federation.jobs import elastic
from manager.copy_writes import CopyWrites
from manager.protocol import CreateCopy, Outcome, Result

SEEDS = range(1, 21)
"""A planted bug has to be found in these."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def first(
    rule: str,
    of: str = "",
    *,
    plan: Plan = drawn,
    prepare: Callable[[World], None] = lambda world: None,
    seeds: Iterable[int] = SEEDS,
) -> str:
    """The first violation of a rule, and with `of` the first that says so."""
    for seed in seeds:
        for line in run_seed(seed, plan=plan, prepare=prepare).violations:
            if line.startswith(f"{rule}:") and of in line:
                return line
    pytest.fail(f"{len(SEEDS)} seeds, and {rule} {of} was never violated")


def lost(faults: Faults, rng: random.Random) -> None:
    """A cluster is cut off while jobs run on it, and comes back."""
    faults.at(rng.uniform(40, 80), faults.isolate, 200)


def fast(world: World) -> None:
    """With the times of the profile `fast`, and without guards on the nodes."""
    for manager in world.managers:
        manager.timings = FAST


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.dst", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


def test_200_seeds_are_clean() -> None:
    done = run("--seeds", "1..200", "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 seeds" in done.stdout
    assert "ClusterLost" in done.stdout
    assert "adopted" in done.stdout


def test_a_seed_is_the_same_every_time() -> None:
    once, again = run("--trace", "7"), run("--trace", "7")
    assert once.returncode == 0, once.stdout[-2000:] + once.stderr
    assert len(once.stdout.splitlines()) > 100
    assert once.stdout == again.stdout


# Bugs of failover


@pytest.fixture
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on the nodes makes up for what an agent does wrong."""
    monkeypatch.setattr(Guard, "doomed", lambda self, traits: False)


@pytest.mark.usefixtures("unguarded")
def test_an_agent_that_ignores_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "limit", lambda self, policy, rerun_after, epoch: NEVER)
    first("one-copy", of="(stop)", plan=lost, prepare=fast)


@pytest.mark.usefixtures("unguarded")
def test_a_rerun_before_the_old_copy_is_certainly_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Watch, "gone_s", Watch.fence_s)
    first("one-copy", of="(stop)", plan=lost, prepare=fast)


@pytest.mark.usefixtures("unguarded")
def test_a_job_to_be_kept_that_runs_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def may_rerun(bound: Any, standing: Any, timings: Any) -> bool:
        return bool(standing.stopped_below > bound.epoch)

    monkeypatch.setattr(loss, "may_rerun", may_rerun)
    first("one-copy", of="(keep)", plan=lost, prepare=fast)


@pytest.mark.usefixtures("unguarded")
def test_an_agent_that_does_not_wait_for_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "may_start", lambda self, epoch, now: self.holds(now))
    first("one-copy", plan=lost, prepare=fast)


def agent_dead(faults: Faults, rng: random.Random) -> None:
    """An agent stays away for longer than its lease, while its cluster goes on."""

    def die(now: float, lasts: float) -> str:
        agent = faults.world.agents[faults.world.names[0]]
        agent.down_s, agent.dies_in = lasts, 0
        return f"{agent.host.name} is dead"

    if faults.guarded:
        faults.at(rng.uniform(30, 120), die, 200)


def test_a_failure_that_comes_from_the_end_of_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """What guards kill has failed where a Job has no retries: that is no result of the job."""
    for seed in SEEDS:
        assert run_seed(seed, plan=agent_dead).violations == []
    monkeypatch.setattr(doubt, "doubted", lambda state, copy: False)
    assert "is Failed, but no run of it ended so" in first("finished-once", plan=agent_dead)


def unanswered(faults: Faults, rng: random.Random) -> None:
    """The answers to renewals are lost, and the agent dies before its lease is over, which looks
    new to everybody else.
    """
    agent = faults.world.agents[faults.world.names[0]]

    def lose(now: float, lasts: float) -> str:
        agent.links["lease"].lose_rate = 1.0
        faults.world.loop.later(lasts, die)
        return f"answers to {agent.host.name} are lost"

    def die() -> None:
        agent.links["lease"].lose_rate = 0.0
        agent.kill(20.0)

    if faults.guarded:
        for start in range(30, 240, 70):
            faults.at(start + rng.uniform(0, 20), lose, FAST.lease - FAST.renew)


def test_a_failure_under_renewals_that_nobody_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager has seen them, the agent and the guards do not know of them."""
    for seed in SEEDS:
        assert run_seed(seed, plan=unanswered).violations == []
    monkeypatch.setattr(lease, "read_renewal", lambda obj: Told())
    assert "is Failed, but no run of it ended so" in first("finished-once", plan=unanswered)


# Bugs of dispatch


def test_a_copy_that_counts_as_gone_while_its_pods_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def delete(self: CopyWrites, command: Any) -> Outcome:
        await whole(self, replace(command, wait=False, version=0))
        return Outcome(Result.ABSENT)

    whole = CopyWrites.delete
    monkeypatch.setattr(CopyWrites, "delete", delete)
    assert "starts on" in first("one-copy")


def test_attempts_that_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobState, "attempt", property(lambda state: 0))
    first("attempts")


def test_an_index_that_forgets_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fill(self: ShakyIndex, entries: Any) -> None:
        await whole(self, ())

    async def audit(self: Scheduler) -> None:
        """It finds nothing."""

    whole = ShakyIndex.fill
    monkeypatch.setattr(ShakyIndex, "fill", fill)
    monkeypatch.setattr(Scheduler, "audit", audit)
    assert "has not finished" in first("lost")


def test_quota_that_nobody_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "hold", lambda self, held: None)
    first("quota")


def test_an_effect_that_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def create(self: CopyWrites, command: CreateCopy) -> Outcome:
        if command.attempt > 1:
            raise KeyError("attempt")
        return await whole(self, command)

    whole = CopyWrites.create
    monkeypatch.setattr(CopyWrites, "create", create)
    first("crash")


def test_a_copy_that_gets_more_pods_than_were_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    def grown_patch(*grown: Any) -> dict[str, Any]:
        patch = whole(*grown)
        return patch | {"spec": {key: number + 1 for key, number in patch["spec"].items()}}

    whole = elastic.grown_patch
    monkeypatch.setattr(elastic, "grown_patch", grown_patch)
    assert "and was given" in first("size")


# Bugs of cards


def test_an_agent_that_forgets_seats_whose_pods_are_not_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are known, and count nothing on their cards."""

    def charge(self: Holding) -> Any:
        return {} if self.state is State.RESERVED else whole(self)

    whole = Holding.charge
    monkeypatch.setattr(Holding, "charge", charge)
    assert "are used" in first("cards", seeds=filter(has_cards, SEEDS))


# Bugs of checks


def test_an_agent_that_starts_what_it_has_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at what the checks say."""
    monkeypatch.setattr("worker_agent.reservations.standing", lambda *given: CheckState.READY)
    assert "not Ready" in first("checks")


async def test_an_index_is_that_of_whoever_filled_it_last() -> None:
    """As in Redis: what a manager that was replaced says after that has no effect, and it is told
    so by its next reading.
    """
    index = ShakyIndex(random.Random(1))
    old, new = OpenedIndex(index), OpenedIndex(index)
    entry = Entry("a", 1, "0" * 20 + "a~00000000")
    await old.fill([("q", entry)])
    await new.fill([("q", entry)])
    old.drop("a")
    old.block("q", "00000000")
    old.enqueue("q", Entry("b", 9, "0" * 20 + "b~00000000"))
    assert await new.heads(["q"]) == {"q": entry}
    assert await new.counts(["q"]) == {"q": 1}
    with pytest.raises(IndexLost):
        await old.heads(["q"])
    await old.fill([])
    with pytest.raises(IndexLost):
        await new.claim({"a": 1})
