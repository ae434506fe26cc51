"""Whatever is late, lost or restarted: what was stopped at the end of a lease is doubted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from federation.core.failover import DEFAULT, FAST, Timings
from federation.core.holding import Lease, Tenure, Terms
from federation.core.lease import LeaseSeen, Watch, observe
from federation.core.renewals import MOST, Renewal, Renewals

A, B, C = (Renewal(mark, at, 30.0, came=True) for mark, at in (("a", 0), ("b", 5), ("c", 10)))


@pytest.mark.parametrize(
    ("before", "known", "expected"),
    [
        (Renewals(A), "a", Renewals(A, (C,))),
        (Renewals(A, (B,)), "a", Renewals(A, (B, C))),
        (Renewals(A, (B,)), "b", Renewals(B, (C,))),
        (Renewals(A, (B,)), "", Renewals(C)),
        (Renewals(A, (B,)), None, Renewals()),
        (Renewals(), "x", Renewals(replace(C, mark="x", came=False), (C,))),
    ],
    ids=["the same", "still the same", "a later one", "none", "untold", "one that was missed"],
)
def test_which_one_is_known(before: Renewals, known: str | None, expected: Renewals) -> None:
    assert before.seen(C, known) == expected


def test_not_all_are_remembered() -> None:
    """Of an agent that gets no answer for days."""
    renewals = Renewals(A)
    for number in range(2 * MOST):
        renewals = renewals.seen(Renewal(str(number), float(number), 30.0, came=True), "a")
    assert (renewals.known, len(renewals.later)) == (A, MOST)


class Play:
    """An agent, the Lease, a manager that sees at once what is stored, and one copy. Time is true;
    the agent's clock is slower or faster.
    """

    def __init__(self, timings: Timings, rate: float) -> None:
        self.timings, self.rate, self.true = timings, rate, 0.0
        self.terms = Terms(timings.renew, timings.lease, timings.kill)
        self.note: Tenure | None = None
        self.agent = Lease()
        self.stored = LeaseSeen(1, lease=timings.lease, renew=timings.renew, kill=timings.kill)
        self.sent: tuple[float, LeaseSeen] | None = None
        self.arrived = False
        self.watch = Watch()
        self.copy: int | None = None
        self.stopped = False
        self.see()

    def clock(self) -> float:
        return self.true * self.rate

    def see(self) -> None:
        self.watch = observe(self.watch, self.stored, self.true, self.timings)

    def step(self, what: str, seconds: float) -> None:
        match what:
            case "pass":
                self.true += seconds
            case "send" if self.sent is None:
                self.send()
            case "arrive":
                self.arrive()
            case "answer":
                self.answer()
            case "lose":
                self.sent = None if self.arrived else self.sent
            case "renew" | "unanswered" | "slow":
                self.sent = None
                self.send()
                self.true += seconds if what == "slow" else 0.0
                self.arrive()
                if what != "unanswered":
                    self.answer()
            case "restart" | "elsewhere":
                held = what == "restart" and self.note and self.clock() < self.note.deadline
                self.agent = Lease(1, self.note, seen=1) if held else Lease(1, seen=1)
            case "manager":
                self.watch = Watch()
                self.see()
            case "start" if self.agent.may_start(1, self.clock()):
                self.copy, self.stopped = self.agent.breaks, False

    def send(self) -> None:
        now = self.clock()
        before = self.agent.unbroken(now)
        breaks = max(self.stored.breaks, self.agent.breaks) + (before is None)
        mark = f"{self.stored.version} at {self.true}"
        body = replace(
            self.stored,
            holder="x",
            renewed=mark,
            known=before.mark if before else "",
            breaks=breaks,
        )
        self.sent, self.arrived = (now, body), False

    def arrive(self) -> None:
        if self.sent is None or self.arrived:
            return
        sent, body = self.sent
        if body.version != self.stored.version:
            self.sent = None
            return
        self.stored = replace(body, version=body.version + 1)
        self.sent, self.arrived = (sent, self.stored), True
        self.see()

    def answer(self) -> None:
        if self.sent is None or not self.arrived:
            return
        (sent, body), self.sent = self.sent, None
        if self.agent.in_time(sent, self.clock(), self.terms):
            self.agent = self.agent.renewal(sent, 1, self.terms, body.renewed, body.breaks)
            self.note = self.agent.tenure

    def check(self) -> None:
        """A guard has stopped what runs when the lease was over by the note of the agent."""
        if self.copy is None or self.note is None:
            return
        self.stopped = self.stopped or self.clock() >= self.note.deadline
        if self.stopped and self.watch.seen is not None:
            doubted = self.watch.lapsed(self.true, self.timings) or self.watch.unheard
            assert doubted or self.copy < self.watch.seen.breaks


_OFTEN = ["renew", "renew", "start", "pass", "pass", "pass", "send", "arrive", "answer", "lose"]
_SELDOM = ["unanswered", "unanswered", "slow", "restart", "elsewhere", "manager"]
_STEPS = st.tuples(
    st.sampled_from(_OFTEN + _SELDOM),
    st.sampled_from([0.5, 2.0, 5.0, 7.0, 20.0, 31.0]),
)


LOST = [("pass", 20.0), ("unanswered", 0.0), ("pass", 20.0)]
LATE = [("pass", 5.0), ("slow", 20.0), ("pass", 5.0), ("unanswered", 0.0), ("pass", 7.0)]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(_STEPS, min_size=4, max_size=40),
    timings=st.sampled_from([FAST, DEFAULT]),
    rate=st.sampled_from([1 - 1e-3, 1.0, 1 + 1e-3]),
)
@example(steps=LOST, timings=FAST, rate=1.0)
@example(steps=LATE, timings=FAST, rate=1.0)
def test_what_was_stopped_is_doubted(
    steps: list[tuple[str, float]], timings: Timings, rate: float
) -> None:
    """Until its failure would count, the manager would have to believe that its lease held."""
    play = Play(timings, rate)
    for step in (("renew", 0.0), ("start", 0.0), *steps):
        play.step(*step)
        play.check()


def test_a_cluster_that_is_well_is_not_doubted() -> None:
    """With the longest period that a lease allows, answers that come late."""
    for timings in (FAST, DEFAULT, Timings(renew=19.9, suspect=20, lease=40, rerun=100)):
        play = Play(timings, 1.0)
        period = min(timings.renew, timings.lease / 3)
        for number in range(20):
            play.step("send", 0)
            play.step("pass", 0.5)
            play.step("arrive", 0)
            play.step("pass", 0.5)
            play.step("answer", 0)
            play.step("pass", period - 1)
            assert not play.watch.lapsed(play.true, timings)
            assert number < 2 or not play.watch.unheard
        assert play.stored.breaks == 1
