"""Making what is told of a host coarser, always downwards: less free than there is, never more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from federation.core.devices.cards import HAMI_CORE, MIG, Amount, Card
from federation.core.devices.fleet.bucket_text import CardState

Free = tuple[tuple[str, int], ...]

COARSEST: Final = 3
_BITS: Final = (64, 7, 5, 3)
"""Leading binary digits that are kept of an amount: 1/64 of it is lost at most, 1/16, 1/4."""
_CORES: Final = (1, 1, 5, 20)
"""Compute left is rounded down to a multiple of this, but not to nothing."""


class Told(NamedTuple):
    """Amounts free of a host, and its cards. `fixed` says that the order of these matters."""

    free: Free
    cards: tuple[CardState, ...]
    fixed: bool = False


def coarser(host: Told, kinds: Sequence[Card], step: int) -> Told:
    """The host at a step, 0 (exact) to COARSEST. One with idle cards only stays as it is: such
    hosts are alike anyway, and nothing is to be lost of what can take a large pod.
    """
    if not step or all(card.used == Amount() for card in host.cards):
        return host
    bits = _BITS[step]
    cards = [_card(card, kinds[card.kind], step) for card in host.cards]
    return Told(
        tuple((name, _floor(amount, bits)) for name, amount in host.free),
        tuple(cards if host.fixed else sorted(cards)),
        host.fixed,
    )


def _card(card: CardState, kind: Card, step: int) -> CardState:
    """Cards that are cut to sizes have few states as it is."""
    if card.used == Amount() or kind.mode == MIG or kind.sizes:
        return card
    slots, memory, cores = card.used
    if kind.mode == HAMI_CORE:
        memory = kind.memory_mib - _floor(kind.memory_mib - memory, _BITS[step])
        left = kind.cores - cores
        if left > 1:
            cores = kind.cores - max(left // _CORES[step] * _CORES[step], 1)
    return card._replace(used=Amount(slots, memory, cores))


def _floor(amount: int, bits: int) -> int:
    """Rounded down to so many leading binary digits; what is not positive stays."""
    shift = max(0, amount.bit_length() - bits) if amount > 0 else 0
    return amount >> shift << shift
