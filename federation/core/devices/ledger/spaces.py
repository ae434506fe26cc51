"""What each namespace holds of each vendor's cards, and what it may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from federation.core.devices.cards import Amount
from federation.core.devices.ledger.holding import Holding

Totals = Mapping[str, Amount]
"""By vendor; slots are cards, as often as they are given out."""


class Limit(NamedTuple):
    """The most that may be held; None is no limit, 0 is nothing at all."""

    cards: int | None = None
    memory_mib: int | None = None
    cores: int | None = None


class Spaces:
    """Totals by namespace, and limits by the object that sets them: the tightest holds."""

    def __init__(self) -> None:
        self._totals: dict[str, dict[str, Amount]] = {}
        self._limits: dict[str, dict[str, Mapping[str, Limit]]] = {}

    def totals(self, namespace: str) -> dict[str, Amount]:
        """What a namespace holds, by vendor."""
        return dict(self._totals.get(namespace, {}))

    def limit(self, namespace: str, source: str, limits: Mapping[str, Limit]) -> None:
        """What an object (named by `source`) allows by vendor; it replaces what it said before."""
        sources = self._limits.setdefault(namespace, {})
        sources[source] = limits
        if not limits:
            del sources[source]

    def add(self, namespace: str, amounts: Totals) -> None:
        """Count more."""
        if not amounts:
            return
        held = self._totals.setdefault(namespace, {})
        for vendor, amount in amounts.items():
            held[vendor] = held.get(vendor, Amount()).plus(amount)

    def remove(self, namespace: str, amounts: Totals) -> None:
        """Count less; nothing at all is left out of the totals."""
        if not amounts:
            return
        held = self._totals[namespace]
        for vendor, amount in amounts.items():
            left = held[vendor].minus(amount)
            if min(left) < 0:
                raise ArithmeticError(f"namespace {namespace} would hold {left} of {vendor}")
            held[vendor] = left
            if not any(left):
                del held[vendor]
        if not held:
            del self._totals[namespace]

    def objection(self, namespace: str, amounts: Totals) -> str:
        """Why a namespace may not have so much more; '' if it may."""
        for source, limits in sorted(self._limits.get(namespace, {}).items()):
            for vendor, amount in amounts.items():
                after = amount.plus(self._totals.get(namespace, {}).get(vendor, Amount()))
                limit = limits.get(vendor, Limit())
                for name, most, total in zip(Limit._fields, limit, after, strict=True):
                    if most is not None and total > most:
                        return (
                            f"namespace {namespace} would hold {total} of {name} of {vendor}, "
                            f"{source} allows {most}"
                        )
        return ""


def by_vendor(holding: Holding, charged: Mapping[str, Amount]) -> dict[str, Amount]:
    """What an owner is charged, summed over the cards of each vendor."""
    vendors = {grant.uuid: grant.vendor for grants in holding.allocation for grant in grants}
    totals: dict[str, Amount] = {}
    for uuid, amount in charged.items():
        vendor = vendors[uuid]
        totals[vendor] = totals.get(vendor, Amount()).plus(amount)
    return totals
