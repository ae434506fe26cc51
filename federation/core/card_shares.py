"""Shares of cards in the search for flavors: what they are charged depends on the flavor's cards.

A queue limits cards by number, memory or compute, whichever it covers; each alone is enough. What
it does not cover is not charged, so that a queue for cards takes jobs that ask for slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from federation.core.devices.cards import Card, Host
from federation.core.devices.quota.quota import CardQuotas
from federation.core.devices.quota.totals import held, like, smallest
from federation.core.devices.wire.vendors import Quantity
from federation.core.quantity import MAX_AMOUNT, Resources, scale
from federation.core.types import ClusterQueue, PodSet, ResourceFlavor

CARD_MEMORY: Final = "fedq.io/card-memory-mib"
"""Annotation of a ResourceFlavor: how large its smallest card is, where no node tells."""
MIG_PROFILES: Final = "fedq.io/mig-profiles"
"""Annotation of a ResourceFlavor: the sizes to which its cards are cut."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Pods of a set, and what they ask for in all. `shares` are the resources among it that count
    shares of cards; their amounts are 0 until the flavor is known.
    """

    pods: PodSet
    count: int
    total: Resources
    shares: frozenset[str] = frozenset()


def ask_for(
    pods: PodSet, count: int, total: Resources, queue: ClusterQueue, quotas: CardQuotas
) -> Ask:
    """What pods of a set ask of a queue; `total` is all of it but shares of cards."""
    if not pods.cards:
        return Ask(pods, count, total)
    shares = quotas.names(pods.cards, (name for group in queue.groups for name in group.covered))
    return Ask(pods, count, {**dict.fromkeys(shares, 0), **total}, shares)


def with_cards(
    flavors: Mapping[str, ResourceFlavor], nodes: Sequence[tuple[Mapping[str, str], Host]]
) -> dict[str, ResourceFlavor]:
    """Flavors with the smallest cards of their nodes; `nodes` are labels and cards. What a flavor
    says itself stands, so that the management cluster and the worker can reckon alike.
    """
    found = {}
    for name, flavor in flavors.items():
        told = {card.vendor for card in flavor.cards}
        own = [host for labels, host in nodes if _has(labels, flavor)]
        cards = smallest(card for host in own for card in host.cards)
        more = tuple(like(card) for vendor, card in sorted(cards.items()) if vendor not in told)
        found[name] = replace(flavor, cards=(*flavor.cards, *more)) if more else flavor
    return found


def _has(labels: Mapping[str, str], flavor: ResourceFlavor) -> bool:
    return all(labels.get(key) == value for key, value in flavor.node_labels)


def together(asks: Sequence[Ask]) -> Resources:
    """What several pod sets ask for in all."""
    total = dict(asks[0].total)
    for ask in asks[1:]:
        for name, amount in ask.total.items():
            total[name] = min(total.get(name, 0) + amount, MAX_AMOUNT)
    return total


def priced(ask: Ask, cards: Sequence[Card], quotas: CardQuotas) -> Resources:
    """What its shares are charged on cards like these, with all else that counts under the same
    names. Raises UnknownCard.
    """
    if not ask.shares or ask.pods.cards is None:
        return {}
    sizes: Mapping[str, Card] = {card.vendor: card for card in cards}
    amounts = scale(quotas.amounts(ask.pods.cards, ask.shares, sizes), ask.count)
    return {name: min(amount + ask.total[name], MAX_AMOUNT) for name, amount in amounts.items()}


def limited(resource: str, asks: Sequence[Ask], quotas: CardQuotas) -> bool:
    """Whether a number of cards, or of MIG instances, is limited by their shares anyway."""
    found = quotas.vendors.of_resource(resource)
    if found is None or found[1] not in (Quantity.CARDS, Quantity.INSTANCES):
        return False
    return all(_limits(ask, found[0].key, quotas) for ask in asks if resource in ask.total)


def _limits(ask: Ask, vendor: str, quotas: CardQuotas) -> bool:
    """Compute may be shared without reserving any, so it limits only those who reserve some."""
    measures = [m for name in ask.shares for m in quotas.measures[name] if m.vendor == vendor]
    cores = ask.pods.cards is not None and held(ask.pods.cards.containers, vendor).cores > 0
    return any(cores or measure.quantity is not Quantity.CORES for measure in measures)
