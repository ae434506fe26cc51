"""The text about MIG instances of a pod."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.cards import Grant, Slice
from federation.core.devices.wire.mig_note import (
    MigEntry,
    MigIdentity,
    decode,
    encode,
    of_allocation,
)
from federation.core.devices.wire.undecodable import UndecodableError
from tests.unit.core.build import FEW

ENTRY: dict[str, Any] = {
    "containerIndex": 0,
    "deviceIndex": 0,
    "gpuUUID": "GPU-11aa",
    "profile": "2g.10gb",
    "placement": {"start": 2, "size": 2},
}


def test_before_the_instance_exists() -> None:
    """As the scheduler writes it; indices of 0 may be left out."""
    found = (MigEntry(0, 0, "GPU-11aa", Slice("2g.10gb", 2, 2)),)
    assert decode(json.dumps([ENTRY])) == found
    assert json.loads(encode(found)) == [ENTRY]
    assert decode(json.dumps([{k: ENTRY[k] for k in ("gpuUUID", "profile", "placement")}])) == found


def test_an_instance_with_ids_of_zero() -> None:
    """Zero is an id, not a missing one."""
    item = ENTRY | {"migUUID": "MIG-1", "gpuInstanceID": 0, "computeInstanceID": 0}
    (entry,) = decode(json.dumps([item]))
    assert entry.identity == MigIdentity("MIG-1", 0, 0)
    assert json.loads(encode([entry])) == [item]


def test_nothing() -> None:
    """No entry is no annotation."""
    assert decode("") == decode("[]") == ()
    assert encode([]) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"migUUID": "M"}, "migUUID but not gpuInstanceID, computeInstanceID"),
        ({"gpuInstanceID": 0, "computeInstanceID": 0}, "but not migUUID"),
        ({"placement": {"start": 2, "size": 0}}, "size is 0"),
        ({"placement": None}, "placement is None"),
        ({"placement": {"start": -1, "size": 1}}, "start is -1"),
        ({"placement": {"start": 12, "size": 8}}, "together"),
        ({"gpuUUID": ""}, "gpuUUID is ''"),
        ({"profile": ""}, "profile is missing"),
        ({"containerIndex": -1}, "containerIndex is -1"),
        ({"deviceIndex": "0"}, "deviceIndex is '0'"),
    ],
)
def test_broken_entries(change: dict[str, Any], said: str) -> None:
    """Each names the entry and what is wrong."""
    with pytest.raises(UndecodableError, match=r"^entry 0: ") as error:
        decode(json.dumps([ENTRY | change]))
    assert said in str(error.value)


def test_the_same_device_twice() -> None:
    """Also if the places differ."""
    other = ENTRY | {"placement": {"start": 4, "size": 2}}
    with pytest.raises(UndecodableError, match="container 0, device 0 is there twice"):
        decode(json.dumps([ENTRY, other]))


def test_two_instances_of_one_card_in_one_container() -> None:
    """They are told apart by the device."""
    one, two = Slice("1g.5gb", 6, 1), Slice("1g.5gb", 5, 1)
    plain = Grant("h", "NVIDIA", 1, 0)
    allocation = ((), (Grant("g", "NVIDIA", 4864, 15, one), plain, Grant("g", "NVIDIA", 1, 1, two)))
    found = of_allocation(allocation)
    assert [(e.container, e.device, e.slice) for e in found] == [(1, 0, one), (1, 2, two)]


names = st.text(st.characters(categories=["L", "N"], include_characters="-.+"), min_size=1)
slices = st.builds(Slice, names, st.integers(0, 8), st.integers(1, 8))
ids = st.integers(0, 2**32 - 1)
entries = st.builds(
    MigEntry,
    st.integers(0, 99),
    st.integers(0, 99),
    names,
    slices,
    st.none() | st.builds(MigIdentity, names, ids, ids),
)


@FEW
@given(st.lists(entries, unique_by=lambda entry: (entry.container, entry.device)))
def test_round_trip(found: list[MigEntry]) -> None:
    """What is written is read back."""
    assert decode(encode(found)) == tuple(found)


values = st.none() | st.integers() | st.text() | st.dictionaries(st.text(), st.integers())


@FEW
@given(st.text() | st.lists(st.dictionaries(st.sampled_from([*ENTRY]), values)).map(json.dumps))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing else is raised."""
    try:
        decode(text)
    except UndecodableError:
        return
