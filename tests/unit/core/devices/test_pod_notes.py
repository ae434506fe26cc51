"""All annotations of a pod about its cards, of all vendors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.core.devices.cards import Allocation, Card, Grant, Slice
from federation.core.devices.wants import CardWants, ContainerWants, PodWants
from federation.core.devices.wire.pod_notes import read, write
from federation.core.devices.wire.undecodable import UndecodableError
from federation.core.devices.wire.vendor_table import AMD, VENDORS
from tests.unit.core.build import FEW

ASCEND_KEYS = ("huawei.com/Ascend910B3", "predicate-time")


def cards(*found: Card) -> dict[str, Card]:
    """By UUID."""
    return {card.uuid: card for card in found}


def wants(allocation: Allocation) -> PodWants:
    """What a pod with these cards may have asked for."""
    containers = []
    for grants in allocation:
        vendors = [grant.vendor for grant in grants]
        asked = tuple(CardWants(v, vendors.count(v)) for v in dict.fromkeys(vendors))
        containers.append(ContainerWants("c", cards=asked))
    return PodWants(tuple(containers))


def written(allocation: Allocation, known: dict[str, Card], **more: Any) -> dict[str, str]:
    """Without the node and the time, which are always there."""
    notes = write(allocation, known, 1234, node="n", **more)
    assert (notes.pop("hami.io/vgpu-node"), notes.pop("hami.io/vgpu-time")) == ("n", "1234")
    return notes


def test_nvidia() -> None:
    """The same text twice; the model is not part of it."""
    allocation = ((), (Grant("g", "NVIDIA", 8192, 30),))
    text = ";g,NVIDIA,8192,30:;"
    assert written(allocation, cards(Card("g", "NVIDIA", "NVIDIA A100", 40960))) == {
        "hami.io/vgpu-devices-to-allocate": text,
        "hami.io/vgpu-devices-allocated": text,
    }


def test_mig() -> None:
    """Places stand in an annotation of their own, and come back."""
    allocation = ((), (Grant("g", "NVIDIA", 9984, 29, Slice("2g.10gb", 2, 2)),))
    notes = written(allocation, {})
    assert json.loads(notes["hami.io/vgpu-mig-allocations"])[0]["containerIndex"] == 1
    assert read(notes, wants(allocation), {}) == allocation


def test_ascend() -> None:
    """The name of the size, none for a whole card; amounts in the soft split."""
    allocation = ((Grant("a", "Ascend910B3", 16384, 0), Grant("b", "Ascend910B3", 65536, 0)),)
    notes = written(allocation, {})
    text = "a,Ascend910B3,16384,0:b,Ascend910B3,65536,0:;"
    assert notes == {
        "hami.io/Ascend910B3-devices-to-allocate": text,
        "hami.io/Ascend910B3-devices-allocated": text,
        "huawei.com/Ascend910B3": '[{"UUID":"a","temp":"vir05_1c_16g"},{"UUID":"b"}]',
        "predicate-time": "1234",
    }
    soft = written(((Grant("a", "Ascend910B3", 1000, 10),),), {}, soft=True)
    assert soft["huawei.com/Ascend910B3"] == '[{"UUID":"a","memory":1000,"core":10}]'


def test_cambricon() -> None:
    """Index, cores and memory in units of the first card of the first container that has one."""
    known = cards(Card("m", "MLU", "MLU", 24576, index=3), Card("l", "MLU", "MLU", 24576))
    notes = written(((), (Grant("m", "MLU", 2560, 20), Grant("l", "MLU", 2560, 20))), known)
    assert notes["CAMBRICON_DSMLU_PROFILE"] == "3_20_10"
    assert notes["CAMBRICON_DSMLU_ASSIGHED"] == "false"
    assert notes["hami.io/cambricon-mlu-devices-allocated"] == ";m,MLU,2560,20:l,MLU,2560,20:;"


def test_hygon() -> None:
    """Nothing besides."""
    notes = written(((Grant("d", "DCU", 2000, 60),),), {})
    text = "d,DCU,2000,60:;"
    assert notes == {
        "hami.io/dcu-devices-to-allocate": text,
        "hami.io/dcu-devices-allocated": text,
    }


def test_moore_threads() -> None:
    """No to-allocate; indices of the last container that has cards."""
    known = cards(*(Card(f"m{n}", "Mthreads", "Mthreads", 1, index=n) for n in range(3)))
    grants = [Grant(f"m{n}", "Mthreads", 1024, 2) for n in range(3)]
    assert written(((grants[0],), (grants[1], grants[2]), ()), known) == {
        "hami.io/mthreads-vgpu-devices-allocated": (
            "m0,Mthreads,1024,2:;m1,Mthreads,1024,2:m2,Mthreads,1024,2:;;"
        ),
        "mthreads.com/gpu-index": "1,2",
    }


def test_metax() -> None:
    """JSON of all containers."""
    notes = written(((), (Grant("x", "Metax-SGPU", 4096, 50),)), {})
    assert notes["metax-tech.com/gpu-devices-allocated"] == (
        '[[],[{"uuid":"x","compute":50,"vRam":4096}]]'
    )


@pytest.mark.parametrize(("percent", "units"), [(25, 76), (100, 304), (1, 3), (0, 0)])
def test_amd(percent: int, units: int) -> None:
    """The type is the model; compute is units, rounded down and at least 1, and comes back."""
    known = cards(Card("x", AMD.key, "MI300X", 196608, units=304))
    allocation = ((Grant("x", AMD.key, 4096, percent),),)
    notes = written(allocation, known)
    assert notes[AMD.allocated] == f"x,MI300X,4096,{units}:;"
    assert read(notes, wants(allocation), known) == allocation


def test_a_small_amd_card() -> None:
    """What is read back covers the units that are held."""
    known = cards(Card("x", AMD.key, "RX", 1, units=32))
    notes = written(((Grant("x", AMD.key, 1, 1),),), known)
    assert notes[AMD.allocated] == "x,RX,1,1:;"
    (back,) = read(notes, PodWants((ContainerWants("c", cards=(CardWants(AMD.key, 1),)),)), known)
    assert back[0].cores == 4


def test_several_vendors_of_one_pod() -> None:
    """Each finds its containers, though each text has all of them."""
    nvidia, dcu = Grant("g", "NVIDIA", 1, 1), Grant("d", "DCU", 2, 2)
    allocation = ((), (nvidia,), (dcu, nvidia), (dcu,))
    notes = written(allocation, {})
    found = read(notes, wants(allocation), {})
    assert found is not None
    assert [set(grants) for grants in found] == [set(grants) for grants in allocation]


def test_a_text_of_hami_that_lacks_the_init_container() -> None:
    """It belongs to the two apps that ask for cards (d01)."""
    one, two = Grant("g", "NVIDIA", 16384, 0), Grant("h", "NVIDIA", 16384, 0)
    notes = {"hami.io/vgpu-devices-allocated": "g,NVIDIA,16384,0:;h,NVIDIA,16384,0:;"}
    allocation = ((), (one,), (two,))
    assert read(notes, wants(allocation), {}) == allocation


def test_an_old_mig_instance_is_counted_on_its_card() -> None:
    """Template and slot are left out."""
    notes = {"hami.io/vgpu-devices-allocated": "g[1-2],NVIDIA,5120,14:;"}
    assert read(notes, wants(((Grant("g", "NVIDIA", 1, 1),),)), {}) == (
        (Grant("g", "NVIDIA", 5120, 14),),
    )


def test_a_type_word_decides_nothing() -> None:
    """Whose annotation it is decides (d25)."""
    notes = {"hami.io/dcu-devices-allocated": "d,NVIDIA,1,1:;"}
    assert read(notes, wants(((Grant("d", "DCU", 1, 1),),)), {}) == ((Grant("d", "DCU", 1, 1),),)


def test_no_annotation() -> None:
    """A pod that was given nothing yet."""
    assert read({}, PodWants(()), {}) is None
    assert read({"hami.io/vgpu-devices-to-allocate": "x"}, PodWants(()), {}) is None


@pytest.mark.parametrize("text", ["g", "g,NVIDIA,1,1:;h,NVIDIA,1,1:;", ";"])
def test_what_does_not_fit_the_pod(text: str) -> None:
    """The error names the annotation."""
    asked = wants(((Grant("g", "NVIDIA", 1, 1),),))
    with pytest.raises(UndecodableError, match=r"annotation hami\.io/vgpu-devices-allocated: "):
        read({"hami.io/vgpu-devices-allocated": text}, asked, {})


def test_what_cannot_be_written() -> None:
    """A vendor that nobody knows; an index of a card that is not there."""
    with pytest.raises(UndecodableError, match="of X, which is unknown"):
        write(((Grant("g", "X", 1, 1),),), {}, 0, node="n")
    with pytest.raises(UndecodableError, match="not on the node"):
        write(((Grant("g", "MLU", 256, 1),),), {}, 0, node="n")


uuids = st.sampled_from("abcdef")
keys = st.sampled_from([v.key for v in VENDORS])
grants = st.builds(
    lambda uuid, key, mib, cores: Grant(f"{key}-{uuid}", key, mib, cores),
    uuids,
    keys,
    st.integers(0, 2**31 - 1),
    st.integers(0, 100),
)
allocations = st.lists(st.lists(grants, max_size=3).map(tuple), min_size=1, max_size=4)


@FEW
@given(allocations.map(tuple))
def test_round_trip(allocation: Allocation) -> None:
    """Whatever the vendors, each container's cards come back, in the order of the table."""
    found = [grant for grants in allocation for grant in grants]
    known = cards(*(Card(g.uuid, g.vendor, "model", 1, units=0) for g in found))
    order = [v.key for v in VENDORS]
    expected = tuple(
        tuple(sorted(grants, key=lambda grant: order.index(grant.vendor))) for grants in allocation
    )
    back = read(write(allocation, known, 0, node="n"), wants(allocation), known)
    assert back == (expected if found else None)
