"""How long faults last, and how soon what comes of them is due."""

from __future__ import annotations

from federation.core.failover import DEFAULT, FAST
from fedq.drill.cases.management_down import short_s
from fedq.drill.cases.odd_links import duplicate_goal
from fedq.drill.cases.redis_lost import away_s
from fedq.drill.ground import Conditions


def test_what_may_run_twice_is_due_once_its_cluster_can_be_suspect() -> None:
    """45 s are below T_s of the default profile: nobody could keep that."""
    assert duplicate_goal(FAST) == 45
    assert duplicate_goal(DEFAULT) == 63 > DEFAULT.suspect


def test_an_outage_of_the_management_cluster() -> None:
    """A minute, less where leases are short; two in an endurance run."""
    assert short_s(Conditions("default", DEFAULT)) == 60
    assert short_s(Conditions("fast", FAST)) == 15
    assert short_s(Conditions("default", DEFAULT, endurance=True)) == 120


def test_redis_is_away_for_longer_in_an_endurance_run() -> None:
    """Two minutes."""
    assert away_s(Conditions("fast", FAST)) == 0
    assert away_s(Conditions("fast", FAST, endurance=True)) == 120
