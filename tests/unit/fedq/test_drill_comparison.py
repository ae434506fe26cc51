"""A line of the comparison with the peer: numbered findings and a verdict, whatever happens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from fedq.drill.cases.peer_line import Line, compare
from fedq.drill.ground import Ground, Stuck
from fedq.drill.result import Expectations


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
