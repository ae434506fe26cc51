"""The lease as the agent holds it: deadlines, fences, and what may run until when."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.failover import DEFAULT, FAST, LONGEST, OnDisconnect, Timings
from federation.core.holding import NEVER, Lease, Terms, terms, unlimited

STOP, KEEP, TWICE = OnDisconnect.STOP, OnDisconnect.KEEP, OnDisconnect.DUPLICATE_OK
GIVEN = Terms(renew=5.0, lease=30.0, kill=45.0)
times = st.floats(0, 1e6)
epochs = st.integers(1, 5)


def test_a_renewal_holds_from_before_it_was_sent() -> None:
    lease = Lease().renewal(100.0, 1, GIVEN)
    assert lease.deadline == 130.0
    assert lease.holds(129.9)
    assert not lease.holds(130.0)
    assert lease.next_due(101.0) == 105.0


def test_nothing_is_known_at_first() -> None:
    """Nothing new; what runs goes on until a renewal has failed."""
    lease = Lease()
    assert not lease.holds(0.0)
    assert lease.next_due(7.0) == 7.0
    assert not lease.must_stop(STOP, None, 1, 1e9)
    assert lease.failure().must_stop(STOP, None, 1, 0.0)
    assert lease.fenced(2).must_stop(STOP, None, 1, 0.0)
    assert not lease.fenced(2).must_stop(STOP, None, 2, 0.0)


def test_a_failure_does_not_end_what_is_known() -> None:
    lease = Lease().renewal(100.0, 1, GIVEN).failure()
    assert lease.holds(129.0)
    assert not lease.must_stop(STOP, None, 1, 129.0)


def test_a_fence_ends_starts_at_once_and_runs_at_the_deadline() -> None:
    lease = Lease().renewal(100.0, 1, GIVEN).fenced(2)
    assert not lease.may_start(1, 101.0)
    assert not lease.may_start(2, 101.0)
    assert lease.limit(STOP, None, 1) == 130.0


def test_an_offer_of_an_epoch_to_come_waits() -> None:
    assert not Lease().renewal(100.0, 1, GIVEN).may_start(2, 101.0)


def test_in_a_new_epoch_the_old_copies_have_their_old_deadline() -> None:
    lease = Lease().renewal(100.0, 1, GIVEN).renewal(110.0, 2, GIVEN).renewal(120.0, 2, GIVEN)
    assert lease.limit(STOP, None, 1) == 130.0
    assert lease.limit(STOP, None, 2) == 150.0
    assert lease.limit(KEEP, 60.0, 1) == 160.0
    assert not lease.may_start(1, 121.0)
    assert lease.may_start(2, 121.0)
    assert lease.renewal(130.0, 3, GIVEN).limit(STOP, None, 1) == -NEVER


@pytest.mark.parametrize(
    ("policy", "after", "limit"),
    [
        (STOP, None, 130.0),
        (STOP, 500.0, 130.0),
        (KEEP, None, NEVER),
        (KEEP, 500.0, 600.0),
        (KEEP, 3.0, 130.0),
        (TWICE, None, NEVER),
        (TWICE, 3.0, NEVER),
    ],
)
def test_when_a_copy_has_to_stop(policy: OnDisconnect, after: float | None, limit: float) -> None:
    assert Lease().renewal(100.0, 1, GIVEN).limit(policy, after, 1) == limit


def test_an_epoch_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="epoch 1 is over"):
        Lease().renewal(0.0, 2, GIVEN).renewal(1.0, 1, GIVEN)


def test_a_lease_that_does_not_end() -> None:
    lease = unlimited(3)
    assert lease.may_start(3, 1e12)
    assert not lease.may_start(2, 0.0)
    assert lease.limit(STOP, None, 3) == NEVER


# What is written on the Lease


@pytest.mark.parametrize("timings", [DEFAULT, FAST])
def test_the_profiles_are_taken_as_they_are(timings: Timings) -> None:
    read = terms(int(timings.lease), f"{timings.renew:g}", f"{timings.kill:g}")
    assert read == Terms(timings.renew, timings.lease, timings.kill)


def test_a_lease_of_a_manager_that_says_less() -> None:
    assert terms(120, None, None) == Terms(20.0, 120.0, 45.0)
    assert terms(30, None, None) == Terms(5.0, 30.0, 45.0)
    assert terms(None, None, None).lease == 0.0


anything = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=8), st.floats().map(str),
    st.integers().map(str), st.booleans(), st.lists(st.integers(), max_size=1),
)  # fmt: skip


@given(anything, anything, anything)
def test_nonsense_stays_within_bounds(lease: Any, renew: Any, kill: Any) -> None:
    read = terms(lease, renew, kill)
    assert 0 <= read.lease <= LONGEST
    assert 0 <= read.kill <= LONGEST
    assert 0.2 <= read.renew <= max(0.2, read.lease / 3, DEFAULT.renew)
    assert not read.lease or read.renew <= max(0.2, read.lease / 3)


# Properties

policies = st.sampled_from([STOP, KEEP, TWICE])
limits = st.one_of(st.none(), st.floats(0, 1e5))
events = st.lists(
    st.one_of(
        st.tuples(st.just("renew"), st.floats(0, 40), st.booleans()),
        st.tuples(st.just("fence"), st.floats(0, 40), st.booleans()),
        st.tuples(st.just("fail"), st.floats(0, 40), st.booleans()),
    ),
    max_size=30,
)


def told(happened: list[tuple[str, float, bool]]) -> tuple[list[tuple[float, Lease]], Any]:
    """The lease after each event, with its time; and each renewal as (epoch, sent)."""
    now, lease, lives, renewals = 0.0, Lease(), [(0.0, Lease())], []
    for what, later, up in happened:
        now += later
        if what == "renew":
            epoch = max(lease.epoch, lease.seen, 1) + (1 if up else 0)
            lease = lease.renewal(now, epoch, GIVEN)
            renewals.append((epoch, now))
        elif what == "fence":
            lease = lease.fenced(max(lease.epoch, lease.seen) + 1)
        else:
            lease = lease.failure()
        lives.append((now, lease))
    return lives, renewals


@given(events, times, epochs)
def test_nothing_starts_that_a_manager_may_have_fenced(
    happened: list[tuple[str, float, bool]], now: float, epoch: int
) -> None:
    """A start is never later than L_W after a renewal that was sent in its epoch: that is all the
    manager counts on.
    """
    lives, renewals = told(happened)
    at, lease = lives[-1]
    moment = at + now
    if lease.may_start(epoch, moment):
        assert lease.seen <= lease.epoch == epoch
        assert any(sent + GIVEN.lease > moment for held, sent in renewals if held == epoch)


@given(events, st.floats(0, 200), epochs)
def test_stop_ends_with_the_last_renewal_of_its_epoch(
    happened: list[tuple[str, float, bool]], later: float, epoch: int
) -> None:
    """Whatever was renewed in later epochs gives a copy no more time."""
    lives, renewals = told(happened)
    at, lease = lives[-1]
    if not renewals or lease.epoch < epoch:
        return
    sent = max((s for held, s in renewals if held == epoch), default=-math.inf)
    moment = at + later
    if moment >= sent + GIVEN.lease:
        assert lease.must_stop(STOP, None, epoch, moment)


@given(events, policies, limits, epochs)
def test_a_limit_is_never_before_that_of_stop(
    happened: list[tuple[str, float, bool]],
    policy: OnDisconnect,
    after: float | None,
    epoch: int,
) -> None:
    lives, _ = told(happened)
    _, lease = lives[-1]
    assert lease.limit(policy, after, epoch) >= lease.limit(STOP, None, epoch)


@given(events, epochs)
def test_what_may_start_need_not_stop(happened: list[tuple[str, float, bool]], epoch: int) -> None:
    """Nothing is started and stopped again at the same moment."""
    lives, _ = told(happened)
    for at, lease in lives:
        if lease.may_start(epoch, at):
            assert not lease.must_stop(STOP, None, epoch, at)
