"""Quota of a namespace for cards: keys of Kubernetes' ResourceQuota that only HAMi understands.

Kubernetes counts `requests.nvidia.com/gpumem` as the pods write it, once per container and not per
card; here a key means what the pods of the namespace hold in all, under either prefix. A limit of
0 lets nothing in, a missing one everything; of several the smallest counts, whichever object it is
in. What is held, and whether more may be, the ledger knows: what is checked is what is charged.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from federation.core.devices.asking.amounts import memory_mib, whole
from federation.core.devices.ledger.spaces import Limit
from federation.core.devices.quota.quota import total_name
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Quantity, Vendors
from federation.core.quantity import QuantityError

_PREFIXES: Final = ("limits.", "requests.")
_FIELDS: Final = {
    Quantity.CARDS: "cards",
    Quantity.MEMORY: "memory_mib",
    Quantity.CORES: "cores",
}


def namespace_limits(
    quota: str, hard: Mapping[str, str], vendors: Vendors = VENDORS
) -> tuple[dict[str, Limit], tuple[str, ...]]:
    """What a ResourceQuota (its name and spec.hard) lets a namespace hold, by vendor, and warnings
    about keys that limit nothing.

    An amount that cannot be read is a limit of 0: whoever wrote it wanted a limit.
    """
    names = _names(vendors)
    found: dict[str, Limit] = {}
    warnings: list[str] = []
    for key, text in sorted(hard.items()):
        resource = _resource(key)
        if resource not in names:
            warnings += _unknown(quota, key, resource, names)
            continue
        vendor, field, unit = names[resource]
        try:
            most = memory_mib(text, unit) if unit else whole(text)
        except QuantityError as error:
            warnings.append(f"ResourceQuota {quota}: {key}: {error}; nothing is let in")
            most = 0
        limit = found.get(vendor, Limit())
        known = getattr(limit, field)
        found[vendor] = limit._replace(**{field: most if known is None else min(known, most)})
    return found, tuple(warnings)


def _names(vendors: Vendors) -> dict[str, tuple[str, str, int]]:
    """Resource to vendor, field of Limit, and MiB of a bare number of memory (else 0)."""
    found: dict[str, tuple[str, str, int]] = {}
    for vendor in vendors:
        for name, quantity in vendor.names():
            if field := _FIELDS.get(quantity, ""):
                unit = vendor.mib_per_unit if quantity is Quantity.MEMORY else 0
                found[name] = vendor.key, field, unit
        for name, quantity in ((vendor.memory, Quantity.MEMORY), (vendor.cores, Quantity.CORES)):
            if name:
                unit = 1 if quantity is Quantity.MEMORY else 0
                found[total_name(name)] = vendor.key, _FIELDS[quantity], unit
    return found


def _resource(key: str) -> str:
    return next((key.removeprefix(p) for p in _PREFIXES if key.startswith(p)), "")


def _unknown(quota: str, key: str, resource: str, names: Iterable[str]) -> Iterator[str]:
    """About keys that look as if they were about cards: without prefix, or of their domains."""
    known = list(names)
    domains = {name.partition("/")[0] for name in known}
    if (resource or key).partition("/")[0] in domains:
        near = difflib.get_close_matches(resource or key, known, 1)
        hint = f"; did you mean limits.{near[0]}?" if near else ""
        yield f"ResourceQuota {quota}: {key} limits no cards{hint}"
