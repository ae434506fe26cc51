"""Which runs end, and when; what extends a lease, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.failover import FAST, OnDisconnect, Timings
from worker_agent.guard.decision import NEVER, Knowledge, Notice, Run, Times, run_of

RUN = Run("j", "1")


def environment(**variables: str) -> bytes:
    return b"\0".join(f"{key}={value}".encode() for key, value in variables.items()) + b"\0"


@pytest.mark.parametrize(
    ("variables", "run"),
    [
        ({}, None),
        ({"FEDQ_ATTEMPT": "1"}, None),
        ({"FEDQ_JOB_UID": ""}, None),
        ({"FEDQ_JOB_UID": "j", "FEDQ_ATTEMPT": "1"}, RUN),
        ({"FEDQ_JOB_UID": "j", "FEDQ_ATTEMPT": "1", "FEDQ_ON_DISCONNECT": "Keep"}, RUN),
        ({"FEDQ_JOB_UID": "j"}, Run("j", "")),
        (
            {"FEDQ_JOB_UID": "j", "FEDQ_ON_DISCONNECT": "keep", "FEDQ_RERUN_AFTER": "3600"},
            Run("j", "", OnDisconnect.KEEP, 3600.0),
        ),
        (
            {"FEDQ_JOB_UID": "j", "FEDQ_GRACE_SECONDS": "nan", "FEDQ_RERUN_AFTER": "-1"},
            Run("j", ""),
        ),
        ({"FEDQ_JOB_UID": "j", "FEDQ_GRACE_SECONDS": "7"}, Run("j", "", grace=7.0)),
    ],
)
def test_runs_are_known_by_their_environment(variables: dict[str, str], run: Run | None) -> None:
    """What says nothing that makes sense stops."""
    assert run_of(environment(HOME="/", **variables)) == run


def test_with_a_mark_only_those_that_have_it_are_runs() -> None:
    """A machine may stand for several clusters."""
    mine = environment(CLUSTER="a", FEDQ_JOB_UID="j", FEDQ_ATTEMPT="1")

    assert run_of(mine, b"CLUSTER=a") == RUN
    assert run_of(mine, b"CLUSTER=b") is None
    assert run_of(mine, b"LUSTER=a") is None


def test_bytes_that_are_no_text_are_read_nevertheless() -> None:
    """An environment is whatever a process made of it."""
    assert run_of(b"\xff=\xfe\0FEDQ_JOB_UID=j\0FEDQ_ATTEMPT=1\0junk\0=x\0") == RUN


KNOWN = Knowledge(0, 120, Notice(renewed=100, deadline=130))


@pytest.mark.parametrize(
    ("run", "end"),
    [
        (RUN, 130),
        (Run("j", "1", OnDisconnect.KEEP), NEVER),
        (Run("j", "1", OnDisconnect.KEEP, 3600), 3700),
        (Run("j", "1", OnDisconnect.KEEP, 5), 130),
        (Run("j", "1", OnDisconnect.DUPLICATE_OK, 5), NEVER),
    ],
)
def test_the_end_of_the_lease_ends_runs_by_their_policy(run: Run, end: float) -> None:
    """A limit of `keep` counts from the last renewal, and is never sooner than the lease's end."""
    assert KNOWN.ends(run) == end


def test_without_any_notice_a_guard_is_patient_for_a_while() -> None:
    """And then takes the lease as over."""
    unknown = Knowledge(since=50, patience=120)

    assert unknown.ends(RUN) == 170
    assert unknown.ends(Run("j", "1", OnDisconnect.KEEP, 3600)) == 3650
    assert unknown.ends(Run("j", "1", OnDisconnect.KEEP)) == NEVER


@pytest.mark.parametrize(
    ("notice", "deadline"),
    [
        (None, 130),
        (Notice(110, 140), 140),
        (Notice(90, 120), 130),
        (Notice(111, 141), 130),
        (Notice(100, 10**6), 130),
        (Notice(100, float("inf")), 130),
        (Notice(100, float("nan")), 130),
        (Notice(105, 104), 130),
    ],
)
def test_only_a_later_renewal_that_can_be_true_extends(
    notice: Notice | None, deadline: float
) -> None:
    """At 110. One from the future or for longer than a day is a mistake."""
    assert KNOWN.told(notice, now=110).deadline == deadline


@pytest.mark.parametrize(
    ("grace", "now", "kill_at"),
    [
        (None, 130, 160),
        (10, 130, 140),
        (600, 130, 170),
        (None, 155, 170),
        (None, 170, 170),
        (None, 500, 500),
    ],
)
def test_sigkill_comes_after_the_grace_and_never_after_what_was_promised(
    grace: float | None, now: float, kill_at: float
) -> None:
    """The end is at 130 and K is 45: a guard that comes late gives less, in the end nothing."""
    assert Times().kill_at(Run("j", "1", grace=grace), 130, now) == kill_at


def test_k_of_the_notice_counts_before_the_setting() -> None:
    """The manager waits for that one."""
    assert Times().kill_at(RUN, 130, 130, kill=10) == 135


RATE = st.floats(-1e-3, 1e-3)


KILLS = st.sampled_from([0.5, 4.0, 7.0, FAST.kill, Timings().kill, 300.0])


@given(RATE, RATE, st.floats(0, 1), st.floats(0, 200), st.sampled_from([FAST, Timings()]), KILLS)
def test_whatever_the_clocks_run_at_everything_is_gone_before_a_re_run(
    worker_rate: float, manager_rate: float, tick: float, grace: float, base: Timings, kill: float
) -> None:
    """The worker counts from before the renewal was sent, the manager from after it was seen. Both
    clocks may be wrong by the bound on their rate; the guard may look a tick late. L_M is the least
    that the manager takes.
    """
    timings = replace(base, kill=kill)
    timings = replace(timings, rerun=timings.bound())
    sent = 1000.0  # on the clock of the worker, at real time 0
    knowledge = Knowledge(0, 1, Notice(sent, sent + timings.lease, timings.kill))
    run = Run("j", "1", grace=grace)
    end = knowledge.ends(run)
    looked = Times().term_at(end, timings.kill) + tick * timings.tick
    killed = Times().kill_at(run, end, looked, timings.kill)
    takes = min(Times().margin, timings.kill)
    gone = (killed + takes - sent) / (1 + worker_rate)
    rerun = timings.rerun / (1 + manager_rate)

    assert gone <= rerun
