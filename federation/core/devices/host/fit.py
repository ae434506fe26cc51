"""Whether a pod fits on a host, and on which cards: exactly, for all its containers together.

The rules of one card are those of HAMi's scheduler (slots, memory, compute, exclusive cards, mutex,
NUMA, models, UUIDs, modes); what it takes one container after the other, and hence misses, is
searched here. An init container is held against what others use and the sidecars started before
it; sidecars and apps add up. Where rules differ, and why: decision 24.
"""

from __future__ import annotations

from collections.abc import Sequence

from federation.core.devices.cards import Allocation, Grant, HostUse
from federation.core.devices.host.board import Board, Demand, GivenUpError, demands_of
from federation.core.devices.host.card_order import TIGHTEST, CardOrder, order_of
from federation.core.devices.host.explain import explain, given_up
from federation.core.devices.host.init_cards import reuse
from federation.core.devices.host.legality import check
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.host.search import Picks, Search, choices
from federation.core.devices.wants import FULL, PodWants, Role

BUDGET = 600
"""Cards that one search may try to take; a pod needs hardly more than it asks for, and one costs
some ten microseconds.
"""
MOST_CARDS = 128
"""What asks for more at once is not searched for, however simple."""


def find(
    use: HostUse, wants: PodWants, order: CardOrder = TIGHTEST, *, budget: int = BUDGET
) -> Allocation | Misfit:
    """Cards for all containers, in the order that the pod's annotations ask for, else in `order`.

    A Misfit says why there are none, or that `budget` picks did not settle it. The allocation is
    legal whenever it is given (`check` agrees), and given whenever there is one.
    """
    demands = demands_of(wants)
    if not demands:
        return tuple([() for _ in wants.containers])
    if use.fence:
        return Misfit(use.host.name, {}, fence=use.fence)
    if sum(demand.cards for demand in demands) > MOST_CARDS:
        return given_up(use, wants, demands)
    order = order_of(wants.wishes, order)
    board = Board(use, wants.wishes, budget)
    try:
        if len(demands) > 1:
            return _together(board, use, wants, demands, order)
        first = next(choices(board, demands[0], order), None)
    except GivenUpError:
        return _largest_first(use, wants, demands, order, budget) or given_up(use, wants, demands)
    if first is None:
        return explain(use, wants, demands)
    return _allocation(board, wants, demands, [first])


def _together(
    board: Board, use: HostUse, wants: PodWants, demands: Sequence[Demand], order: CardOrder
) -> Allocation | Misfit:
    search = Search(board, demands, order)
    if not search.run():
        return explain(use, wants, demands)
    picks = search.picks
    if any(demand.role is Role.INIT for demand in demands):
        board.left = len(board.cards) * len(demands)
        picks = reuse(board, demands, picks, order)
    return _allocation(board, wants, demands, picks)


def _largest_first(
    use: HostUse, wants: PodWants, demands: Sequence[Demand], order: CardOrder, budget: int
) -> Allocation | None:
    """A second try when the containers' own order was too long a way. That order matters to the
    rules, if rarely, hence the check.
    """
    if any(demand.role is Role.INIT for demand in demands):
        return None
    ordered = sorted(demands, key=lambda d: (d.cores < FULL, -d.memory_mib, -d.percent, -d.cores))
    board = Board(use, wants.wishes, budget)
    search = Search(board, ordered, order)
    try:
        found = search.run()
    except GivenUpError:
        return None
    if not found:
        return None
    allocation = _allocation(board, wants, ordered, search.picks)
    return None if check(use, wants, allocation) else allocation


def _allocation(
    board: Board, wants: PodWants, demands: Sequence[Demand], picks: Sequence[Picks]
) -> Allocation:
    grants: list[tuple[Grant, ...]] = [()] * len(wants.containers)
    for demand, chosen in zip(demands, picks, strict=True):
        grants[demand.container] += tuple([board.grant(demand, pick) for pick in chosen])
    return tuple(grants)
