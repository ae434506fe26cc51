"""Why a host cannot take a pod, per card, as codes and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from federation.core.devices.cards import HostUse
from federation.core.devices.host.board import Board, Demand, GivenUpError
from federation.core.devices.host.card_order import TIGHTEST
from federation.core.devices.host.misfit import Code, Misfit
from federation.core.devices.host.search import Picks, choices, ends_init, of_container
from federation.core.devices.wants import PodWants

_BUDGET = 500
_SHORT = frozenset({"", Code.MEMORY, Code.MIG})


def explain(use: HostUse, wants: PodWants, demands: Sequence[Demand]) -> Misfit:
    """Of a pod that was not placed: the first container that does not fit even alone, else the
    first for which those before it, where they would be put first, leave no room.
    """
    board = Board(use, wants.wishes, _BUDGET)
    for demand in demands:
        if _first(board, demand, keep=False) is None:
            return _misfit(board, wants, demand)
    picks: list[Picks] = []
    for number, demand in enumerate(demands):
        chosen = _first(board, demand, keep=True)
        if chosen is None:
            return _misfit(board, wants, demand, beside=True)
        picks.append(chosen)
        if ends_init(demands, number):
            for pick in of_container(demands, picks, number):
                board.count(pick, -1)
    return given_up(use, wants, demands)


def given_up(use: HostUse, wants: PodWants, demands: Sequence[Demand]) -> Misfit:
    """Of a pod whose placements are too many to try; unless a container asks for more cards than
    there are.
    """
    board = Board(use, wants.wishes, _BUDGET)
    for demand in demands:
        if Code.NO_DEVICES in refusals(board, demand):
            return _misfit(board, wants, demand)
    return Misfit(use.host.name, {Code.SEARCH: 1})


def _first(board: Board, demand: Demand, *, keep: bool) -> Picks | None:
    """The preferred cards, left on the board if they are to be kept; None if there are none."""
    try:
        chosen = next(choices(board, demand, TIGHTEST), None)
    except GivenUpError:
        return ()
    for pick in chosen or ():
        if not keep:
            board.give_back(pick)
    return chosen


def refusals(board: Board, demand: Demand) -> dict[str, int]:
    """Cards of the vendor by the reason why they cannot give what is asked of one; the others
    are too few.
    """
    of_vendor = [n for n, card in enumerate(board.cards) if card.vendor == demand.vendor]
    most = sum(board.cards[n].slots if board.tables[n] is not None else 1 for n in of_vendor)
    if most < demand.cards:
        return {Code.NO_DEVICES: len(of_vendor)}
    codes = Counter(board.refusal(demand, number) for number in of_vendor)
    free = codes.pop("", 0)
    if free:
        codes[Code.NUMA if demand.one_numa and free >= demand.cards else Code.TOO_FEW] = free
    return dict(codes)


def _misfit(board: Board, wants: PodWants, demand: Demand, *, beside: bool = False) -> Misfit:
    of_vendor = [n for n, card in enumerate(board.cards) if card.vendor == demand.vendor]
    open_to_it = [n for n in of_vendor if board.refusal(demand, n) in _SHORT]
    best = max(open_to_it, key=board.free_mib, default=None)
    return Misfit(
        board.host.name,
        refusals(board, demand),
        wants.containers[demand.container].name,
        demand.asked,
        len(of_vendor),
        0 if best is None else board.free_mib(best),
        "" if best is None else board.cards[best].uuid,
        beside,
    )
