"""Assign a flavor to every resource of every pod set, or say with numbers why none fits.

Rules: Kueue's flavor assigner. Pod sets in order, flavors in the order of the resource group; each
flavor is graded by the worst of its resources, and the queue's fungibility says where to stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from federation.core.assignment import (
    BEST,
    WORST,
    Assignment,
    Grade,
    Lack,
    Mode,
    Tried,
    is_preferred,
    least_severe,
    most_severe,
    tries_next,
)
from federation.core.card_shares import CARD_MEMORY, Ask, ask_for, limited, priced, together
from federation.core.devices.quota.quota import UnknownCard
from federation.core.matching import affinity_matches, untolerated
from federation.core.policies import PreemptionPolicy, Rules, UndeclaredResources
from federation.core.quantity import Resources, scale
from federation.core.quota import QuotaNode
from federation.core.reasons import Reason
from federation.core.topology import FlavorTopology
from federation.core.types import (
    Admission,
    ClusterQueue,
    FlavorResource,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    ResourceGroup,
    Usage,
)

Simulate = Callable[[FlavorResource, int], Grade]
"""How good a quota is that only preemption can give: NO_CANDIDATES, PREEMPT or RECLAIM, and the
level borrowed from once the victims are gone."""


@dataclass(frozen=True, slots=True)
class Market:
    """What a queue's workloads choose from. `node` is the queue in the quota tree."""

    queue: ClusterQueue
    node: QuotaNode
    flavors: Mapping[str, ResourceFlavor]
    topologies: Mapping[str, FlavorTopology]
    rules: Rules
    simulate: Simulate

    @property
    def preempts_while_borrowing(self) -> bool:
        """Whether a flavor that would borrow may still look for victims."""
        preemption = self.queue.preemption
        fair = self.rules.fair_sharing and preemption.reclaim is not PreemptionPolicy.NEVER
        return preemption.while_borrowing or fair


@lru_cache(maxsize=4096)
def scan_order(resource: str) -> int:
    """Resources are tried in the order of this 64-bit FNV-1a hash of their names."""
    digest = 0xCBF29CE484222325
    for byte in resource.encode():
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


def totals(pods: PodSet, count: int, queue: ClusterQueue) -> Resources:
    """What `count` pods of a set ask for in all; a queue that covers `pods` counts them too."""
    requests = scale(pods.requests, count)
    if any("pods" in group.covered for group in queue.groups):
        requests["pods"] = max(0, count)
    return requests


def assign(
    pod_sets: Sequence[PodSet],
    market: Market,
    *,
    counts: Sequence[int] | None = None,
    tried: Tried = (),
    pinned: Mapping[tuple[str, str], str] | None = None,
) -> Assignment:
    """Choose flavors for the whole workload, all or nothing.

    `counts` replaces the pod sets' counts; `tried` resumes an earlier search; `pinned` allows, per
    pod set and resource, only that flavor.
    """
    search = _Search(market, tried, pinned)
    chosen: dict[int, _Part] = {}
    sizes = list(counts) if counts is not None else [pods.count for pods in pod_sets]
    queue, quotas = market.queue, market.rules.cards
    asked = [
        ask_for(pods, n, totals(pods, n, queue), queue, quotas)
        for pods, n in zip(pod_sets, sizes, strict=True)
    ]
    for members in groups(pod_sets):
        choice = search.choose([asked[i] for i in members], members[0])
        chosen |= {
            i: (pod_sets[i].name, sizes[i], search.total(asked[i], choice), choice) for i in members
        }
        if choice.mode is Mode.NO_FIT:
            break
    return _outcome(market, search, [chosen[i] for i in sorted(chosen)])


def groups(pod_sets: Sequence[PodSet]) -> list[list[int]]:
    """Indexes of pod sets that get their flavors together, in order of their first member."""
    if len(pod_sets) == 1:
        return [[0]]
    found: dict[str, list[int]] = {}
    for index, pods in enumerate(pod_sets):
        group = pods.topology.group if pods.topology else ""
        found.setdefault(f"g/{group}" if group else f"p/{index}", []).append(index)
    return list(found.values())


@dataclass(slots=True)
class _Choice:
    """The flavors of one group of pod sets, per resource, with their grades."""

    requests: Resources
    flavors: dict[str, str] = field(default_factory=dict)
    grades: dict[str, Grade] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    failed: bool = False

    @property
    def mode(self) -> Mode:
        if self.failed:
            return Mode.NO_FIT
        return min((grade.mode for grade in self.grades.values()), default=Mode.FIT)


_Part = tuple[str, int, Resources, _Choice]
"""Of one pod set: name, count, what it asks for in all, the flavors of its group."""


@dataclass(slots=True)
class _Search:
    market: Market
    tried: Tried
    pinned: Mapping[tuple[str, str], str] | None
    assumed: Usage = field(default_factory=dict)
    lacks: list[tuple[str, Lack]] = field(default_factory=list)
    pod_set: str = ""
    reason: Reason = Reason.NO_MATCHING_FLAVOR
    """Of the pod sets that failed."""

    def choose(self, asks: Sequence[Ask], index: int) -> _Choice:
        """Choose flavors for pod sets that go together, and assume them."""
        queue, rules = self.market.queue, self.market.rules
        wanted = together(asks)
        choice = _Choice(wanted)
        self.pod_set = asks[0].pods.name
        start = self.tried[index] if index < len(self.tried) else {}
        group_reasons: list[Reason] = []
        for resource in sorted(wanted, key=scan_order):
            if resource in choice.flavors or choice.failed:
                continue
            group = next((g for g in queue.groups if resource in g.covered), None)
            if group is None:
                blocked = rules.undeclared is UndeclaredResources.BLOCK
                if wanted[resource] and blocked and not limited(resource, asks, rules.cards):
                    text = f"resource {resource} unavailable in ClusterQueue"
                    self._lack(Lack(Reason.NO_MATCHING_FLAVOR, "", text, resource))
                    group_reasons.append(Reason.NO_MATCHING_FLAVOR)
                    choice.failed = True
                continue
            reason = self._scan(choice, group, asks, start.get(resource, -1) + 1)
            if reason is not None:
                group_reasons.append(reason)
        if choice.failed:  # nothing is kept of what others of its resources would have got
            choice.flavors.clear()
            choice.grades.clear()
            choice.tried.clear()
            self.reason = most_severe(group_reasons) or Reason.NO_MATCHING_FLAVOR
        for resource, flavor in choice.flavors.items():
            key = FlavorResource(flavor, resource)
            self.assumed[key] = self.assumed.get(key, 0) + wanted[resource]
        return choice

    def _lack(self, lack: Lack) -> None:
        self.lacks.append((self.pod_set, lack))

    def _scan(
        self, choice: _Choice, group: ResourceGroup, asks: Sequence[Ask], start: int
    ) -> Reason | None:
        """Find a flavor of one resource group; the mildest reason of those that are no good."""
        requests = {name: n for name, n in choice.requests.items() if name in group.covered}
        sets = [ask.pods for ask in asks]
        fungibility = self.market.queue.fungibility
        best, best_flavor, last = WORST, "", start - 1
        misfits: list[Reason] = []
        best_grades: dict[str, Grade] = {}
        best_requests: Resources = {}
        for last in range(start, len(group.flavors)):  # the last one looked at
            name = group.flavors[last].flavor
            if not self._allowed(name, sets, requests):
                continue
            amounts = self._unsuitable(name, sets) or self._amounts(name, requests, asks)
            if isinstance(amounts, Lack):
                misfits.append(amounts.reason)
                self._lack(amounts)
                continue
            grade, grades, reasons = self._grade(name, amounts)
            if grade.mode is Mode.NO_FIT:
                misfits.append(most_severe(reasons) or Reason.WAITING_FOR_QUOTA)
            if not tries_next(grade, fungibility):
                best, best_flavor, best_grades, best_requests = grade, name, grades, amounts
                break
            if is_preferred(grade, best, fungibility.preference):
                best, best_flavor, best_grades, best_requests = grade, name, grades, amounts
        if not best_flavor:
            choice.failed = True
            return least_severe(misfits) or Reason.NO_MATCHING_FLAVOR
        at = -1 if last == len(group.flavors) - 1 else last
        choice.requests.update(best_requests)
        for resource in requests:
            choice.flavors[resource] = best_flavor
            choice.grades[resource] = best_grades[resource]
            choice.tried[resource] = at
        return least_severe(misfits)

    def _allowed(self, name: str, sets: Sequence[PodSet], requests: Resources) -> bool:
        pinned = self.pinned
        return pinned is None or any(
            pinned.get((pods.name, resource)) == name for pods in sets for resource in requests
        )

    def _unsuitable(self, name: str, sets: Sequence[PodSet]) -> Lack | None:
        """Why a flavor is out of the question for these pods, whatever is free."""
        flavor = self.market.flavors.get(name)
        if flavor is None:
            return Lack(Reason.NO_MATCHING_FLAVOR, name, f"flavor {name} not found")
        problem = self._topology_mismatch(flavor, sets) or _mismatch(sets, flavor)
        return Lack(Reason.NO_MATCHING_FLAVOR, name, problem) if problem else None

    def _amounts(self, name: str, requests: Resources, asks: Sequence[Ask]) -> Resources | Lack:
        """What is asked of a flavor: shares of cards are reckoned with its cards."""
        shares = frozenset().union(*(ask.shares for ask in asks)) & requests.keys()
        if not shares:
            return requests
        try:
            found = [self._shares(ask, name) for ask in asks]
        except UnknownCard as error:
            text = f"{error} in flavor {name}: set its annotation {CARD_MEMORY}"
            return Lack(Reason.NO_MATCHING_FLAVOR, name, text)
        total = dict.fromkeys(shares, 0)
        for ask, amounts in zip(asks, found, strict=True):
            for share in shares:
                total[share] += amounts.get(share, ask.total.get(share, 0))
        return {**requests, **total}

    def _shares(self, ask: Ask, flavor: str) -> Resources:
        return priced(ask, self.market.flavors[flavor].cards, self.market.rules.cards)

    def total(self, ask: Ask, choice: _Choice) -> Resources:
        """What pods of a set are charged in all, with the flavors that were chosen."""
        if not ask.shares:
            return ask.total
        chosen = {name: choice.flavors[name] for name in ask.shares if name in choice.flavors}
        by_flavor = {flavor: self._shares(ask, flavor) for flavor in set(chosen.values())}
        return ask.total | {name: by_flavor[flavor][name] for name, flavor in chosen.items()}

    def _topology_mismatch(self, flavor: ResourceFlavor, sets: Sequence[PodSet]) -> str:
        request = next((pods.topology for pods in sets if pods.topology), None)
        if request is None:
            if flavor.topology and not self.implied:
                return f"Flavor {flavor.name} supports only TopologyAwareScheduling"
            return ""
        if not flavor.topology:
            return f"Flavor {flavor.name} does not support TopologyAwareScheduling"
        topology = self.market.topologies.get(flavor.name)
        if topology is None:
            return f"Topology {flavor.topology} of flavor {flavor.name} not found"
        levels = [request.level, *(level for level, _ in request.slices)]
        missing = next((level for level in levels if level and level not in topology.levels), "")
        if missing:
            return f"Flavor {flavor.name} does not contain the requested level {missing}"
        return ""

    @property
    def implied(self) -> bool:
        """Whether all flavors of the queue are arranged in topologies, so pods need not ask."""
        names, flavors = self.market.queue.flavor_names, self.market.flavors
        return all((flavor := flavors.get(name)) and flavor.topology for name in names)

    def _grade(
        self, flavor: str, requests: Resources
    ) -> tuple[Grade, dict[str, Grade], list[Reason]]:
        worst, grades, reasons = BEST, {}, []
        for resource in sorted(requests, key=scan_order):
            key = FlavorResource(flavor, resource)
            grade, lack = self._quota(key, requests[resource], worst.mode is Mode.NO_FIT)
            grades[resource] = grade
            if lack is not None:
                self._lack(lack)
                reasons.append(lack.reason)
            if is_preferred(worst, grade, self.market.queue.fungibility.preference):
                worst = grade
        return worst, grades, reasons

    def _quota(
        self, key: FlavorResource, request: int, hopeless: bool
    ) -> tuple[Grade, Lack | None]:
        """Grade one quota. `hopeless` spares the search for victims: another resource decides."""
        node = self.market.node
        before = self.assumed.get(key, 0)
        need, most = before + request, node.potential(key)
        available = max(0, node.available(key))
        nominal = node.subtree.get(key, 0)
        own = max(0, nominal - node.usage.get(key, 0))
        numbers = (key.resource, before, request, available, nominal, most, own)
        if need > most:
            return WORST, Lack(Reason.EXCEEDS_MAX_QUOTA, key.flavor, "", *numbers)
        level, may_reclaim = node.borrow_level(key, need)
        if need <= available:
            return Grade(Mode.FIT, level), None
        lack = Lack(Reason.WAITING_FOR_QUOTA, key.flavor, "", *numbers)
        if need <= nominal or may_reclaim or self.market.preempts_while_borrowing:
            if hopeless:
                return Grade(Mode.NO_CANDIDATES, level), lack
            return self.market.simulate(key, need), lack
        return WORST, lack


def _mismatch(sets: Sequence[PodSet], flavor: ResourceFlavor) -> str:
    for pods in sets:
        if flavor.taints and (taint := untolerated(pods, flavor)):
            return f"untolerated taint {taint} in flavor {flavor.name}"
        if not affinity_matches(pods, flavor):
            return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def _outcome(market: Market, search: _Search, chosen: Sequence[_Part]) -> Assignment:
    assignments, preempting = [], []
    mode, borrowing = Mode.FIT, 0
    for name, count, requests, choice in chosen:
        flavors, usage = choice.flavors, requests
        if requests.keys() != flavors.keys():
            flavors = {r: flavor for r, flavor in choice.flavors.items() if r in requests}
            usage = {r: amount for r, amount in requests.items() if r in flavors}
        assignments.append(PodSetAssignment(name, count, flavors, usage))
        for resource, grade in choice.grades.items():
            borrowing = max(borrowing, grade.borrow)
            if grade.mode is not Mode.FIT:
                preempting.append(FlavorResource(choice.flavors[resource], resource))
        mode = min(mode, choice.mode)
    return Assignment(
        admission=Admission(market.queue.name, tuple(assignments)),
        mode=mode if mode in (Mode.NO_FIT, Mode.FIT) else Mode.PREEMPT,
        borrowing=borrowing,
        usage=search.assumed,
        preempting=frozenset(preempting),
        tried=tuple(choice.tried for _, _, _, choice in chosen),
        lacks=tuple(search.lacks),
        reason=search.reason,
    )
