"""What a configuration makes of the quota of cards: transformations and excluded prefixes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from federation.core.devices.quota.quota import CardQuotas, Measure, standard, total_name, unit
from federation.core.devices.wire.vendors import Quantity, Vendor, Vendors
from federation.core.policies import ResourceRules, Transformation, TransformationStrategy

_SHARES = (Quantity.MEMORY, Quantity.PERCENT, Quantity.CORES)


class TransformationError(ValueError):
    """A transformation whose product means nothing."""


@dataclass(frozen=True, slots=True)
class _OfShare:
    """A transformation of what a container asks of each card, under any of its names."""

    rule: Transformation
    vendor: Vendor
    quantity: Quantity

    def measure(self, output: str, factor: Fraction) -> Measure:
        """One of its outputs. Totals are in MiB whatever unit containers write."""
        in_mib = output == total_name(self.vendor.memory)
        scale = Fraction(1) if in_mib else unit(self.vendor, self.quantity)
        return Measure(self.vendor.key, self.quantity, factor * scale)


def card_quotas(rules: ResourceRules) -> CardQuotas:
    """The quota resources of cards under a configuration. Raises TransformationError.

    A transformation of memory or compute times the number of cards, as HAMi's documentation has
    it, gives the total of the pod, reckoned per container; without `multiplyBy` too, since memory
    of a pod is all that it holds. What several put out under one name is added up, but the
    same quantity under two aliases counts once.
    """
    measures = {
        name: found
        for name, found in standard(rules.vendors).measures.items()
        if not _excluded(name, rules)
    }
    outputs: dict[str, list[Measure]] = {}
    for rule in rules.transformations:
        share = of_share(rule, rules.vendors)
        if share is None:
            continue
        if rule.strategy is TransformationStrategy.REPLACE:
            measures.pop(rule.input, None)
        for output, factor in rule.outputs.items():
            measure = share.measure(output, factor)
            if not rule.input.startswith(rules.excluded_prefixes):
                outputs.setdefault(output, [])
                if measure not in outputs[output]:
                    outputs[output].append(measure)
    measures |= {name: tuple(found) for name, found in outputs.items()}
    return CardQuotas(measures, rules.vendors)


def plain(rules: ResourceRules) -> tuple[Transformation, ...]:
    """The transformations that are not of a card's shares; what of those replaces its input, if
    that is the number of cards, still does.
    """
    found = []
    for rule in rules.transformations:
        if of_share(rule, rules.vendors) is None:
            found.append(rule)
        elif rule.strategy is TransformationStrategy.REPLACE:
            found.append(Transformation(rule.input, rule.strategy))
    return tuple(found)


def of_share(rule: Transformation, vendors: Vendors) -> _OfShare | None:
    """The transformation if it reads memory or compute of cards. Raises TransformationError."""
    names = [name for name in (rule.input, rule.multiply_by) if name]
    shares = [(name, *found) for name in names if (found := _share(name, vendors))]
    if not shares:
        return None
    name, vendor, quantity = shares[0]
    others = [other for other in names if other != name]
    if len(shares) > 1 or any(vendors.of_resource(o) != (vendor, Quantity.CARDS) for o in others):
        raise TransformationError(
            f"{rule.input} times {rule.multiply_by}: what is asked of each card can be multiplied"
            f" by the number of cards only ({vendor.count})"
        )
    return _OfShare(rule, vendor, quantity)


def _share(name: str, vendors: Vendors) -> tuple[Vendor, Quantity] | None:
    found = vendors.of_resource(name)
    return found if found is not None and found[1] in _SHARES else None


def _excluded(name: str, rules: ResourceRules) -> bool:
    """Whether a resource, or the one that it totals, is left out of quota."""
    return name.replace("/total-", "/", 1).startswith(rules.excluded_prefixes) or name.startswith(
        rules.excluded_prefixes
    )
