"""The queueing objects as the core sees them: frozen, hashable where they are keys, no wire detail.

Names are Kueue's. Amounts are integers as in `quantity`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from federation.core.devices.cards import Card
from federation.core.devices.wants import PodWants
from federation.core.fair_usage import UsageState
from federation.core.placement_rules import NO_RULES, PlacementRules
from federation.core.policies import (
    AdmissionCheck,
    FlavorFungibility,
    Preemption,
    QueueingStrategy,
    StopPolicy,
)
from federation.core.wishes import NO_WISHES, Wishes


class FlavorResource(NamedTuple):
    """What quota is counted in: a resource of a flavor."""

    flavor: str
    resource: str


Usage = dict[FlavorResource, int]
"""Amounts per flavor and resource."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of one resource in one flavor; `None` limits mean unlimited."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class FlavorQuotas:
    """The quotas of one flavor, per resource."""

    flavor: str
    resources: Mapping[str, Quota]


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that are assigned a flavor together, and the flavors in order of preference."""

    covered: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A Kubernetes label selector; `None` in its place matches nothing, an empty one all."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """A quota pool with its queueing rules."""

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    strategy: QueueingStrategy = QueueingStrategy.BEST_EFFORT_FIFO
    stop: StopPolicy = StopPolicy.NONE
    namespace_selector: LabelSelector | None = None
    checks: tuple[AdmissionCheck, ...] = ()
    preemption: Preemption = field(default_factory=Preemption)
    fungibility: FlavorFungibility = field(default_factory=FlavorFungibility)
    fair_weight: float = 1.0
    usage_based: bool = False
    """admissionScope UsageBasedAdmissionFairSharing: LocalQueues take turns by what they used."""
    preemptible: bool | None = None
    """Whether its workloads may be preempted, if they and their LocalQueue say nothing."""
    wishes: Wishes = NO_WISHES
    """What happens to its workloads when their cluster is lost, likewise."""
    terminating: bool = False
    """It is being deleted, and admits nothing more."""

    @property
    def flavor_names(self) -> tuple[str, ...]:
        """All its flavors, each once, in order."""
        return tuple(dict.fromkeys(f.flavor for group in self.groups for f in group.flavors))

    @property
    def check_names(self) -> tuple[str, ...]:
        """All its admission checks, whatever flavors they are for."""
        return tuple(check.name for check in self.checks)


@dataclass(frozen=True, slots=True)
class Cohort:
    """A group that lends quota to each other; may have quota and a parent of its own."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    fair_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """The name in a namespace under which people submit to a ClusterQueue."""

    namespace: str
    name: str
    cluster_queue: str
    stop: StopPolicy = StopPolicy.NONE
    fair_weight: float = 1.0
    preemptible: bool | None = None
    wishes: Wishes = NO_WISHES
    local: bool = False
    """On the management cluster: whether its jobs run there."""
    used: UsageState | None = field(default=None, compare=False)
    """What its status says it used, for who knows nothing better; no part of what it is."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; an empty key with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Kubernetes' own matching rule (core/v1 Toleration)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """A kind of node: its labels, its taints, and tolerations given to what is admitted to it."""

    name: str
    node_labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    """Name of the Topology its nodes are arranged in; '' without topology-aware scheduling."""
    cards: tuple[Card, ...] = ()
    """Of each vendor that its nodes have cards of, one that is like the smallest."""


Term = tuple[tuple[str, str, tuple[str, ...]], ...]
"""One node selector term: (key, operator, values), all of which must hold."""


class TopologyMode(StrEnum):
    """How strictly a pod set is to be kept together."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    UNCONSTRAINED = "unconstrained"


@dataclass(frozen=True, slots=True)
class TopologyRequest:
    """Where a pod set asks to be placed: all pods in one domain of `level` (a node label).

    `slices` are (level, size) pairs, outermost first: groups of `size` pods that each stay within
    one domain of that level. `group` names pod sets that are placed together.
    """

    mode: TopologyMode
    level: str = ""
    slices: tuple[tuple[str, int], ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True)
class TopologyAssignment:
    """Pods per lowest domain. `levels` are node label keys; each domain gives their values."""

    levels: tuple[str, ...]
    domains: tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template: how many, what each requests, and where they may go.

    `min_count` allows partial admission down to that many; None does not. `cards` is what each pod
    asks of the cards of its node; None if nothing.
    """

    name: str
    count: int
    requests: Mapping[str, int]
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    min_count: int | None = None
    topology: TopologyRequest | None = None
    cards: PodWants | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """What a waiting workload is more of: the job that runs already, by its UID, where it runs
    (on a worker ''), and the flavors that it has, by pod set and resource.
    """

    job: str
    cluster: str = ""
    flavors: Mapping[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pending:
    """A workload as the queue and the cycle need it.

    `uid` is that of the job people made. `created` orders equals (then `uid` does), in seconds
    since the epoch: when the job was created, or evicted if that sends it to the back (Kueue's
    queue timestamp). `generation` grows with every change that matters to the queue, so that a
    claim made on an older reading is refused. `not_before` is when its backoff ends. `problem`
    says why its pods cannot be admitted anywhere ('' if nothing is known against them). `only` is
    the cluster that it is to run on by order, `stays` one where a copy of it runs that may go on
    ('' without). `rules` say where it may run, `nominees` are the clusters nominated for it. `kind`
    is that of the job, Kind.version.group; '' for a batch/v1 Job, which every cluster serves.
    `agent_only` says why it runs only where an agent is, and not on plain Kueue ('' if it may).
    """

    uid: str
    namespace: str
    name: str
    local_queue: str
    cluster_queue: str
    priority: int
    created: float
    pod_sets: tuple[PodSet, ...]
    generation: int = 0
    not_before: float = 0.0
    preemption_gated: bool = False
    preemptible: bool = True
    problem: str = ""
    only: str = ""
    stays: str = ""
    rules: PlacementRules = NO_RULES
    nominees: tuple[str, ...] = ()
    agent_only: str = ""
    kind: str = ""
    growth: Growth | None = None
    """Set if these are pods beside those that run: it has a UID of its own then."""

    @property
    def job(self) -> str:
        """UID of the job that it belongs to."""
        return self.growth.job if self.growth is not None else self.uid


@dataclass(frozen=True, slots=True)
class PodSetAssignment:
    """The flavors chosen for one pod set, and the totals charged."""

    name: str
    count: int
    flavors: Mapping[str, str]
    usage: Mapping[str, int]
    topology: TopologyAssignment | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """A reservation in a ClusterQueue, as Workload.status.admission records it."""

    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...] = ()

    def usage(self) -> Usage:
        """Amounts charged, per flavor and resource."""
        total: Usage = {}
        for pod_set in self.pod_sets:
            for resource, flavor in pod_set.flavors.items():
                key = FlavorResource(flavor, resource)
                total[key] = total.get(key, 0) + pod_set.usage.get(resource, 0)
        return total


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds quota: what preemption chooses its victims from.

    `created` is the queue timestamp, `reserved` when quota was reserved (whole seconds; None
    while that is not written yet). `evicted` ones are being stopped and still hold their quota.
    `admitted` is whether it is known to have been admitted, and not only to hold quota.
    """

    uid: str
    namespace: str
    name: str
    local_queue: str
    priority: int
    created: float
    admission: Admission
    usage: Mapping[FlavorResource, int]
    reserved: float | None = None
    evicted: bool = False
    preemptible: bool = True
    pods_ready: bool = True
    admitted: bool = True
    rank: tuple[bool, int, float, str] = field(init=False, repr=False, compare=False)
    """Order among victims: evicted first, lowest priority, latest reservation, UID."""

    def __post_init__(self) -> None:
        reserved = -self.reserved if self.reserved is not None else -math.inf
        object.__setattr__(self, "rank", (not self.evicted, self.priority, reserved, self.uid))

    @property
    def cluster_queue(self) -> str:
        """Name of the ClusterQueue whose quota it holds."""
        return self.admission.cluster_queue
