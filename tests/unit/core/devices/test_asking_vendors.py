"""What containers ask of cards that are not NVIDIA's: their units, sizes and rules."""

import pytest

from federation.core.devices.asking.asking import ContainerAsk, WantsError, pod_wants
from federation.core.devices.wire.vendor_table import VENDORS

SOFT = {"huawei.com/vnpu-mode": "hami-core"}


def numbers(limits, annotations=()):
    """Vendor, cards, MiB, percent, cores of each ask."""
    wants = pod_wants([ContainerAsk("c", limits=limits)], dict(annotations))
    return [
        (c.vendor, c.cards, c.memory_mib, c.percent, c.cores) for c in wants.containers[0].cards
    ]


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ({"huawei.com/Ascend910B3": "1"}, ("Ascend910B3", 1, 0, 100, 0)),
        (
            {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"},
            ("Ascend910B3", 1, 16384, 0, 0),
        ),
        (
            {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16385"},
            ("Ascend910B3", 1, 32768, 0, 0),
        ),
        (
            {"huawei.com/Ascend910B4-1": "1", "huawei.com/Ascend910B4-1-memory": "20Gi"},
            ("Ascend910B4-1", 1, 32768, 0, 0),
        ),
        ({"huawei.com/Ascend910C": "1"}, ("Ascend910C", 2, 0, 100, 0)),
        ({"huawei.com/Ascend910C": "4"}, ("Ascend910C", 4, 0, 100, 0)),
        (
            {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "10"},
            ("MLU", 1, 2560, 0, 100),
        ),
        (
            {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vcore": "20"},
            ("MLU", 1, 0, 100, 20),
        ),
        (
            {"hygon.com/dcunum": "2", "hygon.com/dcumem": "2000", "hygon.com/dcucores": "15"},
            ("DCU", 2, 2000, 0, 15),
        ),
        ({"hygon.com/dcunum": "1"}, ("DCU", 1, 0, 100, 100)),
        (
            {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "4"},
            ("Metax-SGPU", 1, 4096, 0, 100),
        ),
        (
            {"metax-tech.com/sgpu": "1", "metax-tech.com/vmemory": "4Gi"},
            ("Metax-SGPU", 1, 4096, 0, 100),
        ),
        (
            {
                "mthreads.com/vgpu": "1",
                "mthreads.com/sgpu-memory": "32",
                "mthreads.com/sgpu-core": "8",
            },
            ("Mthreads", 1, 16384, 0, 8),
        ),
        ({"vastaitech.com/va": "3"}, ("Vastai", 3, 0, 100, 0)),
    ],
)
def test_amounts(limits, wanted):
    assert numbers(limits) == [wanted]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"huawei.com/Ascend910C": "3"}, "odd"),
        (
            {"huawei.com/Ascend910B3": "2", "huawei.com/Ascend910B3-memory": "16384"},
            "several cards must be whole",
        ),
        (
            {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "70000"},
            "no size of a card: 16384, 32768, 65536 are",
        ),
        (
            {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-core": "20"},
            "needs the annotation huawei.com/vnpu-mode: hami-core",
        ),
        ({"hygon.com/dcumem": "2000"}, "add hygon.com/dcunum: 1"),
        (
            {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "3"},
            "no size of a card",
        ),
        (
            {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "8388608"},
            "more than can be counted",
        ),
    ],
)
def test_refused(limits, said):
    with pytest.raises(WantsError, match=said):
        numbers(limits)


def test_the_soft_split_does_not_cut_memory():
    limits = {
        "huawei.com/Ascend910B3": "1",
        "huawei.com/Ascend910B3-memory": "5000",
        "huawei.com/Ascend910B3-core": "20",
    }
    assert numbers(limits, SOFT) == [("Ascend910B3", 1, 5000, 0, 20)]


def test_cards_of_two_vendors_in_one_container():
    found = numbers({"nvidia.com/gpu": "1", "hygon.com/dcunum": "1"})
    assert [vendor for vendor, *_ in found] == ["NVIDIA", "DCU"]


@pytest.mark.parametrize("vendor", list(VENDORS), ids=lambda vendor: vendor.key)
def test_every_vendor_gives_cards_by_number_and_refuses_what_is_none(vendor):
    ((key, cards, memory, percent, _),) = numbers({vendor.count: "2"})
    assert (key, cards, memory, percent) == (vendor.key, 2, 0, 100)
    assert numbers({vendor.count: "0"}) == []
    for name, _ in vendor.names():
        with pytest.raises(WantsError, match="container c"):
            numbers({vendor.count: "1", name: "-1"})
