"""Pods in few words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.jobs.pod_text import (
    LONGEST,
    PodState,
    clean,
    for_terminal,
    pod_state,
    summary,
    troubled,
)

Json = dict[str, Any]


def waiting(reason: str, message: str = "") -> Json:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"status": {"phase": "Pending", "containerStatuses": [{"name": "c", "state": state}]}}


def unscheduled(message: str) -> Json:
    gate = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"status": {"phase": "Pending", "conditions": [gate | {"message": message}]}}


KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        ({}, PodState("Pending")),
        ({"status": {"phase": "Running"}}, PodState("Running")),
        (waiting("ContainerCreating"), PodState("Pending")),
        (waiting("ImagePullBackOff", "no such image"),
         PodState("Pending", "ImagePullBackOff", "no such image")),
        (unscheduled("0/3 nodes are available"),
         PodState("Pending", "Unschedulable", "0/3 nodes are available")),
        ({"status": {"phase": "Failed", "containerStatuses": [{"name": "c", "state": KILLED}]}},
         PodState("Failed", "OOMKilled")),
        ({"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}},
         PodState("Failed", "Evicted", "low on memory")),
    ],
)  # fmt: skip
def test_what_counts_of_a_pod(pod: Json, state: PodState) -> None:
    """Its phase, and its trouble if it has one."""
    assert pod_state(pod) == state


def test_a_summary() -> None:
    """Phases in the order of life; the same trouble is told once with its number."""
    pods = [PodState("Running"), PodState("Pending", "Unschedulable", "0/3 nodes"),
            PodState("Running"), PodState("Pending", "ImagePullBackOff"),
            PodState("Pending", "ImagePullBackOff"), PodState("Succeeded")]  # fmt: skip
    assert summary(pods) == (
        "2 Running, 1 Succeeded, 2 Pending: ImagePullBackOff, 1 Pending: Unschedulable: 0/3 nodes"
    )
    assert troubled(pods)
    assert not troubled([PodState("Running")])
    assert summary([]) == ""


def test_many_troubles() -> None:
    """Four kinds are told, the rest is counted."""
    pods = [PodState("Pending", f"Reason{n}") for n in range(9)]
    assert summary(pods).endswith("1 Pending: Reason3, 5 more")


@given(st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=30))
def test_hostile_text(texts: list[tuple[str, str, str]]) -> None:
    """Bounded, one line, and nothing that a terminal obeys."""
    pods = [
        {"status": {"phase": phase, "reason": reason, "message": message * 50}}
        for phase, reason, message in texts
    ]
    told = summary(map(pod_state, pods))
    assert len(told) <= LONGEST
    assert "\n" not in told
    assert all(c.isprintable() or c == " " for c in told)


def test_escapes_are_taken_out() -> None:
    """A message that would paint the terminal is plain text."""
    assert clean("a\x1b[31mred\x07\u202e\nb", 40) == "a[31mred b"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain\ttext \xc3\xa9", "plain\ttext é"),
        (b"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m"),
        (b"a\x1b[2Jb", "a␛[2Jb"),
        (b"\x1b]52;c;ZXZpbA==\x07", "␛]52;c;ZXZpbA==␇"),
        (b"\xc2\x9b2J\x7f", "\ufffd2J␡"),
        (b"10%\r20%\r", "10%␍20%"),
        (b"\xff", "\ufffd"),
    ],
)
def test_what_may_go_to_a_terminal(line: bytes, shown: str) -> None:
    """Colours, and nothing that steers it."""
    assert for_terminal(line).decode() == shown
