"""The table of vendors: names, units, rules; and how HAMi's configuration changes it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from federation.core.devices.wire.undecodable import UndecodableError
from federation.core.devices.wire.vendor_config import of_device_config
from federation.core.devices.wire.vendor_table import (
    ASCEND,
    CAMBRICON,
    HYGON,
    KUNLUN_SHARED,
    MOORE_THREADS,
    NVIDIA,
    VENDORS,
)
from federation.core.devices.wire.vendors import Quantity, Vendor, Vendors


@pytest.mark.parametrize(
    ("resource", "key", "quantity"),
    [
        ("nvidia.com/gpu", "NVIDIA", Quantity.CARDS),
        ("nvidia.com/gpumem", "NVIDIA", Quantity.MEMORY),
        ("nvidia.com/gpu-memory", "NVIDIA", Quantity.MEMORY),
        ("nvidia.com/gpumem-percentage", "NVIDIA", Quantity.PERCENT),
        ("nvidia.com/gpu-core-percent", "NVIDIA", Quantity.CORES),
        ("volcano.sh/vgpu-number", "NVIDIA", Quantity.CARDS),
        ("nvidia.com/mig-2g.10gb", "NVIDIA", Quantity.INSTANCES),
        ("huawei.com/Ascend910B3-memory", "Ascend910B3", Quantity.MEMORY),
        ("huawei.com/Ascend910B4-1", "Ascend910B4-1", Quantity.CARDS),
        ("huawei.com/Ascend910B4", "Ascend910B4", Quantity.CARDS),
        ("cambricon.com/vmlu", "MLU", Quantity.CARDS),
        ("cambricon.com/mlu.smlu.vcore", "MLU", Quantity.CORES),
        ("hygon.com/dcunum", "DCU", Quantity.CARDS),
        ("iluvatar.ai/BI-V150.vMem", "BI-V150", Quantity.MEMORY),
        ("metax-tech.com/gpu", "Metax-GPU", Quantity.CARDS),
        ("metax-tech.com/sgpu", "Metax-SGPU", Quantity.CARDS),
        ("mthreads.com/vgpu", "Mthreads", Quantity.CARDS),
        ("kunlunxin.com/vxpu-memory", "XPU", Quantity.MEMORY),
        ("kunlunxin.com/xpu", "kunlun", Quantity.CARDS),
        ("enflame.com/gcu", "GCU", Quantity.CARDS),
        ("amd.com/gpucores", "AMDGPU", Quantity.CORES),
        ("aws.amazon.com/neuron", "AWSNeuron", Quantity.CARDS),
        ("vastaitech.com/va", "Vastai", Quantity.CARDS),
        ("birentech.com/gpu", "Biren", Quantity.CARDS),
    ],
)
def test_whose_a_resource_is(resource: str, key: str, quantity: Quantity) -> None:
    """By the whole name, never by a part of it."""
    found = VENDORS.of_resource(resource)
    assert found is not None
    assert (found[0].key, found[1]) == (key, quantity)
    assert VENDORS.get(key) is found[0]


@pytest.mark.parametrize(
    "resource", ["cpu", "nvidia.com/gpuX", "nvidia.com/mig-", "nvidia.com/mig-big", "huawei.com/X"]
)
def test_resources_of_no_card(resource: str) -> None:
    """They are nobody's."""
    assert VENDORS.of_resource(resource) is None


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("nvidia.com/mig-1g.10gb", "1g.10gb"),
        ("nvidia.com/mig-1g.10gb.me", "1g.10gb+me"),
        ("nvidia.com/mig-1g.10gb; rm", ""),
        ("nvidia.com/gpu", ""),
    ],
)
def test_mig_profiles(resource: str, profile: str) -> None:
    """Names of resources have no plus."""
    assert NVIDIA.profile(resource) == profile
    assert HYGON.profile(resource) == ""


def chip(word: str) -> Vendor:
    """An Ascend chip."""
    return next(vendor for vendor in ASCEND if vendor.key == word)


@pytest.mark.parametrize(
    ("vendor", "asked", "size"),
    [
        (chip("Ascend910B3"), 1, 16384),
        (chip("Ascend910B3"), 16384, 16384),
        (chip("Ascend910B3"), 16385, 32768),
        (chip("Ascend910B3"), 32769, 65536),
        (chip("Ascend910B3"), 65537, None),
        (chip("Ascend310P"), 3073, 6144),
        (chip("Ascend310P"), 12289, 21527),
        (chip("Ascend310P"), 24576, 21527),
        (chip("Ascend310P"), 24577, None),
        (KUNLUN_SHARED, 24577, 49152),
        (KUNLUN_SHARED, 98305, None),
        (MOORE_THREADS, 1024, 1024),
        (MOORE_THREADS, 1025, None),
        (NVIDIA, 12345, 12345),
    ],
)
def test_sizes(vendor: Vendor, asked: int, size: int | None) -> None:
    """Templates round up; a card's nominal size is all that it has; Moore Threads refuses."""
    assert vendor.cut(asked) == size


@pytest.mark.parametrize(("asked", "cards"), [(1, 2), (2, 2), (3, None), (4, 4), (0, 0)])
def test_pairs(asked: int, cards: int | None) -> None:
    """Cards of Ascend910C come in pairs."""
    assert chip("Ascend910C").cards(asked) == cards
    assert NVIDIA.cards(asked) == asked


def test_units() -> None:
    """What a plain number of memory is."""
    units = {vendor.key: vendor.mib_per_unit for vendor in VENDORS}
    assert (units["NVIDIA"], units["MLU"], units["Mthreads"]) == (1, 256, 512)
    assert (units["BI-V150"], units["Metax-SGPU"]) == (256, 1024)


@pytest.mark.parametrize("key", [vendor.key for vendor in VENDORS])
def test_every_vendor_is_whole(key: str) -> None:
    """It can be asked for, its cards come from somewhere, and pods can be told."""
    vendor = VENDORS.get(key)
    assert vendor is not None
    assert vendor.count
    assert vendor.register or vendor.capacity_id
    assert vendor.allocated.startswith("hami.io/")
    assert vendor.use_uuids
    assert list(vendor.sizes) == sorted(vendor.sizes)


def test_annotations_are_of_one_vendor() -> None:
    """Nothing is written over another vendor's."""
    for field in ("register", "handshake", "to_allocate", "allocated"):
        keys = [key for vendor in VENDORS if (key := getattr(vendor, field))]
        assert len(keys) == len(set(keys))


def test_names_must_be_of_one_vendor() -> None:
    """Two with one key or one name cannot be told apart."""
    with pytest.raises(ValueError, match="two vendors have the key A"):
        Vendors([Vendor("A", "a"), Vendor("A", "b")])
    with pytest.raises(ValueError, match="the resource x is of A and of B"):
        Vendors([Vendor("A", "x"), Vendor("B", "b", memory="x")])


CONFIG = """
nvidia: {resourceCountName: example.com/gpu, defaultMemory: 4000, defaultCores: 10,
  defaultGPUNum: 2, memoryFactor: 10, deviceSplitCount: 10, migProfileAllowlist: []}
hygon: {resourceMemoryName: hygon.com/mem, memoryFactor: 2}
metax: {resourceVMemoryName: metax-tech.com/vm}
iluvatars:
- {commonWord: X1, resourceCountName: iluvatar.ai/X1-vgpu}
vnpus:
  hamiVnpuCore: false
  configs:
  - {commonWord: Ascend910B3, resourceName: huawei.com/NPU, memoryAllocatable: 60000,
     memoryCapacity: 65536, templates: [{name: half, memory: 30000}, {name: tiny, memory: 8000}]}
"""


def test_names_of_hamis_configuration() -> None:
    """What it says replaces what is here; lists of chips replace all chips."""
    vendors = of_device_config(yaml.safe_load(CONFIG))
    nvidia, hygon, npu = vendors.get("NVIDIA"), vendors.get("DCU"), vendors.get("Ascend910B3")
    assert nvidia is not None
    assert (nvidia.count, nvidia.memory) == ("example.com/gpu", "nvidia.com/gpumem")
    assert (nvidia.default_memory, nvidia.default_cores, nvidia.default_cards) == (4000, 10, 2)
    assert nvidia.mib_per_unit == 10
    assert hygon is not None
    assert (hygon.memory, hygon.mib_per_unit) == ("hygon.com/mem", 2)
    assert npu is not None
    assert (npu.count, npu.sizes, npu.size_names[30000]) == (
        ("huawei.com/NPU"),
        (8000, 30000, 60000),
        "half",
    )
    assert npu.cut(65536) == 60000
    keys = {vendor.key for vendor in vendors}
    assert "X1" in keys
    assert not keys & {"BI-V150", "Ascend910C"}
    assert vendors.get("MLU") == CAMBRICON


def test_an_alias_that_becomes_the_name() -> None:
    """It is one name, not two."""
    vendors = of_device_config({"nvidia": {"resourceMemoryName": "nvidia.com/gpu-memory"}})
    nvidia = vendors.get("NVIDIA")
    assert nvidia is not None
    assert nvidia.memory == "nvidia.com/gpu-memory"
    assert vendors.of_resource("nvidia.com/gpumem") is None


def test_an_empty_configuration() -> None:
    """Everything stays."""
    assert list(of_device_config({})) == list(VENDORS)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"nvidia": []}, "nvidia is []"),
        ({"nvidia": {"resourceCountName": 1}}, "nvidia: resourceCountName is 1"),
        ({"nvidia": {"defaultMemory": "all"}}, "nvidia: defaultMemory is 'all'"),
        ({"nvidia": {"memoryFactor": -1}}, "memoryFactor is -1"),
        ({"hygon": {"resourceCountName": "nvidia.com/gpu"}}, "is of NVIDIA and of DCU"),
        ({"vnpus": {"configs": [{}]}}, "memoryAllocatable is 0"),
        ({"vnpus": [{"memoryAllocatable": 1}]}, "no commonWord"),
        ({"iluvatars": {}}, "iluvatars is an object"),
        ({"iluvatars": [{"commonWord": ""}]}, "no commonWord"),
    ],
)
def test_broken_configurations(document: dict[str, Any], said: str) -> None:
    """The error names the section and what is wrong."""
    with pytest.raises(UndecodableError) as error:
        of_device_config(document)
    assert said in str(error.value)
