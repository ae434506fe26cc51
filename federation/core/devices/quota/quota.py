"""Which quota resources count what pods hold of cards.

The names under which containers ask (nvidia.com/gpumem, also its aliases) count what a pod holds
in all, in the unit in which they are written; total names (nvidia.com/total-gpumem,
nvidia.com/total-gpucores) count MiB and percent of a card. Transformations may name others. All of
them are for quota only: what a queue does not cover is not charged, see `federation.core.flavors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from federation.core.devices.asking.amounts import MIB
from federation.core.devices.cards import Card
from federation.core.devices.quota.totals import Held, held, vendors_of
from federation.core.devices.wants import PodWants
from federation.core.devices.wire.vendors import Quantity, Vendor, Vendors
from federation.core.quantity import exact_quantity


class UnknownCard(ValueError):
    """A share of a card was asked for, and nobody knows how large the cards are."""

    def __init__(self, vendor: str) -> None:
        super().__init__(f"the memory of a {vendor} card is not known")
        self.vendor = vendor


class Measure(NamedTuple):
    """`factor` times what a pod holds of one quantity of the cards of a vendor."""

    vendor: str
    quantity: Quantity
    factor: Fraction

    def of(self, amounts: Held) -> Fraction:
        """Raises UnknownCard."""
        if self.quantity is Quantity.CARDS:
            value: int | None = amounts.cards
        elif self.quantity is Quantity.MEMORY:
            value = amounts.memory_mib
        elif self.quantity is Quantity.PERCENT:
            value = amounts.percent
        else:
            value = amounts.cores
        if value is None:
            raise UnknownCard(self.vendor)
        return value * self.factor


_BYTES: Final = tuple(f"{prefix}i" for prefix in "MGTPE")


@dataclass(frozen=True, slots=True)
class CardQuotas:
    """Quota resources by name. Cards by number are not among them unless a transformation says so:
    they are requested as other resources are.
    """

    measures: Mapping[str, tuple[Measure, ...]]
    vendors: Vendors

    def counts(self, resource: str) -> bool:
        """Whether a quota of that name limits cards, by number or in shares."""
        return resource in self.measures or self.vendors.of_resource(resource) is not None

    def shared(self, covered: Iterable[str]) -> frozenset[str]:
        """The vendors whose cards these resources count shares of: memory, or compute."""
        return frozenset(
            measure.vendor
            for name in covered
            for measure in self.measures.get(name, ())
            if measure.quantity is not Quantity.CARDS
        )

    def names(self, wants: PodWants, covered: Iterable[str]) -> frozenset[str]:
        """Those of the covered resources that count something that such a pod asks for."""
        vendors = vendors_of(wants)
        return frozenset(
            name
            for name in covered
            if any(measure.vendor in vendors for measure in self.measures.get(name, ()))
        )

    def amounts(
        self, wants: PodWants, names: Iterable[str], cards: Mapping[str, Card]
    ) -> dict[str, int]:
        """What one pod is charged of these resources where the smallest card of each vendor is
        known, rounded up. Raises UnknownCard.
        """
        total: dict[str, int] = {}
        for name in names:
            exact = sum(
                measure.of(held(wants.containers, measure.vendor, cards.get(measure.vendor)))
                for measure in self.measures[name]
            )
            total[name] = max(0, -(-exact // 1))
        return total

    def limit(self, resource: str, text: str) -> Fraction | None:
        """A quota of card memory that is written in bytes (640Gi), in the unit that is charged;
        None if it is another quota. Decimal suffixes are numbers: the API server writes 1M for a
        quota of 1000000 MiB. Raises QuantityError.
        """
        measures = self.measures.get(resource, ())
        if not text.endswith(_BYTES) or not measures:
            return None
        measure = measures[0]
        if measure.quantity is not Quantity.MEMORY:
            return None
        return exact_quantity(text) / MIB * measure.factor


def standard(vendors: Vendors) -> CardQuotas:
    """The resources that every vendor has."""
    measures: dict[str, tuple[Measure, ...]] = {}
    for vendor in vendors:
        for name, quantity in vendor.names():
            if quantity is not Quantity.CARDS:
                measures[name] = (Measure(vendor.key, quantity, unit(vendor, quantity)),)
                if quantity is not Quantity.PERCENT and name in (vendor.memory, vendor.cores):
                    measures[total_name(name)] = (Measure(vendor.key, quantity, Fraction(1)),)
    return CardQuotas(measures, vendors)


def total_name(resource: str) -> str:
    """nvidia.com/gpumem → nvidia.com/total-gpumem."""
    domain, slash, name = resource.rpartition("/")
    return f"{domain}{slash}total-{name}"


def unit(vendor: Vendor, quantity: Quantity) -> Fraction:
    """What one MiB, or percent, is of the unit in which containers write it."""
    return Fraction(1, vendor.mib_per_unit) if quantity is Quantity.MEMORY else Fraction(1)
