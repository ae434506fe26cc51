"""§5: which flavors a workload gets, what each of them would need, and why none fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from federation.core.policies import (
    FlavorPreference,
    Fungibility,
    PreemptionPolicy,
    UndeclaredResources,
)
from federation.core.types import (
    Admission,
    ClusterQueue,
    FlavorResource,
    Pending,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    ResourceGroup,
    Taint,
    Toleration,
)
from tests.reference.candidates import Attempt
from tests.reference.preemption import find_targets
from tests.reference.quota import Node
from tests.reference.state import State

Tried = Mapping[tuple[int, str], int]
"""triedIdx, by index of the pod set (the first of a group) and resource."""


class Mode(IntEnum):
    """How well something fits, worst first (§5.7)."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class Severity(IntEnum):
    """Why something does not fit, least severe first (§2.1)."""

    WaitingForQuota = 0
    ExceedsMaxQuota = 1
    NoMatchingFlavor = 2


class Rating(NamedTuple):
    """A mode, and how far up one has to borrow."""

    mode: Mode
    borrow: int = 0


def is_preferred(a: Rating, b: Rating, preference: FlavorPreference) -> bool:
    """§5.7, whether `a` is better than `b`."""
    if a.mode is Mode.NO_FIT:
        return False
    if b.mode is Mode.NO_FIT:
        return True
    if (a.mode is Mode.NO_CANDIDATES) != (b.mode is Mode.NO_CANDIDATES):
        return b.mode is Mode.NO_CANDIDATES
    if preference is FlavorPreference.PREEMPTION_OVER_BORROWING:
        return (-a.borrow, a.mode) > (-b.borrow, b.mode)
    return (a.mode, -a.borrow) > (b.mode, -b.borrow)


@dataclass(frozen=True)
class Choice:
    """The flavor of one resource and its own rating (the worst of them rates the flavor)."""

    flavor: str
    rating: Rating


@dataclass
class Assigned:
    """One pod set: its count, what it requests in total, and a choice per assigned resource."""

    name: str
    count: int
    requests: Mapping[str, int]
    choices: dict[str, Choice] = field(default_factory=dict)
    arranged: bool = False
    """Whether its flavors have a topology: then all of it needs preemption if any is (§5.12)."""


@dataclass
class Assignment:
    """The outcome for a workload; of a NoFit one, the pod sets up to the failing group."""

    pod_sets: list[Assigned] = field(default_factory=list)
    tried: dict[tuple[int, str], int] = field(default_factory=dict)
    failed: bool = False
    reasons: list[Severity] = field(default_factory=list)
    """Of the group that failed: one for each resource group that was tried and had flavors that
    do not fit."""

    @property
    def choices(self) -> list[Choice]:
        """All of them."""
        return [choice for pods in self.pod_sets for choice in pods.choices.values()]

    @property
    def mode(self) -> str:
        """§5.9: "NoFit", "Preempt" or "Fit"."""
        if self.failed:
            return "NoFit"
        return "Fit" if all(c.rating.mode is Mode.FIT for c in self.choices) else "Preempt"

    @property
    def borrowing(self) -> int:
        """The highest borrowing level."""
        return max((choice.rating.borrow for choice in self.choices), default=0)

    @property
    def usage(self) -> dict[FlavorResource, int]:
        """Totals on all flavors and resources."""
        total: dict[FlavorResource, int] = {}
        for pods in self.pod_sets:
            for resource, choice in pods.choices.items():
                fr = FlavorResource(choice.flavor, resource)
                total[fr] = total.get(fr, 0) + pods.requests[resource]
        return total

    @property
    def needed(self) -> set[FlavorResource]:
        """The FRs that need preemption."""
        return {
            FlavorResource(choice.flavor, resource)
            for pods in self.pod_sets
            for resource, choice in pods.choices.items()
            if choice.rating.mode is not Mode.FIT or pods.arranged
        }

    @property
    def reason(self) -> str:
        """§2.1, of a NoFit assignment: the most severe; nothing tried is NoMatchingFlavor."""
        return max(self.reasons, default=Severity.NoMatchingFlavor).name

    def admission(self, queue: str) -> Admission:
        """As it is recorded when it is admitted."""
        return Admission(
            queue,
            tuple(
                PodSetAssignment(
                    pods.name,
                    pods.count,
                    {resource: choice.flavor for resource, choice in pods.choices.items()},
                    {resource: pods.requests[resource] for resource in pods.choices},
                )
                for pods in self.pod_sets
            ),
        )


def fnv1a(text: str) -> int:
    """64-bit FNV-1a, by which the resources are ordered (§5.3)."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


@dataclass(frozen=True)
class Assigner:
    """Assigns one workload in one state.

    `counts` are the pods of each pod set (fewer in partial admission), `resume` is LastAssignment.
    `pinned` are the flavors of an earlier nomination, by index of pod set and resource; then no
    other may be chosen (NominationMapping).
    """

    state: State
    item: Pending
    counts: Sequence[int]
    resume: Tried
    pinned: Mapping[tuple[int, str], str] | None = None

    @property
    def queue(self) -> ClusterQueue:
        """The ClusterQueue that assigns."""
        return self.state.queues[self.item.cluster_queue]

    def run(self) -> Assignment:
        """§5.1, §5.2: group after group, up to the first that fails."""
        result = Assignment()
        for group in groups(self.item.pod_sets):
            if not self._assign_group(result, group):
                result.failed = True
                break
        return result

    def _requests(self, index: int) -> dict[str, int]:
        pods, count = self.item.pod_sets[index], self.counts[index]
        totals = {resource: amount * count for resource, amount in pods.requests.items()}
        if any("pods" in rg.covered for rg in self.queue.groups):
            totals["pods"] = count
        return totals

    def _assign_group(self, result: Assignment, group: list[int]) -> bool:
        pods = [
            Assigned(self.item.pod_sets[i].name, self.counts[i], self._requests(i)) for i in group
        ]
        together: dict[str, int] = {}
        for one in pods:
            for resource, amount in one.requests.items():
                together[resource] = together.get(resource, 0) + amount
        chosen: dict[str, Choice] = {}
        tried: dict[tuple[int, str], int] = {}
        result.reasons = []
        for resource in sorted(together, key=fnv1a):
            if resource in chosen:
                continue
            rg = next((rg for rg in self.queue.groups if resource in rg.covered), None)
            if rg is None:
                if together[resource] == 0 or self._ignores_undeclared():
                    continue
                result.reasons.append(Severity.NoMatchingFlavor)
                return False
            wanted = {r: amount for r, amount in together.items() if r in rg.covered}
            scan = _Scan(self, result, group, rg, wanted).run(
                self.resume.get((group[0], resource), -1) + 1
            )
            if scan.refusals:
                result.reasons.append(min(scan.refusals))
            if scan.best is None:
                return False
            for r in wanted:
                chosen[r] = scan.best[r]
                tried[group[0], r] = scan.tried
        for one in pods:
            one.choices = {r: chosen[r] for r in one.requests if r in chosen}
            one.arranged = any(
                self.state.flavors[choice.flavor].topology for choice in one.choices.values()
            )
        result.pod_sets += pods
        result.tried |= tried
        return True

    def _ignores_undeclared(self) -> bool:
        return self.state.rules.undeclared is UndeclaredResources.IGNORE


@dataclass
class _Scan:
    """The flavor loop of one resource group (§5.3 to §5.9)."""

    assigner: Assigner
    so_far: Assignment
    group: list[int]
    rg: ResourceGroup
    wanted: Mapping[str, int]
    best: dict[str, Choice] | None = None
    tried: int = -1
    refusals: list[Severity] = field(default_factory=list)
    """Of each flavor that was looked at and does not fit, the most severe reason."""

    def run(self, start: int) -> _Scan:
        """Look at the flavors from `start` until one of them ends the search."""
        fungibility = self.assigner.queue.fungibility
        best = Rating(Mode.NO_FIT)
        for index in range(start, len(self.rg.flavors)):
            name = self.rg.flavors[index].flavor
            if self._other_was_nominated(name):
                continue
            if not self._may_run_on(name):
                self.refusals.append(Severity.NoMatchingFlavor)
                continue
            rating, choices = self._rate(name)
            if rating.mode is Mode.NO_FIT:
                continue
            if not self._try_next(rating):
                self.best = choices
                self.tried = -1 if index == len(self.rg.flavors) - 1 else index
                return self
            if is_preferred(rating, best, fungibility.preference):
                best, self.best = rating, choices
        return self

    def _other_was_nominated(self, flavor: str) -> bool:
        pinned = self.assigner.pinned
        if pinned is None:
            return False
        names = {pinned.get((index, r)) for index in self.group for r in self.wanted} - {None}
        return names != {flavor}

    def _may_run_on(self, name: str) -> bool:
        flavor = self.assigner.state.flavors.get(name)
        return flavor is not None and all(
            may_run_on(self.assigner.item.pod_sets[index], flavor) for index in self.group
        )

    def _rate(self, flavor: str) -> tuple[Rating, dict[str, Choice]]:
        """§5.7: the worst rating over the resources."""
        preference = self.assigner.queue.fungibility.preference
        worst = Rating(Mode.FIT)
        choices: dict[str, Choice] = {}
        refusals: list[Severity] = []
        earlier = self.so_far.usage
        for resource, amount in self.wanted.items():
            fr = FlavorResource(flavor, resource)
            rating = self._rate_quota(fr, earlier.get(fr, 0) + amount, refusals)
            choices[resource] = Choice(flavor, rating)
            if worst.mode is not Mode.NO_FIT and is_preferred(worst, rating, preference):
                worst = rating
        if worst.mode is Mode.NO_FIT:
            self.refusals.append(max(refusals))
        return worst, choices

    def _rate_quota(self, fr: FlavorResource, value: int, refusals: list[Severity]) -> Rating:
        """§5.6."""
        state = self.assigner.state
        tree, queue = state.tree, Node("queue", self.assigner.queue.name)
        if value > tree.potential(queue, fr):
            refusals.append(Severity.ExceedsMaxQuota)
            return Rating(Mode.NO_FIT)
        level, may_reclaim = tree.borrow_level(queue, fr, value)
        if value <= tree.free(queue, fr):
            return Rating(Mode.FIT, level)
        if (
            tree.nominal(queue, fr) >= value
            or may_reclaim
            or can_preempt_while_borrowing(state, self.assigner.queue)
        ):
            attempt = Attempt(self.assigner.item, {fr}, {fr: value})
            targets = find_targets(state, attempt)
            if not targets:
                return Rating(Mode.NO_CANDIDATES, level)
            left = state.without({target.holder.uid for target in targets})
            level, _ = left.tree.borrow_level(queue, fr, value)
            own = any(t.holder.cluster_queue == queue.name for t in targets)
            return Rating(Mode.PREEMPT if own else Mode.RECLAIM, level)
        refusals.append(Severity.WaitingForQuota)
        return Rating(Mode.NO_FIT)

    def _try_next(self, rating: Rating) -> bool:
        """§5.8, whether the search goes on behind a flavor."""
        fungibility = self.assigner.queue.fungibility
        if rating.mode in (Mode.NO_FIT, Mode.NO_CANDIDATES):
            return True
        if (
            rating.mode in (Mode.PREEMPT, Mode.RECLAIM)
            and fungibility.when_can_preempt is Fungibility.TRY_NEXT_FLAVOR
        ):
            return True
        return rating.borrow > 0 and fungibility.when_can_borrow is Fungibility.TRY_NEXT_FLAVOR


def can_preempt_while_borrowing(state: State, queue: ClusterQueue) -> bool:
    """§5.6."""
    if queue.preemption.while_borrowing:
        return True
    return state.rules.fair_sharing and queue.preemption.reclaim is not PreemptionPolicy.NEVER


def groups(pod_sets: Sequence[PodSet]) -> list[list[int]]:
    """§5.1: indices of pod sets that are assigned together, in order."""
    found: list[list[int]] = []
    by_name: dict[str, list[int]] = {}
    for index, pods in enumerate(pod_sets):
        name = pods.topology.group if pods.topology else ""
        if name and name in by_name:
            by_name[name].append(index)
            continue
        found.append([index])
        if name:
            by_name[name] = found[-1]
    return found


def may_run_on(pods: PodSet, flavor: ResourceFlavor) -> bool:
    """§5.4, §5.5: taints and node affinity."""
    tolerations = [*pods.tolerations, *flavor.tolerations]
    for taint in flavor.taints:
        if taint.effect != "PreferNoSchedule" and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return False
    labels = dict(flavor.node_labels)
    for key, value in pods.node_selector:
        if key in labels and labels[key] != value:
            return False
    kept = [[e for e in term if e[0] in labels] for term in pods.affinity]
    if not kept or any(not term for term in kept):
        return True
    return any(all(holds(labels[key], op, values) for key, op, values in term) for term in kept)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """The rule of Kubernetes."""
    same_effect = toleration.effect in ("", taint.effect)
    if toleration.operator == "Exists":
        return same_effect and toleration.key in ("", taint.key)
    return same_effect and toleration.key == taint.key and toleration.value == taint.value


def holds(label: str, operator: str, values: Sequence[str]) -> bool:
    """A node selector requirement on a label that is there."""
    tests: dict[str, Callable[[], bool]] = {
        "In": lambda: label in values,
        "NotIn": lambda: label not in values,
        "Exists": lambda: True,
        "DoesNotExist": lambda: False,
        "Gt": lambda: int(label) > int(values[0]),
        "Lt": lambda: int(label) < int(values[0]),
    }
    return tests[operator]()
