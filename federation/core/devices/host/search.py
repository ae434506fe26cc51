"""Searches the placements of a pod on one host until one is legal; all of them if need be.

Containers are tried in their order and cards in the order of preference, so the first that is
found is the one that taking cards one by one would choose, unless that leads nowhere. Then the
search goes back. Of equal cards one is tried, and no state of the cards twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from federation.core.devices.host.board import Board, Demand, Pick
from federation.core.devices.host.card_order import CardOrder
from federation.core.devices.host.loads import Loads
from federation.core.devices.host.pairs import best_set, pair_sum
from federation.core.devices.wants import Role

Picks = tuple[Pick, ...]
Ranked = tuple[Any, int]
"""A card by its number, after its rank."""


def choices(board: Board, demand: Demand, order: CardOrder) -> Iterator[Picks]:
    """All ways to meet a demand, the preferred first, but one of each likeness.

    Each is already taken on the board when it is yielded, and given back when the next is asked
    for.
    """
    for cards in _groups(board, demand, _ranked(board, demand, order)):
        if demand.cards > 1:
            numbers = _connected(board, demand, cards, order)
        else:
            numbers = [number for _, number in cards]
        yield from _sets(board, demand, numbers, (), set())


def _ranked(board: Board, demand: Demand, order: CardOrder) -> list[Ranked]:
    """The cards that could give what is asked of one, the preferred first."""
    found: list[Ranked] = []
    vendor, key = demand.vendor, order.key
    lonely = order.pairs and demand.cards == 1
    for number, card in enumerate(board.cards):
        if card.vendor != vendor or board.refusal(demand, number):
            continue
        first = board.picks(demand, number)[0]
        rank = key(
            card,
            board.slots[number],
            board.memory[number],
            board.cores[number],
            first.memory_mib,
            first.cores,
        )
        found.append(((pair_sum(board.host, number), rank) if lonely else rank, number))
    found.sort()
    return found


def _groups(board: Board, demand: Demand, cards: list[Ranked]) -> list[list[Ranked]]:
    """The cards of each NUMA node, if all must be of one."""
    if not demand.one_numa or demand.cards == 1:
        return [cards]
    nodes = dict.fromkeys(board.cards[number].numa for _, number in cards)
    return [[card for card in cards if board.cards[card[1]].numa == node] for node in nodes]


def _connected(board: Board, demand: Demand, cards: list[Ranked], order: CardOrder) -> list[int]:
    """The best connected first: of all cards if that is asked for, else of those that rank equal
    where the last is taken.
    """
    numbers = [number for _, number in cards]
    if demand.cards >= len(cards):
        return numbers
    if order.pairs:
        return best_set(board.host, numbers, demand.cards, 0, len(cards))
    last = cards[demand.cards - 1][0]
    equal = [position for position, (rank, _) in enumerate(cards) if rank == last]
    return best_set(board.host, numbers, demand.cards, equal[0], len(equal))


def _sets(
    board: Board, demand: Demand, cards: Sequence[int], chosen: Picks, seen: set[object]
) -> Iterator[Picks]:
    """Complete `chosen` with the cards that are left, or the one chosen last again if it is cut
    by MIG. `seen` are states on MIG cards, which are reached in many orders.
    """
    missing = demand.cards - len(chosen)
    if not missing:
        yield chosen
        return
    rooms = [board.room(demand, number) for number in cards]
    left = sum(rooms)
    tried: set[object] = set()
    for position, number in enumerate(cards):
        if left < missing:
            return
        left -= rooms[position]
        if not rooms[position] or (tried and board.likeness(number) in tried):
            continue
        again = board.tables[number] is not None
        for pick in board.picks(demand, number):
            board.take(pick)
            state = (len(chosen), number, *board.masks, *board.slots) if again else None
            if state is None or state not in seen:
                rest = cards[position if again else position + 1 :]
                yield from _sets(board, demand, rest, (*chosen, pick), seen)
                seen.add(state)
            board.give_back(pick)
        tried.add(board.likeness(number))


class Search:
    """One search for all containers."""

    def __init__(self, board: Board, demands: Sequence[Demand], order: CardOrder) -> None:
        self.board = board
        self.demands = demands
        self.order = order
        self.picks: list[Picks] = []
        self._dead: set[object] = set()
        self._loads = Loads(board, demands)

    def run(self) -> bool:
        """Whether there is a placement; `picks` has it then, one entry per demand, and the board
        holds what is not given back when the init containers have ended. Raises GivenUpError.
        """
        return self._meet(0)

    def _meet(self, number: int) -> bool:
        """Meet this demand and all after it."""
        if number == len(self.demands):
            return True
        state = (number, self.board.state())
        if state in self._dead or not self._loads.may_fit(number):
            return False
        demand = self.demands[number]
        for picks in choices(self.board, demand, self.order):
            self.picks.append(picks)
            if self._go_on(number):
                return True
            self.picks.pop()
            if ends_init(self.demands, number) and not any(pick.bits for pick in picks):
                break  # other cards would leave the board as it is
        self._dead.add(state)
        return False

    def _go_on(self, number: int) -> bool:
        """An init container ends before the next begins; its places on MIG cards stay taken, as
        instances are made for all containers when the pod starts.
        """
        if not ends_init(self.demands, number):
            return self._meet(number + 1)
        mine = of_container(self.demands, self.picks, number)
        for pick in mine:
            self.board.count(pick, -1)
        if self._meet(number + 1):
            return True
        for pick in mine:
            self.board.count(pick, 1)
        return False


def ends_init(demands: Sequence[Demand], number: int) -> bool:
    """Whether an init container has all its cards with this demand."""
    demand = demands[number]
    last = number + 1 == len(demands) or demands[number + 1].container != demand.container
    return last and demand.role is Role.INIT


def of_container(demands: Sequence[Demand], picks: Sequence[Picks], number: int) -> Picks:
    """What the container of this demand has got so far."""
    container = demands[number].container
    return tuple(
        pick
        for demand, chosen in zip(demands[: number + 1], picks, strict=False)
        if demand.container == container
        for pick in chosen
    )
