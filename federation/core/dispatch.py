"""Choose one worker cluster for a workload that fits its global quota.

The choice is over all clusters at once, on what they report free less the offers that their
reports do not count yet. A cluster is offered only what should fit: the queue stays global.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from federation.core.affinity import excluded, preference
from federation.core.cluster_cards import asks_for_cards, gang_of, no_cards, score_of
from federation.core.devices.fleet.reported_fleet import ReportedFleet
from federation.core.devices.fleet.types import Gang, NoPlace, Placement
from federation.core.devices.quota.quota import standard
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Quantity
from federation.core.quantity import Resources, format_quantity, scale
from federation.core.scoring import DEFAULT_TERMS, NO_TRAITS, ClusterTraits, Weighted, scores
from federation.core.types import (
    Admission,
    FlavorResource,
    Pending,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    Usage,
)


@dataclass(frozen=True, slots=True)
class Amount:
    """What a worker's ClusterQueue has of one resource in one flavor. `own` is what of its nominal
    quota is not used; more of what is available would be borrowed.
    """

    nominal: int
    available: int
    own: int = 0


@dataclass(frozen=True, slots=True)
class WorkerQueue:
    """A ClusterQueue of a worker cluster; flavors are in the queue's own order. `cohort` is the one
    that it is in there, '' for none.
    """

    name: str
    active: bool
    amounts: Mapping[FlavorResource, Amount]
    cohort: str = ""

    def flavors(self, resource: str) -> list[str]:
        """The flavors that offer `resource`, in order."""
        return [key.flavor for key in self.amounts if key.resource == resource]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A worker cluster as the dispatcher sees it.

    `problem` is empty when the cluster takes new work; else a sentence that says what is wrong.
    `pending` is what was offered to a ClusterQueue and is not in the report yet (negative where
    something ended that the report still counts). `cards` are its nodes with cards, None if the
    cluster does not tell of them; `flavors` those of its flavors that choose nodes. `room` is how
    many more offers it may get before it answers others (None: any number). `kinds` are those of
    jobs that its API serves beside batch/v1 Job, `followed` those whose copies its agent has read
    (None: not known). One that is `coming` has not been spoken to yet: its problem may be over in a
    moment.
    """

    name: str
    problem: str = ""
    queues: Mapping[str, WorkerQueue] = field(default_factory=dict)
    local_queues: Mapping[tuple[str, str], str] = field(default_factory=dict)
    pending: Mapping[str, Usage] = field(default_factory=dict)
    cards: ReportedFleet | None = None
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    room: int | None = None
    traits: ClusterTraits = NO_TRAITS
    plain: bool = False
    """Whether plain Kueue runs it, without an agent (`federation.core.plain_kueue`)."""
    kinds: Collection[str] | None = None
    followed: Collection[str] | None = None
    coming: bool = False

    def lacks(self, item: Pending) -> str:
        """Why nobody would answer for the workload's kind there; '' as far as is known."""
        if item.kind and self.kinds is not None and item.kind not in self.kinds:
            return f"it does not serve {item.kind}: the CRD is missing there"
        if item.kind and self.followed is not None and item.kind not in self.followed:
            return f"its agent has not read {item.kind} yet: if that stays so, see the agent's log"
        return ""

    def free(self, queue: str, key: FlavorResource) -> int:
        """Amount free for a new offer."""
        amount = self.queues[queue].amounts.get(key)
        if amount is None:
            return 0
        return amount.available - self.pending.get(queue, {}).get(key, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """The cluster to offer to, and what the offer is expected to use of its ClusterQueue. `gang`
    are the pods whose cards are counted there, and `places` those expected for them.
    """

    cluster: str
    queue: str
    usage: Usage
    gang: Gang = ()
    places: Sequence[Placement] = ()
    nominees: tuple[str, ...] = ()
    """The clusters that are told to have been nominated, where they are."""


@dataclass(frozen=True, slots=True)
class NoCluster:
    """Why no cluster takes the workload, per cluster; `retry_at` when time alone may help."""

    reasons: Mapping[str, str]
    retry_at: float | None = None

    def message(self) -> str:
        """One sentence for people."""
        if not self.reasons:
            return "no worker cluster is registered: create a MultiKueueCluster"
        return "no worker cluster can take it: " + "; ".join(
            f"{name}: {reason}" for name, reason in sorted(self.reasons.items())
        )


FOR_GOOD_S = 10 * 365 * 86400.0
"""For how long a no is remembered that is meant for ever: a time, as what waits has one."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cluster's no to one workload, remembered until `until` (doubling with `count`, or for as
    long as the cluster says).
    """

    cluster: str
    reason: str
    message: str
    count: int
    until: float
    final: bool = False
    """Whether it is meant for ever."""


def choose(
    item: Pending,
    admission: Admission,
    clusters: Mapping[str, ClusterView],
    refusals: Mapping[str, Refusal],
    now: float,
    terms: Sequence[Weighted] = DEFAULT_TERMS,
) -> Choice | NoCluster:
    """The cluster with the best rank; ties by name.

    First those that the workload prefers, in its order, then those with an agent. Then, without
    cards: by the terms of the score, then that which keeps the largest share of its quota free.
    With cards: where nothing is borrowed, by the terms, then where the placement of the whole gang
    scores best (least fragmentation added); clusters that do not tell of their cards, or count none
    of the kind, come after those that do, by share. A workload whose copy runs somewhere stays
    there, and needs no room; one that is to be moved goes nowhere else.
    """
    reasons: dict[str, str] = {}
    found: list[tuple[ClusterView, Choice]] = []
    retry_at: float | None = None
    if (kept := _stay(item, clusters)) is not None:
        return kept
    if item.only and item.only not in clusters:
        reasons[item.only] = "it is to be moved there, and jobs of its queue cannot run there"
    for name in sorted(clusters):
        if item.only not in ("", name):
            reasons[name] = f"it is to be moved to {item.only}"
            continue
        if not item.only and (said := excluded(item.rules, name, clusters[name].traits.labels)):
            reasons[name] = said
            continue
        if clusters[name].plain and item.agent_only:
            reasons[name] = item.agent_only
            continue
        if not clusters[name].problem and (said := clusters[name].lacks(item)):
            reasons[name] = said
            continue
        refusal = refusals.get(name)
        if refusal is not None and refusal.until > now:
            how = "refused for good" if refusal.final else "refused"
            reasons[name] = f"{how}: {refusal.message}"
            retry_at = refusal.until if retry_at is None else min(retry_at, refusal.until)
            continue
        fit = _fit(item, admission, clusters[name])
        if isinstance(fit, str):
            reasons[name] = fit
            continue
        found.append((clusters[name], fit))
    return _best(item, found, terms) if found else NoCluster(reasons, retry_at)


def _stay(item: Pending, clusters: Mapping[str, ClusterView]) -> Choice | None:
    """Its own place, if it has one: what runs there is in the cluster's report."""
    if not item.stays or item.only not in ("", item.stays) or item.stays not in clusters:
        return None
    queue = clusters[item.stays].local_queues.get((item.namespace, item.local_queue))
    return None if queue is None else Choice(item.stays, queue, {})


_QUOTAS = standard(VENDORS)

_Rank = tuple[int, bool, bool, float, bool, float]


def _best(
    item: Pending, found: Sequence[tuple[ClusterView, Choice]], terms: Sequence[Weighted]
) -> Choice:
    if len(found) == 1:
        return found[0][1]
    totals = scores(terms, item, found)
    ranks = [_rank(item, *one, total) for one, total in zip(found, totals, strict=True)]
    return found[ranks.index(min(ranks))][1]


def _rank(item: Pending, cluster: ClusterView, choice: Choice, score: float) -> _Rank:
    """Lower is better."""
    share, wish = _share_left(cluster, choice), preference(item.rules, cluster.name)
    if all(pods.cards is None for pods in item.pod_sets):
        return wish, cluster.plain, False, score, False, -share
    borrows = _borrows(cluster, choice)
    if not choice.gang:
        return wish, cluster.plain, borrows, score, True, -share
    return wish, cluster.plain, borrows, score, False, score_of(choice.places)


def _borrows(cluster: ClusterView, choice: Choice) -> bool:
    pending = cluster.pending.get(choice.queue, {})
    amounts = cluster.queues[choice.queue].amounts
    return any(
        amount > amounts[key].own - pending.get(key, 0) for key, amount in choice.usage.items()
    )


def _fit(item: Pending, admission: Admission, cluster: ClusterView) -> Choice | str:
    if cluster.problem:
        return cluster.problem
    if cluster.room is not None and cluster.room <= 0:
        return "it has yet to answer as many offers as may be open at once"
    queue_name = cluster.local_queues.get((item.namespace, item.local_queue))
    if queue_name is None:
        return f"no LocalQueue {item.namespace}/{item.local_queue} there"
    queue = cluster.queues.get(queue_name)
    if queue is None or not queue.active:
        return (
            f"ClusterQueue {queue_name} is not active there: stopped, or a flavor or check missing"
            " or inactive"
        )
    barred: set[str] = set()
    said = ""
    while True:
        found = _within_quota(item, admission, cluster, queue, barred)
        if isinstance(found, str):
            return said or found
        choice, asking = found
        if not asking or cluster.cards is None:
            return choice
        gang = gang_of(asking, cluster.flavors)
        places = cluster.cards.place(gang)
        if not isinstance(places, NoPlace):
            return replace(choice, gang=gang, places=tuple(places))
        said = said or no_cards(places, gang, cluster.cards)
        names = asking[_number(gang, places.pod)][2]
        tried = _of_cards(names, queue) - barred
        if not tried:
            return said
        barred |= tried  # the agent goes on to its next flavor as well


def _number(gang: Gang, pod: int) -> int:
    """Of the entry that a pod of the gang belongs to."""
    for number, (_, count) in enumerate(gang):
        if pod < count:
            return number
        pod -= count
    return len(gang) - 1


def _of_cards(flavors: set[str], queue: WorkerQueue) -> set[str]:
    """Those that it has for its cards; all, where cards are in no quota."""
    found = {
        name
        for resource in {key.resource for key in queue.amounts}
        if _QUOTAS.counts(resource)
        for name in flavors & {*queue.flavors(resource)}
    }
    return found or flavors


_Asking = list[tuple[PodSet, int, set[str]]]


def _within_quota(
    item: Pending,
    admission: Admission,
    cluster: ClusterView,
    queue: WorkerQueue,
    barred: Collection[str],
) -> tuple[Choice, _Asking] | str:
    """What it would use of the queue, and its pods whose cards are counted, with their flavors.
    Those get none of the `barred` flavors.
    """
    used: Usage = {}
    asking: _Asking = []
    for pods, assigned in zip(item.pod_sets, admission.pod_sets, strict=True):
        counted = cluster.cards is not None and asks_for_cards(pods, cluster.cards)
        names: set[str] = set()
        for resource, amount in _asked(pods, assigned, queue).items():
            if amount == 0:
                continue
            flavors = _flavors(resource, assigned.flavors, queue)
            if counted:
                flavors = [name for name in flavors if name not in barred]
            key = _flavor_for(resource, amount, flavors, cluster, queue, used)
            if isinstance(key, str):
                return key
            used[key] = used.get(key, 0) + amount
            names.add(key.flavor)
        if counted and assigned.count:
            asking.append((pods, assigned.count, names))
    return Choice(cluster.name, queue.name, used), asking


def _asked(pods: PodSet, assigned: PodSetAssignment, queue: WorkerQueue) -> Resources:
    """What a worker's queue is asked for. Shares of cards are as they were charged here, if it
    counts them; if it does, it need not count the cards as well.
    """
    asked = scale(pods.requests, assigned.count)
    if pods.cards is None:
        return asked
    shares = {
        name: amount
        for name, amount in assigned.usage.items()
        if name not in (*asked, "pods") and queue.flavors(name)
    }
    counts = {name for name in asked if shares and _is_cards(name) and not queue.flavors(name)}
    return {**{name: amount for name, amount in asked.items() if name not in counts}, **shares}


def _is_cards(resource: str) -> bool:
    found = VENDORS.of_resource(resource)
    return found is not None and found[1] in (Quantity.CARDS, Quantity.INSTANCES)


def _flavors(resource: str, budget: Mapping[str, str], queue: WorkerQueue) -> list[str]:
    """Those to try in order: only the budget's own one if the worker has that name."""
    flavors = queue.flavors(resource)
    return [budget[resource]] if budget.get(resource) in flavors else flavors


def _flavor_for(
    resource: str,
    amount: int,
    flavors: Sequence[str],
    cluster: ClusterView,
    queue: WorkerQueue,
    used: Usage,
) -> FlavorResource | str:
    """The first flavor with room."""
    if not flavors:
        return f"ClusterQueue {queue.name} there has no quota for {resource}"
    most = 0
    for flavor in flavors:
        key = FlavorResource(flavor, resource)
        free = cluster.free(queue.name, key) - used.get(key, 0)
        if amount <= free:
            return key
        most = max(most, free)
    return (
        f"{resource}: {format_quantity(resource, max(0, most))} free,"
        f" {format_quantity(resource, amount)} needed"
    )


def _share_left(cluster: ClusterView, choice: Choice) -> float:
    """The smallest free share over the resources used, after the offer: 1 is empty, 0 full."""
    shares = []
    for key, amount in choice.usage.items():
        nominal = cluster.queues[choice.queue].amounts[key].nominal
        left = cluster.free(choice.queue, key) - amount
        shares.append(left / nominal if nominal > 0 else 0.0)
    return min(shares, default=1.0)
