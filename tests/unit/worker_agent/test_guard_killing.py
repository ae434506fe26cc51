"""Runs are ended, with all their processes and with none of anybody else's."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from federation.edge.machine import boottime
from tests.unit.worker_agent.guarded import PATIENCE, SCRIPTS, Pod, wait_for
from worker_agent.guard import cgroups
from worker_agent.guard.decision import Knowledge, Notice, Times
from worker_agent.guard.killing import Killer

HOLDS = Knowledge(0, 120, Notice(0, 10.0**9))
DEADLINE = 10.0**8
"""Long after all that these tests start."""
OVER = Knowledge(0, 120, Notice(DEADLINE - 100, DEADLINE))
TIMES = Times(kill=45, margin=5, grace=10, lead=0)

Start = Callable[..., Pod]


class Mark:
    """What tells the processes of one test from those of all others on this machine."""

    def __init__(self) -> None:
        self.entry = f"GUARD_TEST={uuid.uuid4().hex}"

    def environment(self, **more: str) -> dict[str, str]:
        key, _, value = self.entry.partition("=")
        return {key: value, "FEDQ_JOB_UID": "j", "FEDQ_ATTEMPT": "1", **more}


@pytest.fixture
def mark() -> Mark:
    return Mark()


@pytest.fixture
def start(mark: Mark) -> Iterator[Start]:
    """Starts pods, and sees to it that nothing of them is left."""
    pods: list[Pod] = []

    def begin(script: str = "sleeps", group: Path | None = None, **env: str) -> Pod:
        pod = Pod(script, mark.environment(**env), group)
        pods.append(pod)
        return pod

    yield begin
    for pod in pods:
        pod.end()


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of our own."""
    root = cgroups.mount()
    if root is None or not os.access(root, os.W_OK):
        pytest.skip("no control groups of version 2 here that we may make")
    folder = root / f"fedq-test-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    yield folder
    wait_for(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


def killer(mark: Mark, *, groups: bool = False) -> Killer:
    return Killer(TIMES, only=mark.entry, root=cgroups.mount() if groups else None)


def test_nothing_is_done_while_the_lease_holds(mark: Mark, start: Start) -> None:
    """Not even looked at."""
    pod, guard = start(), killer(mark)
    guard.tick(HOLDS, boottime())

    assert not guard.sentences
    assert len(pod.alive()) == 1


def test_a_run_ends_when_the_lease_does(mark: Mark, start: Start) -> None:
    """SIGTERM is enough for most."""
    pod, guard = start(), killer(mark)
    guard.tick(OVER, DEADLINE)
    assert pod.process.wait(PATIENCE) == -15
    guard.tick(OVER, DEADLINE + 1)

    assert (guard.ended, guard.sentences) == (1, {})


@pytest.mark.parametrize("policy", ["keep", "duplicate-ok"])
def test_runs_of_other_policies_go_on(mark: Mark, start: Start, policy: str) -> None:
    """Whatever happens beside them."""
    kept, pod, guard = start(FEDQ_ON_DISCONNECT=policy), start(FEDQ_JOB_UID="k"), killer(mark)
    guard.tick(OVER, DEADLINE)
    wait_for(lambda: not pod.alive())
    guard.tick(OVER, DEADLINE + 100)

    assert len(kept.alive()) == 1


def test_keep_with_a_limit_ends_at_the_limit(mark: Mark, start: Start) -> None:
    """Counted from the last renewal."""
    pod, guard = start(FEDQ_ON_DISCONNECT="keep", FEDQ_RERUN_AFTER="500"), killer(mark)
    guard.tick(OVER, DEADLINE + 399)
    assert not guard.sentences
    guard.tick(OVER, DEADLINE + 400)

    wait_for(lambda: not pod.alive())


def test_processes_that_are_no_runs_of_this_guard_go_on(mark: Mark, start: Start) -> None:
    """Another cluster's on this machine, and what has no run in its environment."""
    other = Mark()
    strangers = [Pod("sleeps", other.environment()), Pod("sleeps", {"FEDQ_ATTEMPT": "1"})]
    pod, guard = start(), killer(mark)
    try:
        guard.tick(OVER, DEADLINE + 100)
        wait_for(lambda: not pod.alive())
        assert all(stranger.alive() for stranger in strangers)
    finally:
        for stranger in strangers:
            stranger.end()


def test_who_ignores_sigterm_is_killed_after_the_grace(mark: Mark, start: Start) -> None:
    """Not before."""
    pod, guard = start("ignores SIGTERM"), killer(mark)
    guard.tick(OVER, DEADLINE)
    guard.tick(OVER, DEADLINE + 9.9)
    assert pod.alive()
    guard.tick(OVER, DEADLINE + 10)

    assert pod.process.wait(PATIENCE) == -9


def test_a_guard_that_comes_late_kills_at_once(mark: Mark, start: Start) -> None:
    """As one that was started anew, or stood still, beyond what was promised."""
    pod, guard = start("ignores SIGTERM"), killer(mark)
    guard.tick(OVER, DEADLINE + 40)

    wait_for(lambda: not pod.alive())


def test_a_child_without_environment_ends_with_its_parent(mark: Mark, start: Start) -> None:
    """It is found by whom it descends from, also when that one has gone."""
    pod, guard = start("child that ignores SIGTERM and is left alone"), killer(mark)
    guard.tick(OVER, DEADLINE)
    wait_for(lambda: pod.process.poll() is not None)
    assert len(pod.alive()) == 1
    guard.tick(OVER, DEADLINE + 1)
    assert len(guard.sentences) == 1
    guard.tick(OVER, DEADLINE + 10)

    wait_for(lambda: not pod.alive())


@pytest.mark.parametrize("script", SCRIPTS)
def test_nothing_in_the_control_group_of_a_run_survives(
    mark: Mark, group: Path, start: Start, script: str
) -> None:
    """Neither a daemon that left its parent, its session and its environment."""
    pod, guard = start(script, group), killer(mark, groups=True)
    guard.tick(OVER, DEADLINE)
    assert [sentence.groups for sentence in guard.sentences.values()] == [{group}]
    guard.tick(OVER, DEADLINE + 10)

    wait_for(lambda: not pod.alive())
    wait_for(lambda: "populated 0" in (group / "cgroup.events").read_text())


def test_who_shares_a_control_group_with_a_run_goes_on(
    mark: Mark, group: Path, start: Start
) -> None:
    """A session in which somebody tried something is no container of the run."""
    bystander = Pod("ignores SIGTERM", {}, group)
    try:
        pod, guard = start("sleeps", group), killer(mark, groups=True)
        guard.tick(OVER, DEADLINE + 100)
        wait_for(lambda: not pod.alive())
        assert bystander.alive()
    finally:
        bystander.end()


def test_two_runs_in_one_control_group_are_told_apart(
    mark: Mark, group: Path, start: Start
) -> None:
    """The one that is kept was there later."""
    pod, kept = start("sleeps", group), start("sleeps", group, FEDQ_ON_DISCONNECT="keep")
    guard = killer(mark, groups=True)
    guard.tick(OVER, DEADLINE + 100)
    wait_for(lambda: not pod.alive())

    assert kept.alive()


def test_what_was_told_to_end_ends_though_the_lease_is_renewed(mark: Mark, start: Start) -> None:
    """But what runs of the same attempt later is not taken with it."""
    pod, guard = start("ignores SIGTERM"), killer(mark)
    guard.tick(OVER, DEADLINE)
    again = start()
    guard.tick(HOLDS, DEADLINE + 5)
    guard.tick(HOLDS, DEADLINE + 10)

    wait_for(lambda: not pod.alive())
    assert again.alive()


def test_it_is_left_to_the_agent_for_a_moment(mark: Mark, start: Start) -> None:
    """An agent that can stops what runs by deleting pods, which are then no failures."""
    pod, guard = start(), Killer(Times(lead=3), only=mark.entry)
    guard.tick(OVER, DEADLINE + 2.9)
    assert not guard.sentences
    guard.tick(OVER, DEADLINE + 3)

    wait_for(lambda: not pod.alive())


def test_what_starts_when_the_lease_is_over_gets_no_grace(mark: Mark, start: Start) -> None:
    """It has nothing to bring to an end, and its place may be taken."""
    now = boottime()
    earlier = Knowledge(0, 120, Notice(now - 100, now - 1))
    pod, guard = start("ignores SIGTERM"), killer(mark)
    guard.tick(earlier, boottime())

    wait_for(lambda: not pod.alive())


def test_what_is_started_again_while_the_lease_is_over_ends_too(mark: Mark, start: Start) -> None:
    """A kubelet restarts containers; it does not know of leases."""
    pod, guard = start(), killer(mark)
    guard.tick(OVER, DEADLINE)
    wait_for(lambda: not pod.alive())
    again = start("ignores SIGTERM")
    guard.tick(OVER, DEADLINE + 10)

    wait_for(lambda: not again.alive())
