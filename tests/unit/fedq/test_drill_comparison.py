"""A line of the comparison with the peer: numbered findings and a verdict, whatever happens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from fedq.drill.cases.peer_cuts import slower_than_there
from fedq.drill.cases.peer_faults import shown_after
from fedq.drill.cases.peer_line import Line, compare
from fedq.drill.ground import Ground, Stuck
from fedq.drill.result import Expectations
from fedq.drill.timeline import Timeline, What


def ground() -> Any:
    return SimpleNamespace(expect=Expectations(), tell=lambda text: None)


async def test_a_line_is_better_if_all_that_it_states_holds() -> None:
    """Findings before it stay as they are."""
    found = ground()
    found.expect.equal("before", 1, 2)

    async def run(ground: Ground) -> str:
        """E1."""
        ground.expect.equal("jobs that ran twice", 0, 0)
        return "0 of 6 ran twice"

    await compare(cast(Ground, found), Line("E1", "23 of 23", run))
    assert [one.what for one in found.expect.findings] == ["before", "E1 jobs that ran twice"]
    assert found.expect.remarks == [
        "E1 better than the peer: 0 of 6 ran twice (MultiKueue: 23 of 23)"
    ]


async def test_a_line_that_gets_stuck_is_not_better_and_ends_nothing() -> None:
    """What it waited for is told."""
    found = ground()

    async def run(ground: Ground) -> str:
        """E8."""
        raise Stuck("waited 60 s for the copy to go")

    await compare(cast(Ground, found), Line("E8", "8.2 s", run))
    assert len(found.expect.broken) == 1
    assert found.expect.remarks == [
        "E8 NOT better than the peer: waited 60 s for the copy to go (MultiKueue: 8.2 s)"
    ]


async def test_a_line_says_which_part_is_slower_here() -> None:
    """It is not simply better."""
    found = ground()

    async def run(ground: Ground) -> tuple[str, str]:
        """E6."""
        return "last 90.3 s", "it is fenced first"

    await compare(cast(Ground, found), Line("E6", "last 38.3 s", run))
    assert found.expect.remarks == [
        "E6 better than the peer, and slower in one part (it is fenced first): last 90.3 s"
        " (MultiKueue: last 38.3 s)"
    ]


def test_a_silent_worker_may_hold_up_what_was_offered_to_it() -> None:
    """Said if the last of its jobs started later than there, and only then."""
    assert slower_than_there(10.0) == ""
    assert "fenced" in slower_than_there(88.9)


def test_how_long_a_change_takes_to_be_shown() -> None:
    """From the copy to the Job; one whose end came first was shown by that."""
    timeline = Timeline()
    for job, what, cluster, age in (
        ("a", What.ACTIVE, "west", 3.0),
        ("a", What.ACTIVE, "", 2.75),
        ("a", What.FINISHED, "", 1.0),
        ("b", What.ACTIVE, "west", 3.0),
        ("b", What.FINISHED, "", 1.0),
    ):
        timeline.mark(what, cluster, job, age=age)
    assert 0.2 < shown_after(timeline, "a") < 0.3
    assert 1.9 < shown_after(timeline, "b") < 2.1
