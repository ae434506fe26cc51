"""Quota of a namespace for cards: keys of Kubernetes' ResourceQuota that only HAMi understands.

Kubernetes counts `requests.nvidia.com/gpumem` as the pods write it, once per container and not per
card; here a key means what the pods of the namespace hold in all, under either prefix. A limit of
0 lets nothing in, a missing one everything; of several the smallest counts, whichever object it is
in. What is held comes from the ledger, so that what is checked is what is charged.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from federation.core.devices.amounts import memory_mib, whole
from federation.core.devices.cards import Amount
from federation.core.devices.totals_quota import total_name
from federation.core.devices.vendor_table import VENDORS
from federation.core.devices.vendors import Quantity, Vendor, Vendors
from federation.core.quantity import QuantityError

_PREFIXES = ("limits.", "requests.")


class Counted(NamedTuple):
    """What is limited: cards (one for each container that has one), MiB, or percent of compute."""

    vendor: str
    quantity: Quantity


class Limit(NamedTuple):
    """A limit and where it is written: the name of the ResourceQuota, and its key."""

    most: int
    quota: str
    key: str


@dataclass(frozen=True, slots=True)
class CardLimits:
    """The tightest limits of a namespace; `warnings` are about keys that limit nothing."""

    limits: Mapping[Counted, Limit] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def card_limits(
    quotas: Iterable[tuple[str, Mapping[str, str]]], vendors: Vendors = VENDORS
) -> CardLimits:
    """From the ResourceQuotas of a namespace: (name, spec.hard).

    An amount that cannot be read is a limit of 0: whoever wrote it wanted a limit.
    """
    names = _names(vendors)
    found: dict[Counted, Limit] = {}
    warnings: list[str] = []
    for quota, hard in quotas:
        for key, text in sorted(hard.items()):
            resource = _resource(key)
            if resource not in names:
                warnings += _unknown(quota, key, resource, names)
                continue
            counted, unit = names[resource]
            try:
                most = memory_mib(text, unit) if unit else whole(text)
            except QuantityError as error:
                warnings.append(f"ResourceQuota {quota}: {key}: {error}; nothing is let in")
                most = 0
            if counted not in found or most < found[counted].most:
                found[counted] = Limit(most, quota, key)
    return CardLimits(found, tuple(warnings))


def spent(charges: Iterable[tuple[str, Amount]]) -> Counter[Counted]:
    """What pods hold in all, from (vendor, amount) of each card that each of them has."""
    total: Counter[Counted] = Counter()
    for vendor, amount in charges:
        total[Counted(vendor, Quantity.CARDS)] += amount.slots
        total[Counted(vendor, Quantity.MEMORY)] += amount.memory_mib
        total[Counted(vendor, Quantity.CORES)] += amount.cores
    return total


def exceeded(limits: CardLimits, used: Mapping[Counted, int], more: Mapping[Counted, int]) -> str:
    """Why `more` may not be added to what the namespace holds; '' if it may."""
    for counted, limit in sorted(limits.limits.items()):
        asked, held = more.get(counted, 0), used.get(counted, 0)
        if asked and held + asked > limit.most:
            return (
                f"ResourceQuota {limit.quota} limits {limit.key} to {limit.most}{_in(counted)}:"
                f" {held} are held, {asked} more are asked for"
            )
    return ""


def _in(counted: Counted) -> str:
    units = {Quantity.MEMORY: " MiB", Quantity.CORES: " percent of a card"}
    return units.get(counted.quantity, "")


def _names(vendors: Vendors) -> dict[str, tuple[Counted, int]]:
    """Resource to what it counts, and MiB of a bare number of memory (else 0)."""
    found: dict[str, tuple[Counted, int]] = {}
    for vendor in vendors:
        for name, quantity in vendor.names():
            if quantity is not Quantity.PERCENT:
                found[name] = Counted(vendor.key, quantity), _mib(vendor, quantity)
        for name, quantity in ((vendor.memory, Quantity.MEMORY), (vendor.cores, Quantity.CORES)):
            if name:
                unit = 1 if quantity is Quantity.MEMORY else 0
                found[total_name(name)] = Counted(vendor.key, quantity), unit
    return found


def _mib(vendor: Vendor, quantity: Quantity) -> int:
    return vendor.mib_per_unit if quantity is Quantity.MEMORY else 0


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
