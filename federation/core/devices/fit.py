"""Whether a pod fits on a host, and on which cards: exactly, for all its containers together.

The rules of one card are those of HAMi's scheduler (slots, memory, compute, exclusive cards, mutex,
NUMA, models, UUIDs, modes); what it takes one container after the other, and hence misses, is
searched here. An init container is held against what others use and the sidecars started before
it; sidecars and apps add up. Where rules differ, and why: docs/decisions/25 and 26.
"""

from __future__ import annotations

from collections.abc import Sequence

from federation.core.devices.board import Board, Demand, demands_of
from federation.core.devices.card_order import TIGHTEST, CardOrder, order_of
from federation.core.devices.cards import Allocation, Grant, HostUse
from federation.core.devices.explain import explain
from federation.core.devices.init_cards import reuse
from federation.core.devices.misfit import Misfit
from federation.core.devices.search import Picks, Search, choices
from federation.core.devices.wants import PodWants, Role

BUDGET = 2000
"""Choices that one search may try; real pods need a few, and one costs some ten microseconds."""


def find(
    use: HostUse, wants: PodWants, order: CardOrder = TIGHTEST, *, budget: int = BUDGET
) -> Allocation | Misfit:
    """Cards for all containers, in the order that the pod's annotations ask for, else in `order`.

    A Misfit says why there are none, or that `budget` choices did not settle it. The allocation
    is legal whenever it is given (`check` agrees), and given whenever there is one.
    """
    demands = demands_of(wants)
    if not demands:
        return tuple([() for _ in wants.containers])
    if use.fence:
        return Misfit(use.host.name, {}, fence=use.fence)
    board = Board(use, wants.wishes)
    order = order_of(wants.wishes, order)
    if len(demands) == 1:
        first = next(choices(board, demands[0], order), None)
        if first is None:
            return explain(use, wants, demands)
        return _allocation(board, wants, demands, [first])
    search = Search(board, demands, order, budget)
    if not search.run():
        return explain(use, wants, demands, search)
    picks = search.picks
    if any(demand.role is Role.INIT for demand in demands):
        picks = reuse(board, demands, picks, order)
    return _allocation(board, wants, demands, picks)


def _allocation(
    board: Board, wants: PodWants, demands: Sequence[Demand], picks: Sequence[Picks]
) -> Allocation:
    grants: list[tuple[Grant, ...]] = [()] * len(wants.containers)
    for demand, chosen in zip(demands, picks, strict=True):
        grants[demand.container] += tuple([board.grant(demand, pick) for pick in chosen])
    return tuple(grants)
