"""The life of a job under every fault that the shell can meet, in any order."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from federation.edge.resources import JOBS
from federation.jobs import batch_job
from tests.unit.core.simulation import HOME, World

PICK = st.integers(0, 7)
OUTCOME = st.sampled_from(["ok", "ok", "ok", "before", "after"])


class Lifecycle(RuleBasedStateMachine):
    """One job, two or three workers; the rules are what can happen next."""

    world: World

    @initialize(workers=st.sampled_from([("a", "b"), ("a", "b", "c")]))
    def begin(self, workers: tuple[str, ...]) -> None:
        self.world = World(workers)
        self.world.submit()
        self.recreated = False

    # The manager goes on

    @precondition(lambda self: self.world.unread())
    @rule(pick=PICK)
    def deliver(self, pick: int) -> None:
        """News of any one watch; each watch keeps its order."""
        unread = self.world.unread()
        self.world.deliver(unread[pick % len(unread)])

    @precondition(lambda self: self.world.shell.running)
    @rule(pick=PICK, outcome=OUTCOME)
    def work(self, pick: int, outcome: str) -> None:
        """One effect is carried out, or fails before or after it took hold."""
        running = list(self.world.shell.running)
        self.world.work(running[pick % len(running)], outcome)

    @precondition(lambda self: self.world.shell.running or self.world.unread())
    @rule(steps=st.integers(1, 6))
    def go_on(self, steps: int) -> None:
        """A while without faults."""
        for _ in range(steps):
            if running := list(self.world.shell.running):
                self.world.work(running[0])
            elif unread := self.world.unread():
                self.world.deliver(unread[0])
            self.world.check()

    @precondition(lambda self: self.world.placeable())
    @rule(pick=PICK)
    def place(self, pick: int) -> None:
        """The cycle places the job on any cluster that has not refused it lately."""
        places = self.world.placeable()
        self.world.place(*places[pick % len(places)])

    @precondition(lambda self: self.world.placeable())
    @rule()
    def explain(self) -> None:
        """The cycle says why it waits."""
        self.world.explain(self.world.placeable()[0][0])

    @precondition(lambda self: self.world.shell.orphans)
    @rule()
    def remove_orphan(self) -> None:
        """A copy whose job is gone is deleted."""
        self.world.remove_orphan()

    @rule(seconds=st.sampled_from([0.1, 1.5, 6.0, 11.0, 61.0]))
    def pass_time(self, seconds: float) -> None:
        """Deadlines pass."""
        self.world.pass_time(seconds)

    # The workers go on

    @precondition(lambda self: self.world.undecided())
    @rule(pick=PICK, answer=st.sampled_from(["start", "start", "refuse", "deliberate"]))
    def answer(self, pick: int, answer: str) -> None:
        """An agent answers the copy it has."""
        clusters = self.world.undecided()
        getattr(self.world, answer)(clusters[pick % len(clusters)])

    @precondition(lambda self: self.world.live())
    @rule(pick=PICK, how=st.sampled_from(["up", "ended", "failed", "conclude"]))
    def run_pods(self, pick: int, how: str) -> None:
        """A worker's Job controller."""
        clusters = self.world.live()
        self.world.run_pods(clusters[pick % len(clusters)], how)

    @precondition(lambda self: self.world.stopping())
    @rule(pick=PICK)
    def reap(self, pick: int) -> None:
        """Pods that were told to stop have stopped."""
        uids = self.world.stopping()
        self.world.reap(uids[pick % len(uids)])

    @precondition(lambda self: self.world.collectable())
    @rule(pick=PICK)
    def collect(self, pick: int) -> None:
        """A foreground deletion ends."""
        clusters = self.world.collectable()
        self.world.collect(clusters[pick % len(clusters)])

    # Faults

    @rule(held=st.booleans())
    def restart(self, held: bool) -> None:
        """The manager crashes; the write under way may still take hold."""
        self.world.restart(held=held)

    @rule(pick=PICK)
    def relist(self, pick: int) -> None:
        """A watch breaks."""
        streams = self.world.streams
        self.world.relist(streams[pick % len(streams)])

    @precondition(lambda self: self.world.live())
    @rule(pick=PICK, how=st.sampled_from(["halt", "lose"]))
    def disturb(self, pick: int, how: str) -> None:
        """Somebody suspends or deletes a started copy on its worker."""
        clusters = self.world.live()
        getattr(self.world, how)(clusters[pick % len(clusters)])

    @precondition(lambda self: self.world.undecided())
    @rule(pick=PICK)
    def lose_offer(self, pick: int) -> None:
        """Somebody deletes an offered copy."""
        clusters = self.world.undecided()
        self.world.lose(clusters[pick % len(clusters)])

    # People

    @rule(stopped=st.booleans())
    def stop_queue(self, stopped: bool) -> None:
        """The queue is stopped or started."""
        self.world.stop_queue(stopped)

    def _open(self) -> Any:
        job = self.world.job()
        return job and not batch_job.finished(job["status"]) and job

    @precondition(lambda self: self._open())
    @rule(suspend=st.booleans())
    def suspend(self, suspend: bool) -> None:
        """A person suspends or resumes the job."""
        self.world.set_suspend(suspend)

    @precondition(lambda self: self.world.workload())
    @rule(active=st.booleans())
    def hold(self, active: bool) -> None:
        """A person holds or releases the Workload."""
        self.world.set_active(active)

    @precondition(lambda self: self.world.job())
    @rule(foreground=st.booleans(), really=st.sampled_from([False, False, True]))
    def delete(self, foreground: bool, really: bool) -> None:
        """A person deletes the job."""
        if really:
            self.world.delete(foreground=foreground)

    @precondition(lambda self: self.world.job() is None and not self.recreated)
    @rule()
    def submit_again(self) -> None:
        """A new job of the same name."""
        self.recreated = True
        self.world.submit()

    @precondition(
        lambda self: (self.world.job() or {}).get("metadata", {}).get("deletionTimestamp")
    )
    @rule()
    def reap_home(self) -> None:
        """The foreground deletion of the local Job ends."""
        self.world.reap_home()

    # Truths

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self._end()
        finally:
            self.world.close()

    def _end(self) -> None:
        self.world.settle()
        self.world.check_end()
        completions = {
            change.new["metadata"]["uid"]: None
            for change in self.world.kubes[HOME].objects.history
            if change.resource == JOBS
            and change.new
            and batch_job.finished(change.new["status"])
            and not batch_job.finished((change.old or {}).get("status", {}))
        }
        assert len(completions) <= 2


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(
    max_examples=int(os.environ.get("FEDQ_SIMULATIONS", "40")),
    stateful_step_count=int(os.environ.get("FEDQ_SIMULATION_STEPS", "40")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
