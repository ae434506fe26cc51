"""The vendors that HAMi knows, with its default names (spec section 1.5, charts of v2.10).

All names can be changed there, hence `federation.core.devices.wire.vendor_config` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from federation.core.devices.wire.vendors import Form, Note, Quantity, Vendor, Vendors

NVIDIA: Final = Vendor(
    key="NVIDIA",
    count="nvidia.com/gpu",
    memory="nvidia.com/gpumem",
    percent="nvidia.com/gpumem-percentage",
    cores="nvidia.com/gpucores",
    aliases={
        "nvidia.com/gpu-memory": Quantity.MEMORY,
        "nvidia.com/gpu-core-percent": Quantity.CORES,
        "volcano.sh/vgpu-number": Quantity.CARDS,
        "volcano.sh/vgpu-memory": Quantity.MEMORY,
        "volcano.sh/vgpu-memory-percentage": Quantity.PERCENT,
        "volcano.sh/vgpu-cores": Quantity.CORES,
    },
    instances="nvidia.com/mig-",
    default_cards=1,
    exclusive_by_default=True,
    register="hami.io/node-nvidia-register",
    form=Form.JSON,
    capacity_id="nvidia",
    model_word="NVIDIA",
    handshake="hami.io/node-handshake",
    to_allocate="hami.io/vgpu-devices-to-allocate",
    allocated="hami.io/vgpu-devices-allocated",
    use_uuids="nvidia.com/use-gpuuuid",
    avoid_uuids="nvidia.com/nouse-gpuuuid",
    use_models="nvidia.com/use-gputype",
    avoid_models="nvidia.com/nouse-gputype",
)

CAMBRICON: Final = Vendor(
    key="MLU",
    count="cambricon.com/vmlu",
    memory="cambricon.com/mlu.smlu.vmemory",
    cores="cambricon.com/mlu.smlu.vcore",
    mib_per_unit=256,
    default_cores=100,
    capacity_id="cambricon-mlu",
    to_allocate="hami.io/cambricon-mlu-devices-to-allocate",
    allocated="hami.io/cambricon-mlu-devices-allocated",
    note=Note.DSMLU,
    note_key="CAMBRICON_DSMLU_PROFILE",
    use_uuids="cambricon.com/use-gpuuuid",
    avoid_uuids="cambricon.com/nouse-gpuuuid",
)

HYGON: Final = Vendor(
    key="DCU",
    count="hygon.com/dcunum",
    memory="hygon.com/dcumem",
    cores="hygon.com/dcucores",
    default_cores=100,
    register="hami.io/node-dcu-register",
    form=Form.COLON,
    handshake="hami.io/node-handshake-dcu",
    to_allocate="hami.io/dcu-devices-to-allocate",
    allocated="hami.io/dcu-devices-allocated",
    use_uuids="hygon.com/use-gpuuuid",
    avoid_uuids="hygon.com/nouse-gpuuuid",
    use_models="hygon.com/use-dcutype",
    avoid_models="hygon.com/nouse-dcutype",
)

METAX: Final = Vendor(
    key="Metax-GPU",
    count="metax-tech.com/gpu",
    default_cores=100,
    only_whole=True,
    capacity_id="metax",
    capacity_mib=65536,
    capacity_slots=1,
    to_allocate="hami.io/metax-gpu-devices-to-allocate",
    allocated="hami.io/metax-gpu-devices-allocated",
    use_uuids="metax-tech.com/use-gpuuuid",
    avoid_uuids="metax-tech.com/nouse-gpuuuid",
)

METAX_SHARED: Final = Vendor(
    key="Metax-SGPU",
    count="metax-tech.com/sgpu",
    memory="metax-tech.com/vmemory",
    cores="metax-tech.com/vcore",
    mib_per_unit=1024,
    default_cores=100,
    register="metax-tech.com/node-gpu-devices",
    form=Form.METAX,
    to_allocate="hami.io/metax-sgpu-devices-to-allocate",
    allocated="hami.io/metax-sgpu-devices-allocated",
    note=Note.METAX,
    note_key="metax-tech.com/gpu-devices-allocated",
    use_uuids="metax-tech.com/use-gpuuuid",
    avoid_uuids="metax-tech.com/nouse-gpuuuid",
)

MOORE_THREADS: Final = Vendor(
    key="Mthreads",
    count="mthreads.com/vgpu",
    memory="mthreads.com/sgpu-memory",
    cores="mthreads.com/sgpu-core",
    mib_per_unit=512,
    sizes=tuple(512 * units for units in (2, 4, 8, 16, 32, 64, 96)),
    exact_sizes=True,
    card_cores=16,
    whole_if_many=True,
    totals=True,
    capacity_id="mthreads",
    allocated="hami.io/mthreads-vgpu-devices-allocated",
    note=Note.INDICES,
    note_key="mthreads.com/gpu-index",
    use_uuids="mthreads.ai/use-gpuuuid",
    avoid_uuids="mthreads.ai/nouse-gpuuuid",
)

KUNLUN: Final = Vendor(
    key="kunlun",
    count="kunlunxin.com/xpu",
    default_cores=100,
    only_whole=True,
    capacity_id="kunlun",
    groups_of_numa=2,
    capacity_mib=98304,
    allocated="hami.io/kunlun-allocated",
    note=Note.INDICES,
    note_key="BAIDU_COM_DEVICE_IDX",
    use_uuids="baidu.com/use-gpuuuid",
    avoid_uuids="baidu.com/nouse-gpuuuid",
)

KUNLUN_SHARED: Final = Vendor(
    key="XPU",
    count="kunlunxin.com/vxpu",
    memory="kunlunxin.com/vxpu-memory",
    sizes=(24576, 49152, 98304),
    one_size_per_card=True,
    register="hami.io/node-register-xpu",
    form=Form.JSON,
    handshake="hami.io/node-handshake-xpu",
    to_allocate="hami.io/xpu-devices-to-allocate",
    allocated="hami.io/xpu-devices-allocated",
    use_uuids="hami.io/use-xpu-uuid",
    avoid_uuids="hami.io/no-use-xpu-uuid",
)

ENFLAME: Final = Vendor(
    key="GCU",
    count="enflame.com/gcu",
    default_cores=100,
    only_whole=True,
    capacity_id="enflame",
    capacity_slots=1,
    to_allocate="hami.io/enflame-gcu-devices-to-allocate",
    allocated="hami.io/enflame-gcu-devices-allocated",
    use_uuids="enflame.com/use-gpuuuid",
    avoid_uuids="enflame.com/nouse-gpuuuid",
)

AMD: Final = Vendor(
    key="AMDGPU",
    count="amd.com/gpu",
    memory="amd.com/gpumem",
    cores="amd.com/gpucores",
    default_cores=100,
    register="hami.io/node-amd-register",
    form=Form.JSON,
    to_allocate="hami.io/amd-devices-to-allocate",
    allocated="hami.io/amd-devices-allocated",
    type_is_model=True,
    compute_units=True,
    use_uuids="amd.com/use-gpu-uuid",
    avoid_uuids="amd.com/nouse-gpu-uuid",
    use_models="amd.com/use-gputype",
    avoid_models="amd.com/nouse-gputype",
)

NEURON: Final = Vendor(
    key="AWSNeuron",
    count="aws.amazon.com/neuron",
    cores="aws.amazon.com/neuroncore",
    only_whole=True,
    capacity_id="AWSNeuron",
    capacity_slots=1,
    allocated="hami.io/aws-neuron-devices-allocated",
    use_uuids="aws.amazon.com/use-neuron-uuid",
    avoid_uuids="aws.amazon.com/nouse-neuron-uuid",
)

VASTAI: Final = Vendor(
    key="Vastai",
    count="vastaitech.com/va",
    register="hami.io/node-va-register",
    form=Form.JSON,
    handshake="hami.io/node-handshake-va",
    to_allocate="hami.io/vastai-devices-to-allocate",
    allocated="hami.io/vastai-devices-allocated",
    use_uuids="vastaitech.com/use-gpuuuid",
    avoid_uuids="vastaitech.com/nouse-gpuuuid",
)

BIREN: Final = Vendor(
    key="Biren",
    count="birentech.com/gpu",
    register="hami.io/node-biren-register",
    form=Form.JSON,
    handshake="hami.io/node-handshake-biren",
    to_allocate="hami.io/Biren-devices-to-allocate",
    allocated="hami.io/Biren-devices-allocated",
    use_uuids="birentech.com/use-gpuuuid",
    avoid_uuids="birentech.com/nouse-gpuuuid",
)


def ascend(word: str, templates: Mapping[int, str], whole_mib: int, nominal_mib: int = 0) -> Vendor:
    """A chip of Ascend: `templates` are the names of its shares by their MiB, `whole_mib` what a
    whole card can give. Shares of compute need the soft split, in which memory is not cut.
    """
    return Vendor(
        key=word,
        count=f"huawei.com/{word}",
        memory=f"huawei.com/{word}-memory",
        cores=f"huawei.com/{word}-core",
        sizes=(*sorted(templates), whole_mib),
        size_names=dict(templates),
        nominal_mib=max(nominal_mib, whole_mib),
        whole_if_many=True,
        pairs=word == "Ascend910C",
        cores_need=("huawei.com/vnpu-mode", "hami-core"),
        register=f"hami.io/node-register-{word}",
        form=Form.JSON,
        handshake=f"hami.io/node-handshake-{word}",
        to_allocate=f"hami.io/{word}-devices-to-allocate",
        allocated=f"hami.io/{word}-devices-allocated",
        note=Note.ASCEND,
        note_key=f"huawei.com/{word}",
        use_uuids=f"hami.io/use-{word}-uuid",
        avoid_uuids=f"hami.io/no-use-{word}-uuid",
    )


def iluvatar(word: str) -> Vendor:
    """A chip of Iluvatar."""
    return Vendor(
        key=word,
        count=f"iluvatar.ai/{word}-vgpu",
        memory=f"iluvatar.ai/{word}.vMem",
        cores=f"iluvatar.ai/{word}.vCore",
        mib_per_unit=256,
        register=f"hami.io/node-{word}-register",
        form=Form.COLON,
        handshake=f"hami.io/node-handshake-{word}",
        to_allocate=f"hami.io/{word}-devices-to-allocate",
        allocated=f"hami.io/{word}-devices-allocated",
        use_uuids=f"hami.io/use-{word}-uuid",
        avoid_uuids=f"hami.io/no-use-{word}-uuid",
    )


_HALVES_OF_64G: Final = {16384: "vir05_1c_16g", 32768: "vir10_3c_32g"}
ASCEND: Final = (
    ascend(
        "Ascend910A",
        {2184: "vir02", 4369: "vir04", 8738: "vir08", 17476: "vir16"},
        32768,
    ),
    ascend(
        "Ascend910B2",
        {8192: "vir03_1c_8g", 16384: "vir06_1c_16g", 32768: "vir12_3c_32g"},
        65536,
    ),
    ascend("Ascend910B3", _HALVES_OF_64G, 65536),
    ascend("Ascend910B4", {8192: "vir05_1c_8g", 16384: "vir10_3c_16g"}, 32768),
    ascend("Ascend910B4-1", _HALVES_OF_64G, 65536),
    ascend("Ascend910C", _HALVES_OF_64G, 65536),
    ascend("Ascend310P", {3072: "vir01", 6144: "vir02", 12288: "vir04"}, 21527, 24576),
)
ILUVATAR: Final = tuple(iluvatar(word) for word in ("MR-V100", "MR-V50", "BI-V150", "BI-V100"))

VENDORS: Final = Vendors(
    (
        NVIDIA,
        *ASCEND,
        CAMBRICON,
        HYGON,
        *ILUVATAR,
        METAX,
        METAX_SHARED,
        MOORE_THREADS,
        KUNLUN,
        KUNLUN_SHARED,
        ENFLAME,
        AMD,
        NEURON,
        VASTAI,
        BIREN,
    )
)
