"""The benchmark of decisions measures what it says, under pressure too."""

from __future__ import annotations

import pytest

from bench.cycle import measure


@pytest.mark.parametrize("pressure", [False, True])
async def test_decides_with_a_backlog_that_stays(pressure: bool) -> None:
    found = await measure(400, queues=8, cohorts=2, decisions=600, pressure=pressure)

    assert found["decisions"] >= 600
    assert found["waiting_at_the_end"] >= 400
    assert found["admitted"] > 0
    assert found["parked"] > 0
    assert found["bytes_per_pending"] > 0
    assert (found["preempting"] > 0) or not pressure
