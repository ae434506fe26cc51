"""The record of an eviction on a Job: what is read is what was written, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.api.names import Mirror
from federation.core.backoff import RequeueState
from federation.jobs.eviction_note import Eviction, encode_eviction, read_eviction

AT = "2026-01-01T00:00:00Z"
STATES = st.none() | st.builds(
    RequeueState,
    st.integers(0, 2**31 - 1),
    st.none() | st.integers(1, 4 * 10**9).map(float),
)


def noted(text: str) -> Any:
    return {"metadata": {"annotations": {Mirror.EVICTED.value: text}}}


@given(st.text(min_size=1, max_size=20), st.text(max_size=50), STATES)
def test_what_is_written_is_read(reason: str, message: str, requeue: RequeueState | None) -> None:
    eviction = Eviction(reason, message, AT, "", requeue)
    assert read_eviction(noted(encode_eviction(eviction))) == eviction


def test_a_time_to_requeue_is_not_before_the_time_itself() -> None:
    text = encode_eviction(Eviction("PodsReadyTimeout", "", AT, "", RequeueState(1, 10.2)))
    found = read_eviction(noted(text))
    assert found is not None
    assert found.requeue == RequeueState(1, 11.0)


@pytest.mark.parametrize(
    "requeue",
    [
        "x",
        [],
        {"count": 1},
        {"count": -1, "at": ""},
        {"count": 2**31, "at": ""},
        {"count": True, "at": ""},
        {"count": 1, "at": 5},
    ],
)
def test_a_state_that_cannot_be_read(requeue: Any) -> None:
    """Is no record of an eviction: nobody but the agent may write one."""
    body = {"reason": "r", "cause": "", "message": "m", "at": AT, "requeue": requeue}
    assert read_eviction(noted(json.dumps(body))) is None
