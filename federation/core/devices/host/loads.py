"""What the rest of a pod needs at least, against what is free: most hopeless searches end here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from federation.core.devices.cards import MIG
from federation.core.devices.host.board import Board, Demand
from federation.core.devices.wants import FULL, Role


@dataclass(slots=True)
class _Load:
    """Sums over the cards of one vendor."""

    slots: int = 0
    memory: int = 0
    cores: int = 0
    idle: int = 0


class Loads:
    """Necessary conditions only. Whatever was taken can but narrow what fits, hence all of the
    remaining demands are held against the board as it is.
    """

    def __init__(self, board: Board, demands: Sequence[Demand]) -> None:
        self._board = board
        self._cards: dict[str, list[int]] = {}
        for number, card in enumerate(board.cards):
            if not board.bars[number]:
                self._cards.setdefault(card.vendor, []).append(number)
        self._rest: list[tuple[dict[str, _Load], list[Demand]]] = []
        needs: dict[str, _Load] = {}
        kinds: dict[Demand, Demand] = {}
        for demand in reversed(demands):
            kinds.setdefault(demand._replace(container=0), demand)
            needs = self._with(needs, demand)
            self._rest.append((needs, list(kinds.values())))
        self._rest.reverse()

    def may_fit(self, number: int) -> bool:
        """False if this demand and those after it cannot all be met."""
        needs, kinds = self._rest[number]
        if len(kinds) > 1 and not all(self._single(demand) for demand in kinds):
            return False
        return all(self._enough(vendor, need) for vendor, need in needs.items())

    def _with(self, needs: dict[str, _Load], demand: Demand) -> dict[str, _Load]:
        if demand.role is Role.INIT:
            return needs
        before = needs.get(demand.vendor, _Load())
        cards = [self._board.cards[number] for number in self._cards.get(demand.vendor, ())]
        least = min(
            (card.share(demand.memory_mib, demand.percent) or 0 for card in cards), default=0
        )
        if any(card.mode == MIG for card in cards):
            least = min(least, demand.memory_mib)
        alone = demand.alone or (demand.cores == FULL and all(c.cores == FULL for c in cards))
        return {
            **needs,
            demand.vendor: _Load(
                before.slots + demand.cards,
                before.memory + demand.cards * least,
                before.cores + demand.cards * demand.cores,
                before.idle + demand.cards * alone,
            ),
        }

    def _single(self, demand: Demand) -> bool:
        """Whether this demand alone could be met now, NUMA aside."""
        board, found = self._board, 0
        for number in self._cards.get(demand.vendor, ()):
            if not board.refusal(demand, number):
                many = board.tables[number] is not None
                found += board.cards[number].slots - board.slots[number] if many else 1
                if found >= demand.cards:
                    return True
        return False

    def _enough(self, vendor: str, need: _Load) -> bool:
        board, free = self._board, _Load()
        mig = False
        for number in self._cards.get(vendor, ()):
            card = board.cards[number]
            free.slots += max(card.slots - board.slots[number], 0)
            free.memory += max(card.memory_mib - board.memory[number], 0)
            free.cores += max(card.cores - board.cores[number], 0)
            free.idle += not board.slots[number]
            mig = mig or board.tables[number] is not None
        return (
            free.slots >= need.slots
            and free.memory >= need.memory
            and (mig or free.cores >= need.cores)
            and free.idle >= need.idle
        )
