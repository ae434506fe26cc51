"""When time alone asks for a look at a job: never at once again, whatever is known of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from federation.core import events as on
from federation.core.facts import JobState, Record
from federation.core.failover import OnDisconnect, Standing
from federation.core.lifecycle import step, wake_at
from federation.core.policies import PodsReady
from federation.core.stay import LifeRules
from tests.unit.core.build import FEW, behind, copy, local, record

NOW = 10_000.0
YES_OR_NO = st.booleans()
POLICY = st.sampled_from(OnDisconnect)
LIMIT = st.sampled_from((None, 150.0, 5000.0))
HUGE = 10**9


def some(*values: object) -> st.SearchStrategy[object]:
    return st.sampled_from(values)


COPIES = st.builds(
    copy,
    suspended=YES_OR_NO,
    held=some("", "the lease is over"),
    held_s=some(0, 300, HUGE),
    ran_s=some(None, 0, 500, HUGE),
    finished=some("", "", "Failed", "Complete"),
    refused=some("", "", "no"),
    terminating=YES_OR_NO,
    gone=YES_OR_NO,
    epoch=some(1, 2),
    attempt=some(1, 1, 2),
    breaks=some(0, 1, 2),
    policy=POLICY,
    rerun_after=LIMIT,
)
STANDINGS = st.builds(
    Standing,
    st.just("a"),
    epoch=some(1, 2),
    present=YES_OR_NO,
    suspect=YES_OR_NO,
    silent=some(0.0, 181.0, 1e9),
    stopped_below=some(0, 1, 2),
    confirmed_below=some(0, 2),
    reachable=YES_OR_NO,
    lapsed=YES_OR_NO,
    lately=YES_OR_NO,
    breaks=some(0, 2),
    unheard=YES_OR_NO,
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Waiting, bound, or admitted."""
    life = {
        "max_execution_s": draw(some(None, 1, 600)),
        "accumulated_past_s": draw(some(0, 100, 2**31 - 1)),
        "evicted": draw(some("", "", "Preempted", "ClusterLost")),
    }
    told = {"reason": draw(some("", "Pending")), "message": "m"}
    if draw(some(True, False, False)):
        return record("", 1, evicted_at=NOW - 10, **told, **life)
    admitted = draw(YES_OR_NO)
    at = draw(some(NOW - 700, NOW - 5, NOW + 50)) if admitted else None
    found = record("a", 1, admitted=admitted, admitted_at=at, **told, **life)
    assert found.binding is not None
    before = draw(st.sampled_from((0, 50, HUGE)))
    limits = {"policy": draw(POLICY), "rerun_after": draw(LIMIT), "held_before": before}
    return replace(found, binding=replace(found.binding, **limits))


STATES = st.builds(
    JobState,
    local=st.builds(local, suspended=YES_OR_NO, started=YES_OR_NO),
    record=records(),
    remotes=st.one_of(st.just({}), COPIES.map(lambda copy: {"a": copy})),
    queued=YES_OR_NO,
    waits=some(("", ""), ("Pending", "m"), ("Pending", "n"), ("NoCluster", "n")),
    waits_written=some(0.0, NOW - 3, NOW - 20, NOW + 100),
    was_running=YES_OR_NO,
    deadline=some(None, NOW - 1, NOW + 5),
)


@given(STATES, STANDINGS, some(None, PodsReady(timeout_s=300)))
@FEW
def test_time_asks_for_nothing_twice(
    state: JobState, standing: Standing, pods_ready: PodsReady | None
) -> None:
    rules = LifeRules(behind, pods_ready=pods_ready)
    after, effects = step(state, on.ClusterStood(standing), NOW, rules)
    due = wake_at(after)
    assert effects or due is None or due > NOW
