"""Whether an allocation that someone else chose, such as HAMi's scheduler, keeps all rules."""

from __future__ import annotations

from federation.core.devices.cards import Allocation, Grant, HostUse
from federation.core.devices.host.board import Board, Demand, Pick, demands_of
from federation.core.devices.host.search import Picks, ends_init, of_container
from federation.core.devices.wants import PodWants


def check(use: HostUse, wants: PodWants, allocation: Allocation) -> str:
    """'' if the pod could have been placed so on the host as it is, else the first rule that is
    broken.
    """
    if len(allocation) != len(wants.containers):
        return f"{len(allocation)} containers are given cards, the pod has {len(wants.containers)}"
    demands = demands_of(wants)
    if use.fence and demands:
        return f"host {use.host.name} takes nothing new: {use.fence}"
    checker = _Checker(use, wants)
    picks: list[Picks] = []
    left = [list(grants) for grants in allocation]
    for number, demand in enumerate(demands):
        chosen = checker.meet(demand, _of_demand(wants, demand, left[demand.container]))
        if isinstance(chosen, str):
            return f"container {wants.containers[demand.container].name}: {chosen}"
        picks.append(chosen)
        if ends_init(demands, number):
            for pick in of_container(demands, picks, number):
                checker.board.count(pick, -1)
    for container, grants in zip(wants.containers, left, strict=True):
        if grants:
            return f"container {container.name}: is given {grants[0].uuid} beyond what it asks for"
    return ""


def _of_demand(wants: PodWants, demand: Demand, left: list[Grant]) -> list[Grant]:
    """Take from what is left of a container's grants what is for this demand: all, or if it has
    several demands as many as are asked for of the vendor.
    """
    mine = left[:]
    if len(wants.containers[demand.container].cards) > 1:
        mine = [grant for grant in left if grant.vendor == demand.vendor][: demand.cards]
    for grant in mine:
        left.remove(grant)
    return mine


class _Checker:
    def __init__(self, use: HostUse, wants: PodWants) -> None:
        cards = sum(asked.cards for container in wants.containers for asked in container.cards)
        self.board = Board(use, wants.wishes, cards)
        self._numbers = {card.uuid: number for number, card in enumerate(use.host.cards)}

    def meet(self, demand: Demand, grants: list[Grant]) -> Picks | str:
        """Take these grants on the board; or what is wrong with them."""
        if len(grants) != demand.cards:
            return f"{len(grants)} cards are given, {demand.cards} are asked for"
        nodes = set()
        chosen: list[Pick] = []
        for grant in grants:
            number = self._numbers.get(grant.uuid)
            if number is None:
                return f"there is no card {grant.uuid}"
            if self.board.tables[number] is None and any(p.card == number for p in chosen):
                return f"{grant.uuid} is given twice to one container"
            pick = self._pick(demand, number, grant)
            if isinstance(pick, str):
                return f"{grant.uuid}: {pick}"
            self.board.take(pick)
            chosen.append(pick)
            nodes.add(self.board.cards[number].numa)
        if demand.one_numa and len(nodes) > 1:
            return "the cards are of several NUMA nodes, and one is asked for"
        return tuple(chosen)

    def _pick(self, demand: Demand, number: int, grant: Grant) -> Pick | str:
        if self.board.cards[number].vendor != demand.vendor:
            return f"it is no card of {demand.vendor}"
        refusal = self.board.refusal(demand, number)
        if refusal:
            return refusal
        same = [p for p in self.board.picks(demand, number) if p.slice == grant.slice]
        if not same:
            return f"{grant.slice} is no free place of a profile that is large enough"
        pick = same[0]
        if (grant.memory_mib, grant.cores) != (pick.memory_mib, pick.cores):
            return (
                f"{grant.memory_mib} MiB and {grant.cores}% are given, "
                f"{pick.memory_mib} MiB and {pick.cores}% are asked for"
            )
        return pick
