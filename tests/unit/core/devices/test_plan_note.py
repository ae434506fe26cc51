"""The text of the seats of a gang: what was written is read, anything else is refused."""

from __future__ import annotations

import base64
import json
import lzma
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.cards import Grant, Slice
from federation.core.devices.wire.plan_note import (
    LONGEST,
    PlanNote,
    PlanNoteError,
    Seat,
    decode_plan,
    encode_plan,
)

WORDS = st.text(max_size=12)
SLICES = st.builds(Slice, WORDS, st.integers(0, 7), st.integers(1, 8))
GRANTS = st.builds(
    Grant, WORDS, WORDS, st.integers(0, 2**31 - 1), st.integers(0, 100), st.none() | SLICES
)
CONTAINERS = st.lists(st.lists(GRANTS, max_size=3).map(tuple), max_size=3).map(tuple)
SEATS = st.lists(st.builds(Seat, st.sampled_from(["a", "b", "é"]), CONTAINERS), max_size=20)


def gang(pods: int, cards: int) -> list[Seat]:
    """Every pod has cards of its own, with UUIDs that cannot be guessed."""
    random = Random(5)

    def grant() -> Grant:
        return Grant(f"GPU-{UUID(int=random.getrandbits(128))}", "NVIDIA", 40960, 100)

    return [
        Seat(f"ip-10-0-{pod // 250}-{pod % 250}.eu-west-1.compute.internal", (container,))
        for pod in range(pods)
        for container in [tuple(grant() for _ in range(cards))]
    ]


@given(SEATS, st.integers(0, 2**40))
def test_what_is_written_is_read(seats: list[Seat], until: int) -> None:
    """Whatever the names and amounts are."""
    assert decode_plan(encode_plan(seats, until)) == PlanNote(tuple(seats), until)


@pytest.mark.parametrize(("pods", "cards"), [(1, 1), (1000, 1), (1000, 8)])
def test_a_large_gang_fits_into_an_annotation(pods: int, cards: int) -> None:
    """Of the 256 KiB that all annotations may take, some are left."""
    seats = gang(pods, cards)
    text = encode_plan(seats, 1)

    assert len(text) <= LONGEST < 256 * 1024
    assert decode_plan(text).seats == tuple(seats)
    assert text.isascii()


def test_a_gang_that_does_not_fit_is_refused() -> None:
    """With the numbers, rather than cut off."""
    with pytest.raises(PlanNoteError, match=r"2000 pods .* 212992 are allowed"):
        encode_plan(gang(2000, 8), 1)


GOOD: dict[str, Any] = {
    "until": 1,
    "shapes": [[[["NVIDIA", 5, 6]]], [[["NVIDIA", 5, 6, "1g", 0, 1]]]],
    "hosts": {"n": [[0, 0, "a"], [1, 1, "b"]]},
}


def test_the_text_as_it_is_documented() -> None:
    """Notes outlive releases."""
    assert decode_plan(json.dumps(GOOD)) == PlanNote(
        (
            Seat("n", ((Grant("a", "NVIDIA", 5, 6),),)),
            Seat("n", ((Grant("b", "NVIDIA", 5, 6, Slice("1g", 0, 1)),),)),
        ),
        1,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"until": None},
        {"until": "1"},
        {"until": -1},
        {"until": True},
        {"shapes": []},
        {"shapes": [[[["NVIDIA", -5, 6]]]] * 2},
        {"shapes": [[[["NVIDIA", 5.0, 6]]]] * 2},
        {"shapes": [[[["NVIDIA", 5]]]] * 2},
        {"shapes": [[[[7, 5, 6]]]] * 2},
        {"shapes": [[[["NVIDIA", 5, 6, "1g", 0]]]] * 2},
        {"shapes": [[[["NVIDIA", 2**31, 6]]]] * 2},
        {"hosts": {"n": [[0, 0, "a"], [0, 1, "b"]]}},
        {"hosts": {"n": [[0, 0, "a"], [2, 1, "b"]]}},
        {"hosts": {"n": [[0, 0, "a"], [1, -1, "b"]]}},
        {"hosts": {"n": [[0, 0, "a", "c"], [1, 1, "b"]]}},
        {"hosts": {"n": [[0, 0], [1, 1, "b"]]}},
        {"hosts": {"n": [[0, 0, 7], [1, 1, "b"]]}},
        {"hosts": [1]},
    ],
)
def test_anything_else_is_refused(change: dict[str, Any]) -> None:
    """One thing wrong is enough."""
    with pytest.raises(PlanNoteError):
        decode_plan(json.dumps({**GOOD, **change}))


def packed(raw: bytes) -> str:
    """As long notes are written."""
    return "xz:" + base64.b85encode(lzma.compress(raw)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "xz:",
        'xz:"',
        "xz:é",
        "[" * 100_000,
        packed(b"{}"),
        packed(b" " * 2**23),
    ],
)
def test_a_text_that_is_no_plan_is_refused(text: str) -> None:
    """Empty, broken, deep, or large once it is unpacked."""
    with pytest.raises(PlanNoteError):
        decode_plan(text)


def test_a_note_that_was_cut_off_is_refused() -> None:
    """A plan is whole or none."""
    text = encode_plan(gang(1000, 1), 1)

    assert text.startswith("xz:")
    with pytest.raises(PlanNoteError):
        decode_plan(text[: len(text) // 2])
