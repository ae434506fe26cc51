"""Why a host cannot take a pod, per card, as codes and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from federation.core.devices.board import Board, Demand, GivenUpError
from federation.core.devices.card_order import TIGHTEST
from federation.core.devices.cards import HostUse
from federation.core.devices.misfit import Code, Misfit
from federation.core.devices.search import Search, choices, refusals
from federation.core.devices.wants import PodWants

_BUDGET = 500
_SHORT = frozenset({"", Code.MEMORY, Code.MIG})


def explain(
    use: HostUse, wants: PodWants, demands: Sequence[Demand], search: Search | None = None
) -> Misfit:
    """Of a pod that was not placed: the first container that does not fit even alone, else the
    one at which the search got no further.
    """
    board = Board(use, wants.wishes, _BUDGET)
    for demand in demands:
        if not _fits_alone(board, demand):
            return _misfit(board, wants, demand, refusals(board, demand))
    assert search is not None, "one demand alone is what does not fit"
    demand = demands[search.deepest]
    return _misfit(board, wants, demand, search.stuck, beside=True)


def given_up(use: HostUse, wants: PodWants, demands: Sequence[Demand]) -> Misfit:
    """Of a pod whose placements are too many to try; unless a container asks for more cards than
    there are.
    """
    board = Board(use, wants.wishes, _BUDGET)
    for demand in demands:
        codes = refusals(board, demand)
        if Code.NO_DEVICES in codes:
            return _misfit(board, wants, demand, codes)
    return Misfit(use.host.name, {Code.SEARCH: 1})


def _fits_alone(board: Board, demand: Demand) -> bool:
    try:
        for picks in choices(board, demand, TIGHTEST):
            for pick in picks:
                board.give_back(pick)
            return True
    except GivenUpError:
        return True
    return False


def _misfit(
    board: Board,
    wants: PodWants,
    demand: Demand,
    codes: Mapping[str, int],
    *,
    beside: bool = False,
) -> Misfit:
    of_vendor = [n for n, card in enumerate(board.cards) if card.vendor == demand.vendor]
    open_to_it = [n for n in of_vendor if board.refusal(demand, n) in _SHORT]
    best = max(open_to_it, key=board.free_mib, default=None)
    return Misfit(
        board.host.name,
        codes,
        wants.containers[demand.container].name,
        demand.asked,
        len(of_vendor),
        0 if best is None else board.free_mib(best),
        "" if best is None else board.cards[best].uuid,
        beside,
    )
