"""The names and defaults of vendors as HAMi's device configuration changes them.

That is `device-config.yaml` of the ConfigMap of its scheduler, parsed: a section per vendor, lists
of chips for Ascend (`vnpus`) and Iluvatar (`iluvatars`). What it leaves out stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from federation.core.devices.wire import vendor_table as table
from federation.core.devices.wire.undecodable import (
    UndecodableError,
    integer,
    listed,
    shown,
    words,
)
from federation.core.devices.wire.vendors import Vendor, Vendors

_NAMES: Final = {
    "resourceCountName": "count",
    "resourceMemoryName": "memory",
    "resourceMemoryPercentageName": "percent",
    "resourceCoreName": "cores",
}
_SHARED_NAMES: Final = {
    "resourceVCountName": "count",
    "resourceVMemoryName": "memory",
    "resourceVCoreName": "cores",
}
_SECTIONS: Final = {
    "nvidia": ((table.NVIDIA, _NAMES),),
    "cambricon": ((table.CAMBRICON, _NAMES),),
    "hygon": ((table.HYGON, _NAMES),),
    "metax": ((table.METAX, {"resourceCountName": "count"}), (table.METAX_SHARED, _SHARED_NAMES)),
    "mthreads": ((table.MOORE_THREADS, _NAMES),),
    "kunlun": (
        (table.KUNLUN, {"resourceCountName": "count"}),
        (table.KUNLUN_SHARED, _SHARED_NAMES),
    ),
    "enflame": ((table.ENFLAME, {"resourceNameGCU": "count"}),),
    "amd": ((table.AMD, _NAMES),),
    "awsneuron": ((table.NEURON, _NAMES),),
    "vastai": ((table.VASTAI, _NAMES),),
    "biren": ((table.BIREN, _NAMES),),
}
_NUMBERS: Final = {
    "defaultMemory": "default_memory",
    "defaultCores": "default_cores",
    "defaultGPUNum": "default_cards",
}
_Json = Mapping[str, Any]


def of_device_config(document: _Json) -> Vendors:
    """The table with these changes. Raises UndecodableError with the section and what is wrong."""
    try:
        changed = {v.key: v for section in _SECTIONS for v in _section(document, section)}
        vendors = [changed.get(vendor.key, vendor) for vendor in table.VENDORS]
        npus = document.get("vnpus")
        npus = npus.get("configs") if isinstance(npus, dict) else npus
        vendors = _chips(vendors, table.ASCEND, [_ascend(i) for i in listed(npus, "vnpus")])
        chips = [_iluvatar(item) for item in listed(document.get("iluvatars"), "iluvatars")]
        return Vendors(_chips(vendors, table.ILUVATAR, chips))
    except UndecodableError:
        raise
    except ValueError as error:
        raise UndecodableError(str(error)) from None


def _section(document: _Json, section: str) -> Iterator[Vendor]:
    body = document.get(section)
    if body is None:
        return
    if not isinstance(body, dict):
        raise UndecodableError(f"{section} is {shown(body)}, not a section")
    for vendor, names in _SECTIONS[section]:
        try:
            yield _named(vendor, names, body)
        except UndecodableError as error:
            raise UndecodableError(f"{section}: {error}") from None


def _named(vendor: Vendor, names: Mapping[str, str], body: _Json) -> Vendor:
    told: dict[str, Any] = {f: words(body, key) for key, f in names.items() if body.get(key)}
    told |= {f: integer(body, key) for key, f in _NUMBERS.items() if body.get(key) is not None}
    if factor := integer(body, "memoryFactor"):
        told["mib_per_unit"] = vendor.mib_per_unit * factor
    aliases = {n: q for n, q in vendor.aliases.items() if n not in told.values()}
    return replace(vendor, aliases=aliases, **told)


def _chips(vendors: Iterable[Vendor], known: Iterable[Vendor], told: list[Vendor]) -> list[Vendor]:
    """A list of chips replaces the list that is known, as in HAMi; without one that stays."""
    gone = {vendor.key for vendor in known} if told else set()
    return [*(vendor for vendor in vendors if vendor.key not in gone), *told]


def _ascend(item: _Json) -> Vendor:
    sizes = {}
    for template in listed(item.get("templates"), "templates"):
        sizes[integer(template, "memory", 1)] = words(template, "name")
    whole, nominal = integer(item, "memoryAllocatable", 1), integer(item, "memoryCapacity")
    vendor = table.ascend(_word(item), sizes, whole, nominal)
    names = {"resourceName": "count", **{k: v for k, v in _NAMES.items() if v != "count"}}
    return _named(vendor, names, item)


def _iluvatar(item: _Json) -> Vendor:
    return _named(table.iluvatar(_word(item)), _NAMES, item)


def _word(item: _Json) -> str:
    word = words(item, "commonWord")
    if not word:
        raise UndecodableError("a chip has no commonWord")
    return word
