"""Which program on a management cluster has a ClusterQueue."""

from __future__ import annotations

import pytest

from federation.core.role_sharing import apart, runs_here
from federation.core.types import ClusterQueue


@pytest.mark.parametrize(
    ("checks", "here"),
    [
        pytest.param((), True, id="no-check"),
        pytest.param((False,), True, id="another-check"),
        pytest.param((True,), False, id="multikueue"),
        pytest.param((False, True), False, id="multikueue-and-another"),
        pytest.param((None,), None, id="a-check-that-is-missing"),
        pytest.param((False, None), None, id="one-of-two-is-missing"),
        pytest.param((None, True), False, id="multikueue-and-one-that-is-missing"),
    ],
)
def test_a_queue_is_decided_by_its_checks(
    checks: tuple[bool | None, ...], here: bool | None
) -> None:
    """No check of MultiKueue: here; what hangs on a check that does not exist is not decided."""
    assert runs_here(checks) is here


def test_queues_of_the_other_program_lend_nothing() -> None:
    """They leave their cohort; all others are what they were."""
    queues = {n: ClusterQueue(n, cohort="c") for n in ("mine", "theirs")}
    queues["alone"] = ClusterQueue("alone")
    found = apart(queues, {"theirs", "alone"})
    assert {name: queue.cohort for name, queue in found.items()} == {
        "mine": "c",
        "theirs": "",
        "alone": "",
    }
    assert found["mine"] is queues["mine"]
    assert apart(queues, ()) is queues
