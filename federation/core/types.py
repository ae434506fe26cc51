"""The queueing objects as the core sees them: frozen, hashable where they are keys, no wire detail.

Names are Kueue's. Amounts are integers as in `quantity`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class FlavorResource(NamedTuple):
    """What quota is counted in: a resource of a flavor."""

    flavor: str
    resource: str


Usage = dict[FlavorResource, int]
"""Amounts per flavor and resource."""


class StopPolicy(StrEnum):
    """Hold keeps what runs and admits nothing new; HoldAndDrain evicts as well."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class QueueingStrategy(StrEnum):
    """What a head that does not fit does to those behind it: blocks (STRICT) or steps aside."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


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
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cohort:
    """A group that lends quota to each other; may have quota and a parent of its own."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalQueue:
    """The name in a namespace under which people submit to a ClusterQueue."""

    namespace: str
    name: str
    cluster_queue: str
    stop: StopPolicy = StopPolicy.NONE


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


Term = tuple[tuple[str, str, tuple[str, ...]], ...]
"""One node selector term: (key, operator, values), all of which must hold."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template: how many, what each requests, and where they may go."""

    name: str
    count: int
    requests: Mapping[str, int]
    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Pending:
    """A workload as the queue and the cycle need it.

    `uid` is that of the job people made, `created` its creation time in seconds since the epoch:
    it orders equals, then `uid` does. `generation` grows with every change that matters to the
    queue, so that a claim made on an older reading is refused.
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


@dataclass(frozen=True, slots=True)
class PodSetAssignment:
    """The flavors chosen for one pod set, and the totals charged."""

    name: str
    count: int
    flavors: Mapping[str, str]
    usage: Mapping[str, int]


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
