"""The text that says which cards each container of a pod has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.cards import Allocation, Grant, Slice
from federation.core.devices.wire.allocation_note import (
    decode,
    encode,
    of_containers,
    of_vendors,
    physical,
    with_slices,
)
from federation.core.devices.wire.mig_note import MigEntry
from federation.core.devices.wire.undecodable import LONGEST, UndecodableError
from tests.unit.core.build import FEW


def grant(uuid: str = "GPU-11aa", mib: int = 3000, cores: int = 0) -> Grant:
    """Of an NVIDIA card."""
    return Grant(uuid, "NVIDIA", mib, cores)


@pytest.mark.parametrize(
    ("allocation", "text"),
    [
        ((), ""),
        (((),), ";"),
        (((), (grant(),)), ";GPU-11aa,NVIDIA,3000,0:;"),
        (((grant(),), (grant("b", 1, 2),)), "GPU-11aa,NVIDIA,3000,0:;b,NVIDIA,1,2:;"),
        (
            ((), (grant(mib=8192, cores=30), grant("GPU-22bb", 8192, 30))),
            ";GPU-11aa,NVIDIA,8192,30:GPU-22bb,NVIDIA,8192,30:;",
        ),
    ],
    ids=["no pod", "empty container", "after an empty one", "two containers", "two cards"],
)
def test_written_and_read(allocation: Allocation, text: str) -> None:
    """A text ends with a semicolon, and is read as one empty entry more."""
    assert encode(allocation) == text
    assert decode(text) == (allocation and (*allocation, ()))


def test_empty_entries() -> None:
    """They are kept where they stand, and so are those that plugins append."""
    entries = decode("a,NVIDIA,1,0:;;b,NVIDIA,2,5:;")
    assert [len(entry) for entry in entries] == [1, 0, 1, 0]
    assert [len(entry) for entry in decode("a,NVIDIA,1,0:;;;;")] == [1, 0, 0, 0, 0]


def test_more_fields_are_ignored() -> None:
    """Fewer than four are an error, more are not."""
    assert decode("a,NVIDIA,1,0,x,y:;")[0] == (Grant("a", "NVIDIA", 1, 0),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,NVIDIA,1:;", "it has 3 of uuid,type,memory,cores"),
        ("a:;", "it has 1 of"),
        (";a,NVIDIA,x,0:;", "container 1, card 'a,NVIDIA,x,0': memory is 'x'"),
        ("a,NVIDIA,1,1.5:;", "cores is '1.5'"),
        ("a,NVIDIA,-1,0:;", "memory is -1"),
        ("a,NVIDIA,1,99999999999:;", "cores is 99999999999, not within"),
        (",NVIDIA,1,0:;", "uuid is ''"),
        ("a b,NVIDIA,1,0:;", "space"),
        ("a" * (LONGEST + 1), "characters, more than"),
        (";" * 10_000, "containers or cards"),
    ],
)
def test_broken_texts(text: str, said: str) -> None:
    """The error says which container and card, and what is wrong."""
    with pytest.raises(UndecodableError) as error:
        decode(text)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "bad",
    [
        Grant("a", "NVI,DIA", 1, 0),
        Grant("a:b", "NVIDIA", 1, 0),
        Grant("a", "NVIDIA", -1, 0),
        Grant("a", "NVIDIA", 1, -1),
    ],
)
def test_what_cannot_be_written(bad: Grant) -> None:
    """It would be read as something else, or as an error."""
    with pytest.raises(UndecodableError):
        encode([[bad]])


words = st.text(st.characters(categories=["L", "N"], include_characters="-[]"), min_size=1)
grants = st.builds(
    Grant, words, words, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), st.none()
)
allocations = st.lists(st.lists(grants, max_size=3).map(tuple), min_size=1, max_size=5).map(tuple)


@FEW
@given(allocations, st.integers(0, 3))
def test_round_trip(allocation: Allocation, rewrites: int) -> None:
    """Rewriting what was read appends an empty entry each time and changes nothing else."""
    read = decode(encode(allocation))
    for _ in range(rewrites):
        read = decode(encode(read))
    assert read[: len(allocation)] == allocation
    assert not any(read[len(allocation) :])


@FEW
@given(st.text() | st.text(st.sampled_from("a1,:;-[] ")))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else is raised."""
    try:
        decode(text)
    except UndecodableError:
        return


@FEW
@given(allocations)
def test_entries_find_their_containers(allocation: Allocation) -> None:
    """Leading entries of containers without cards may be missing (d01), others be appended."""
    counts = [len(grants) for grants in allocation]
    entries = decode(encode(allocation))
    shifted = entries[next((n for n, entry in enumerate(entries) if entry), 0) :]
    assert of_containers(entries, counts) == allocation
    assert of_containers(shifted, counts) == allocation


@pytest.mark.parametrize("counts", [[], [0, 0], [1, 1], [1, 0, 1]])
def test_entries_of_another_pod(counts: list[int]) -> None:
    """As many containers must ask as have cards."""
    with pytest.raises(UndecodableError, match="not of this pod"):
        of_containers(decode("a,NVIDIA,1,0:;"), counts)


def test_a_container_may_get_more_cards_than_it_asks_for() -> None:
    """Ascend910C gives 2 for 1."""
    two = (grant("a"), grant("b"))
    assert of_containers((two, ()), [0, 1]) == ((), two)


def test_several_vendors() -> None:
    """Each has a text of its own; a container may have cards of both."""
    dcu = Grant("d", "DCU", 1, 1)
    assert of_vendors([((grant(),), ()), ((dcu,), (), (dcu,))]) == ((grant(), dcu), (), (dcu,))


@pytest.mark.parametrize(
    ("uuid", "card"),
    [("GPU-1[1-2]", "GPU-1"), ("GPU-1", "GPU-1"), ("GPU-1[1]", "GPU-1[1]"), ("[1-2]", "[1-2]")],
)
def test_old_mig_instances(uuid: str, card: str) -> None:
    """Template and slot in brackets; the card is what stands before."""
    assert physical(decode(f"{uuid},NVIDIA,1,0:;")[0][0].uuid) == card


def test_places_on_mig_cards() -> None:
    """By container and device; two instances of one card are two entries."""
    place, other = Slice("1g.5gb", 6, 1), Slice("1g.5gb", 5, 1)
    entries = decode("g,NVIDIA,4864,15:g,NVIDIA,4864,15:;")
    found = with_slices(entries, [MigEntry(0, 0, "g", place), MigEntry(0, 1, "g", other)])
    assert [grant.slice for grant in found[0]] == [place, other]


@pytest.mark.parametrize(
    "entry", [MigEntry(0, 1, "g", Slice("p", 0, 1)), MigEntry(0, 0, "h", Slice("p", 0, 1))]
)
def test_places_that_belong_to_nothing(entry: MigEntry) -> None:
    """No grant, or one of another card."""
    with pytest.raises(UndecodableError):
        with_slices(decode("g,NVIDIA,1,0:;"), [entry])
