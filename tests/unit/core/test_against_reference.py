"""The core decides as the slow model of the specification does, cycle by cycle.

More of it: `python -m tests.reference.fuzz --seed N --runs M`.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tests.reference
from tests.reference import fuzz
from tests.reference.duel import Tally
from tests.reference.generate import scenario as generate
from tests.reference.scenario import Json

KEPT = Path(tests.reference.__file__).with_name("regressions.jsonl")
SEED, BATCHES, OF = 1, 8, 25


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_scenarios(batch: int) -> None:
    """The same ones each time; between them everything happens that can be decided."""
    tally = Tally()
    for number in range(batch * OF, (batch + 1) * OF):
        assert fuzz.mismatch(fuzz.scenario(SEED, number), tally) is None
    assert min(tally.fits, tally.preemptions, tally.waits) > 0


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(random=st.randoms(use_true_random=False))
def test_any_scenario(random: Random) -> None:
    """Chosen, and made smaller, by hypothesis."""
    made: Json = json.loads(json.dumps(generate(random, jobs=8)))
    assert fuzz.mismatch(made) is None


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(json.loads(line), id=json.loads(line)["about"])
        for line in KEPT.read_text().splitlines()
    ],
)
def test_what_once_went_wrong(scenario: Json) -> None:
    """Scenarios in which the core decided wrongly, or came to no rest."""
    assert fuzz.mismatch(scenario) is None
