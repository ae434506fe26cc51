"""Which writes go first when a cluster is lost."""

from __future__ import annotations

import pytest

from federation.core import effects as do
from federation.core.backoff import RequeueState
from federation.core.facts import JobState, Record
from manager.effects import _rank
from manager.write_turns import Rank
from tests.unit.core.build import local, record

LOST = record(attempt=1, evicted="ClusterLost")
LEAVING = record("a", 1, admitted=True, evicted="ClusterLost")
RUNS = record("a", 1, admitted=True)
EVICT = do.Evict("ClusterLost", "", "", RequeueState(), unbind=True)

RANKS: dict[str, tuple[Record, do.Effect, Rank]] = {
    "it has a place": (LOST, do.Bind("b", 2), Rank.STARTS),
    "it leaves": (RUNS, EVICT, Rank.LEAVES),
    "it leaves in several writes": (LEAVING, do.SetSuspend(True), Rank.LEAVES),
    "that it waits is shown when there is time": (LOST, do.SetSuspend(True), Rank.ORDINARY),
    "why it waits": (LOST, do.SetWaiting("", ""), Rank.ORDINARY),
    "any other job": (record(), do.Bind("b", 1), Rank.ORDINARY),
    "any other eviction": (RUNS, do.Evict("Preempted", "", "", RequeueState()), Rank.ORDINARY),
}


@pytest.mark.parametrize("name", RANKS)
def test_rank(name: str) -> None:
    """Those that run nowhere and may start go before those that have yet to leave."""
    known, effect, expected = RANKS[name]
    assert _rank(JobState(local=local(), record=known), effect) is expected
