"""Lives of workloads over time: where the verdicts of `control` lead when they are carried out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from federation.core.backoff import RequeueState
from federation.core.bookkeeping import accumulated_past
from federation.core.checks import CheckState, reset
from federation.core.controls import (
    Deactivate,
    Evict,
    Life,
    Nothing,
    Readmit,
    Release,
    Verdict,
    Why,
    control,
)
from federation.core.policies import PodsReady
from tests.unit.core.build import FEW
from tests.unit.core.test_controls import (
    DRAIN,
    HOLD,
    NONE,
    REJECTED,
    RESERVED,
    RETRY,
    RULES,
    STARTS,
    T0,
    WAITS,
)


@dataclass
class World:
    """Does what the verdicts say, as the shell would: stops at once, admits when it may."""

    life: Life
    rules: PodsReady
    now: float = T0
    story: list[tuple[float, str]] = field(default_factory=list)

    def settle(self) -> Nothing:
        for _ in range(20):
            verdict = control(self.life, self.rules, self.now)
            if isinstance(verdict, Nothing):
                return verdict
            self.tell(verdict.reason)
            self.carry_out(verdict)
        raise AssertionError(f"never at rest: {self.story}")

    def tell(self, what: str) -> None:
        self.story.append((self.now - T0, what))

    def carry_out(self, verdict: Verdict) -> None:
        life = self.life
        match verdict:
            case Deactivate(reason, message):
                self.life = replace(life, target=Why(reason, message), active=life.target is None)
            case Evict(reason, _, requeue):
                checks = reset(life.checks, self.now)
                self.life = replace(
                    life, evicted=reason, requeue=requeue, checks=checks, target=None
                )
                self.stopped()
            case Release():
                self.life = replace(life, reserved=False)
            case Readmit():
                self.life = replace(life, requeued="", requeue=RequeueState(life.requeue.count))

    def stopped(self) -> None:
        life = self.life
        self.life = replace(
            life,
            reserved=False,
            admitted=False,
            admitted_at=None,
            requeued="" if life.evicted == "Preempted" else life.evicted,
            accumulated_past_s=accumulated_past(
                life.accumulated_past_s, life.admitted_at, self.now, life.evicted
            ),
        )

    def admit(self) -> None:
        assert self.life.active
        assert not self.life.requeued
        assert self.life.requeue.over(self.now)
        self.tell("admitted")
        self.life = replace(
            self.life,
            reserved=True,
            admitted=True,
            admitted_at=self.now,
            evicted="",
            pods_ready=False,
        )

    def sleep(self) -> None:
        wake = self.settle().wake_at
        assert wake is not None
        assert wake > self.now
        self.now = wake
        self.settle()


def test_timeline_of_pods_that_never_get_ready() -> None:
    """Limit 2: two evictions with 60 s and 120 s of backoff, then deactivation; counts cleared."""
    world = World(WAITS, RULES)
    for _ in range(3):
        world.admit()
        world.sleep()
        if world.life.active:
            world.sleep()
    assert world.story == [
        (0, "admitted"),
        (1800, "PodsReadyTimeout"),
        (1860, "BackoffFinished"),
        (1860, "admitted"),
        (3660, "PodsReadyTimeout"),
        (3780, "BackoffFinished"),
        (3780, "admitted"),
        (5580, "RequeuingLimitExceeded"),
        (5580, "RequeuingLimitExceeded"),
        (5580, "DeactivatedDueToRequeuingLimitExceeded"),
    ]
    assert world.life.requeue == RequeueState()
    assert world.settle() == Nothing()


def test_timeline_of_a_deactivated_workload_that_people_activate_again() -> None:
    world = World(replace(STARTS, requeue=RequeueState(2)), RULES)
    world.sleep()
    assert not world.life.active

    world.life = replace(world.life, active=True)
    world.settle()
    world.admit()

    assert world.story[-2:] == [(1800, "Reactivated"), (1800, "admitted")]
    assert world.settle() == Nothing(world.now + 1800)


def test_the_count_of_timeouts_survives_a_good_run() -> None:
    world = World(WAITS, RULES)
    for _ in range(2):
        world.admit()
        world.sleep()
        world.sleep()
    world.admit()
    world.life = replace(world.life, pods_ready=True)
    world.now += 86400
    assert world.settle() == Nothing()
    world.life = replace(
        world.life, pods_ready=False, pods_were_ready=True, pods_ready_changed_at=world.now
    )
    world.sleep()
    assert world.story[-1][1] == "DeactivatedDueToRequeuingLimitExceeded"


def test_timeline_of_execution_time_over_two_admissions() -> None:
    """600 s in all: 400 s, preempted, then the remaining 200 s; a new clock when reactivated."""
    world = World(replace(WAITS, max_execution_s=600), PodsReady())
    world.admit()
    world.now += 400
    world.life = replace(world.life, evicted="Preempted")
    world.stopped()
    assert world.life.accumulated_past_s == 400

    world.now += 5000
    world.admit()
    world.sleep()

    assert world.story[-1] == (5600, "DeactivatedDueToMaximumExecutionTimeExceeded")
    assert world.life.accumulated_past_s == 0
    world.life = replace(world.life, active=True)
    world.settle()
    world.admit()
    assert world.settle() == Nothing(world.now + 600)


def test_timeline_of_a_check_that_is_retried() -> None:
    world = World(replace(RESERVED, checks=(RETRY,)), RULES)
    assert world.settle() == Nothing(T0 + 90)
    world.sleep()
    assert world.story == [(0, "AdmissionCheck"), (90, "BackoffFinished")]
    (check,) = world.life.checks
    assert (check.state, check.retry_count) == (CheckState.PENDING, 1)


# Properties

TIMES = st.one_of(st.none(), st.floats(0, 4e9))
REASONS = st.sampled_from(["", "Preempted", "PodsReadyTimeout", "Deactivated", "LocalQueueStopped"])
STOPS = st.sampled_from([NONE, HOLD, DRAIN, None])
LIVES = st.builds(
    Life,
    active=st.booleans(),
    target=st.sampled_from([None, Why("AdmissionCheck", "why")]),
    reserved=st.booleans(),
    admitted=st.booleans(),
    admitted_at=TIMES,
    evicted=REASONS,
    requeued=REASONS,
    requeue=st.builds(RequeueState, st.integers(0, 2**40), TIMES),
    local_queue=STOPS,
    cluster_queue=STOPS,
    checks=st.sampled_from([(), (RETRY,), (REJECTED,), (RETRY, REJECTED)]),
    pods_ready=st.booleans(),
    pods_were_ready=st.booleans(),
    pods_ready_changed_at=TIMES,
    max_execution_s=st.one_of(st.none(), st.integers(1, 2**31)),
    accumulated_past_s=st.integers(0, 2**31),
)


@given(LIVES, st.floats(0, 4e9))
@FEW
def test_every_life_comes_to_rest_and_asks_to_be_woken_later_than_now(
    life: Life, now: float
) -> None:
    world = World(life, RULES, now)
    rest = world.settle()
    assert rest.wake_at is None or rest.wake_at > now


@given(LIVES, st.floats(0, 4e9))
@FEW
def test_the_same_facts_give_the_same_verdict_and_requeue_times_do_not_move_earlier(
    life: Life, now: float
) -> None:
    verdict = control(life, RULES, now)
    assert verdict == control(life, RULES, now)
    if isinstance(verdict, Evict) and not verdict.reason.startswith("Deactivated"):
        assert verdict.requeue.count >= life.requeue.count
        if life.requeue.at is not None:
            assert verdict.requeue.at is not None
            assert verdict.requeue.at >= life.requeue.at
