"""Cards for init containers, once those of the others are known: the same ones where possible.

A pod is charged per card for the most it holds at a time, so an init container costs nothing on
cards that its apps use anyhow, and a card of its own elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from federation.core.devices.cards import Card
from federation.core.devices.host.board import Board, Demand, Pick
from federation.core.devices.host.card_order import CardOrder
from federation.core.devices.host.search import Picks, choices, ends_init, of_container
from federation.core.devices.wants import Role


def reuse(
    board: Board, demands: Sequence[Demand], picks: Sequence[Picks], order: CardOrder
) -> list[Picks]:
    """The picks with those of init containers chosen anew; places on MIG cards stay.

    The board is that of a finished search; it is of no use afterwards.
    """
    peaks = list(board.memory)
    held = list(board.slots)
    for pick in _running(demands, picks):
        board.count(pick, -1)
    unused = {card.uuid: board.slots[i] == held[i] for i, card in enumerate(board.cards)}
    number_of = {card.uuid: number for number, card in enumerate(board.cards)}

    def key(card: Card, slots: int, mib: int, cores: int, give: int, give_cores: int) -> Any:
        extra = max(mib + give - peaks[number_of[card.uuid]], 0)
        return (
            unused[card.uuid],
            extra / (card.memory_mib or 1),
            order.key(card, slots, mib, cores, give, give_cores),
        )

    cheapest = CardOrder(key)
    chosen = list(picks)
    for number, demand in enumerate(demands):
        if demand.role is Role.INIT and not any(pick.bits for pick in picks[number]):
            chosen[number] = next(choices(board, demand, cheapest))
        else:
            for pick in chosen[number]:
                board.count(pick, 1)
        if demand.role is Role.INIT:
            for pick in chosen[number]:
                peaks[pick.card] = max(peaks[pick.card], board.memory[pick.card])
                unused[board.cards[pick.card].uuid] = False
        if ends_init(demands, number):
            for pick in of_container(demands, chosen, number):
                board.count(pick, -1)
    return chosen


def _running(demands: Sequence[Demand], picks: Sequence[Picks]) -> list[Pick]:
    return [
        pick
        for demand, mine in zip(demands, picks, strict=True)
        if demand.role is not Role.INIT
        for pick in mine
    ]
