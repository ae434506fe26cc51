"""The order of waiting workloads as text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.queueing import member, shape, shape_of, uid_of
from federation.core.types import Pending, Toleration
from tests.unit.core.build import FEW, item, pods

UIDS = st.uuids().map(str)
MILLISECONDS = st.integers(0, 2**41).map(lambda ms: ms / 1000)
ITEMS = st.builds(
    lambda uid, priority, created: item(uid, priority=priority, created=created),
    UIDS,
    st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2),
    MILLISECONDS | st.sampled_from([0.0, 1.0, 1.001]),
)


def rank(what: Pending) -> tuple[int, int, str]:
    """Kueue's order (§3), at the resolution of a millisecond."""
    return -what.priority, int(what.created * 1000), what.uid


@FEW
@given(st.lists(ITEMS, max_size=12))
def test_text_order_is_kueues_order(items: list[Pending]) -> None:
    """Priority descending, creation ascending, UID: for any items."""
    assert [rank(what) for what in sorted(items, key=member)] == sorted(rank(i) for i in items)


@FEW
@given(ITEMS)
def test_uid_and_shape_can_be_cut_out(what: Pending) -> None:
    """The index finds the UID from the 21st character to the last nine, the shape in the last 8."""
    text = member(what)
    assert (text[20:-9], text[-8:]) == (what.uid, shape(what))
    assert (uid_of(text), shape_of(text)) == (what.uid, shape(what))


@pytest.mark.parametrize(
    ("priority", "created"),
    [(2**31 + 5, 1.0), (-(2**31) - 5, 1.0), (0, -7.0), (0, 1e15)],
)
def test_what_is_out_of_range_keeps_the_width(priority: int, created: float) -> None:
    """Hostile values are clamped and do not shift the fields behind them."""
    odd = item("uid", priority=priority, created=created)
    assert uid_of(member(odd)) == "uid"


BASE = item("a", "q", pods(2, gpu=1, cpu=2))


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, uid="b", name="b", created=5.0, generation=9),
        replace(BASE, pod_sets=(pods(2, cpu=2, gpu=1),)),
    ],
)
def test_same_shape(other: Pending) -> None:
    """Identity, age and the order of resource names do not matter."""
    assert shape(other) == shape(BASE)


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, namespace="other"),
        replace(BASE, local_queue="other"),
        replace(BASE, priority=1),
        replace(BASE, pod_sets=(pods(3, gpu=1, cpu=2),)),
        replace(BASE, pod_sets=(pods(2, gpu=1, cpu=3),)),
        replace(BASE, pod_sets=(pods(2, gpu=1, cpu=2, node_selector=(("a", "b"),)),)),
        replace(BASE, pod_sets=(pods(2, gpu=1, cpu=2, affinity=((("a", "Exists", ()),),)),)),
        replace(BASE, pod_sets=(pods(2, gpu=1, cpu=2, tolerations=(Toleration("a"),)),)),
    ],
)
def test_another_shape(other: Pending) -> None:
    """Whatever can change the answer is part of the shape."""
    assert shape(other) != shape(BASE)
