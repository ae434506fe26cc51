"""§7 and the partial admission of §2.4: one scheduling cycle over the heads of the queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from federation.core.policies import PreemptionPolicy
from federation.core.types import Admission, FlavorResource, LabelSelector, Pending
from tests.reference.candidates import Attempt, Target
from tests.reference.fair import Share, share
from tests.reference.flavors import Assigner, Assignment, Tried
from tests.reference.preemption import find_targets
from tests.reference.quota import Node
from tests.reference.state import State


@dataclass(frozen=True)
class Head:
    """A workload at the front of its queue, and the LastAssignment it may resume."""

    item: Pending
    resume: Tried


@dataclass(frozen=True)
class Decision:
    """What the cycle says about a head.

    `kind` is "fit", "preempt" or "wait". `reason` is that of QuotaReserved=False, `requeue` is the
    requeue reason of §3. `level` is the borrowing level, `last` the LastAssignment to keep (None:
    cleared). `victims` are reasons by UID.
    """

    item: Pending
    kind: str
    reason: str = ""
    requeue: str = ""
    level: int = 0
    admission: Admission | None = None
    victims: Mapping[str, str] = field(default_factory=dict)
    last: Tried | None = None


@dataclass
class Entry:
    """A nominated head."""

    head: Head
    assignment: Assignment
    targets: list[Target]
    last: Tried | None
    deferred: bool = False

    @property
    def item(self) -> Pending:
        """The workload."""
        return self.head.item

    @property
    def queue(self) -> Node:
        """Its ClusterQueue."""
        return Node("queue", self.item.cluster_queue)

    def wait(self, reason: str, requeue: str, last: Tried | None) -> Decision:
        """The decision that it goes on waiting."""
        return Decision(
            self.item, "wait", reason, requeue, level=self.assignment.borrowing, last=last
        )


def run(state: State, heads: list[Head]) -> list[Decision]:
    """§7.1: nominate all heads, then process them in order."""
    decisions: list[Decision] = []
    entries: list[Entry] = []
    for head in heads:
        refused = inadmissible(state, head.item)
        if refused is not None:
            decisions.append(refused)
        else:
            entries.append(nominate(state, head))
    cycle = Cycle(state)
    order = cycle.fair_order if state.rules.fair_sharing else cycle.classical_order
    return decisions + [cycle.process(entry) for entry in order(entries)]


def inadmissible(state: State, item: Pending) -> Decision | None:
    """§2.4, the checks at nomination."""
    selector = state.queues[item.cluster_queue].namespace_selector
    if not selects(selector, state.namespaces.get(item.namespace, {})):
        return Decision(item, "wait", "Misconfigured", "NamespaceMismatch")
    if item.problem:
        return Decision(item, "wait", "Misconfigured", "Generic")
    return None


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Label selectors of namespaces; only `match_labels` is modelled."""
    return selector is not None and all(labels.get(k) == v for k, v in selector.match_labels)


# --- nomination ---


def nominate(state: State, head: Head) -> Entry:
    """§7.2: flavors and victims, from the pristine state."""
    assignment, targets = assign(state, head.item, head.resume, None)
    return Entry(head, assignment, targets, assignment.tried)


def assign(
    state: State,
    item: Pending,
    resume: Tried,
    pinned: Mapping[tuple[int, str], str] | None,
) -> tuple[Assignment, list[Target]]:
    """The full workload if it fits or can preempt; else as many pods as do; else as it was."""
    full_counts = [pods.count for pods in item.pod_sets]
    full = Assigner(state, item, full_counts, resume, pinned).run()
    targets = victims_for(state, item, full)
    if full.mode == "Fit" or targets or not state.rules.partial_admission:
        return full, targets
    return fewer_pods(state, item, resume, pinned) or (full, targets)


def fewer_pods(
    state: State,
    item: Pending,
    resume: Tried,
    pinned: Mapping[tuple[int, str], str] | None,
) -> tuple[Assignment, list[Target]] | None:
    """§2.4: binary search for the smallest reduction, as Go's sort.Search does it."""
    full = [pods.count for pods in item.pod_sets]
    least = [pods.count if pods.min_count is None else pods.min_count for pods in item.pod_sets]
    total = sum(full) - sum(least)
    if total <= 0:
        return None
    found: tuple[int, Assignment, list[Target]] | None = None
    low, high = 0, total + 1
    while low < high:
        step = (low + high) // 2
        counts = [
            most - (most - few) * step // total for most, few in zip(full, least, strict=True)
        ]
        assignment = Assigner(state, item, counts, resume, pinned).run()
        targets = victims_for(state, item, assignment)
        if assignment.mode == "Fit" or targets:
            found = (step, assignment, targets)
            high = step
        else:
            low = step + 1
    if found is not None and found[0] == low:
        return found[1], found[2]
    return None


def victims_for(state: State, item: Pending, assignment: Assignment) -> list[Target]:
    """§6, for an assignment that needs preemption."""
    if assignment.mode != "Preempt":
        return []
    return find_targets(state, Attempt(item, assignment.needed, assignment.usage))


# --- processing ---


class Cycle:
    """§7.3 to §7.6. `state` gains what is admitted or reserved; victims stay counted in it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.victims: set[str] = set()

    def classical_order(self, entries: list[Entry]) -> Iterator[Entry]:
        """§7.3."""
        yield from sorted(
            entries,
            key=lambda e: (e.assignment.borrowing, -e.item.priority, e.item.created, e.item.uid),
        )

    def fair_order(self, entries: list[Entry]) -> Iterator[Entry]:
        """§7.4: a tournament before each pop, with shares as they are by then."""
        left = list(entries)
        while left:
            root = self.state.tree.root(left[0].queue)
            winner = self._champion(root, left)
            assert winner is not None
            left.remove(winner)
            yield winner

    def _champion(self, node: Node, entries: list[Entry]) -> Entry | None:
        """The best entry at or below a node."""
        if node.kind == "queue":
            return next((entry for entry in entries if entry.queue == node), None)
        best: tuple[tuple[bool, Share, int, float, str], Entry] | None = None
        for child in self.state.tree.children(node):
            entry = self._champion(child, entries)
            if entry is None:
                continue
            key = self._standing(child, entry)
            if best is None or key < best[0]:
                best = (key, entry)
        return best[1] if best else None

    def _standing(self, node: Node, entry: Entry) -> tuple[bool, Share, int, float, str]:
        """Full ties are undefined upstream; here the UID decides."""
        usage = entry.assignment.usage
        tree = self.state.adding(entry.queue.name, usage).tree
        borrows = not tree.within_nominal(node, usage)
        return borrows, share(tree, node), -entry.item.priority, entry.item.created, entry.item.uid

    def process(self, entry: Entry) -> Decision:
        """§7.5."""
        if self._overlaps(entry):
            self._assign_again(entry)
        mode = entry.assignment.mode
        if mode == "NoFit":
            return entry.wait(entry.assignment.reason, "NoFit", entry.last)
        if mode == "Preempt" and not entry.targets:
            self._reserve(entry)
            return entry.wait("WaitingForQuota", "PreemptionNoCandidates", entry.last)
        if mode == "Preempt" and entry.item.preemption_gated:
            return entry.wait("WaitingForQuota", "PreemptionGated", None)
        if entry.deferred:
            self._add(entry, entry.assignment.usage)
            return entry.wait("WaitingForPreemptedWorkloads", "PendingPreemption", None)
        if self._overlaps(entry) or not self._fits(entry):
            return entry.wait("WaitingForQuota", "FailedAfterNomination", entry.last)
        self.victims |= {target.holder.uid for target in entry.targets}
        self._add(entry, entry.assignment.usage)
        return self._issue(entry) if mode == "Preempt" else self._admit(entry)

    def _issue(self, entry: Entry) -> Decision:
        return Decision(
            entry.item,
            "preempt",
            "WaitingForPreemptedWorkloads",
            "PendingPreemption",
            level=entry.assignment.borrowing,
            victims={target.holder.uid: target.reason for target in entry.targets},
        )

    def _admit(self, entry: Entry) -> Decision:
        return Decision(
            entry.item,
            "fit",
            level=entry.assignment.borrowing,
            admission=entry.assignment.admission(entry.queue.name),
        )

    def _overlaps(self, entry: Entry) -> bool:
        return any(target.holder.uid in self.victims for target in entry.targets)

    def _assign_again(self, entry: Entry) -> None:
        """With the victims of earlier entries gone, and the flavors of the nomination.

        LastAssignment is cleared before, and set as by any nomination.
        """
        pinned = {
            (index, resource): choice.flavor
            for index, pods in enumerate(entry.assignment.pod_sets)
            for resource, choice in pods.choices.items()
        }
        state = self.state.without(self.victims)
        entry.assignment, entry.targets = assign(state, entry.item, {}, pinned)
        entry.last = entry.assignment.tried
        entry.deferred = entry.assignment.mode == "Fit"

    def _fits(self, entry: Entry) -> bool:
        gone = self.victims | {target.holder.uid for target in entry.targets}
        return self.state.without(gone).tree.fits(entry.queue, entry.assignment.usage)

    def _add(self, entry: Entry, amounts: Mapping[FlavorResource, int]) -> None:
        self.state = self.state.adding(entry.queue.name, amounts)

    def _reserve(self, entry: Entry) -> None:
        """§7.6: keep room for a preemptor without candidates, unless it may reclaim it anyway."""
        tree, queue = self.state.tree, entry.queue
        if self.state.queues[queue.name].preemption.reclaim is PreemptionPolicy.ANY:
            return
        amounts: dict[FlavorResource, int] = {}
        for fr, value in entry.assignment.usage.items():
            nominal, used = tree.nominal(queue, fr), tree.usage(queue, fr)
            limit = tree.borrowing_limit(queue, fr)
            if entry.assignment.borrowing > 0:
                room = value if limit is None else nominal + limit - used
                amounts[fr] = min(value, room)
            else:
                amounts[fr] = max(0, min(value, nominal - used))
        self._add(entry, amounts)
