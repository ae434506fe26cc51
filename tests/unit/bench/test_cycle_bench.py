"""The benchmark of decisions measures what it says: everything is admitted, under pressure too."""

from __future__ import annotations

import pytest

from bench.cycle import measure


@pytest.mark.parametrize("pressure", [False, True])
async def test_everything_is_admitted(pressure: bool) -> None:
    found = await measure(400, queues=8, cohorts=2, pressure=pressure)

    assert found["admitted"] >= 400
    assert found["parked"] > 0
    assert found["bytes_per_pending"] > 0
    assert (found["preempting"] > 0) or not pressure
