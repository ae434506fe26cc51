"""What queues and the configuration may set of the rules of admission. Names are Kueue's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from federation.core.devices.claims.claims import DeviceRules
from federation.core.devices.quota.quota import CardQuotas, standard
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.core.dispatchers import Dispatching

_CARDS = standard(VENDORS)


class StopPolicy(StrEnum):
    """Hold keeps what runs and admits nothing new; HoldAndDrain evicts as well."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class QueueingStrategy(StrEnum):
    """What a head that does not fit does to those behind it: blocks (STRICT) or steps aside."""

    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class PreemptionPolicy(StrEnum):
    """Whom a workload may evict. LOWER_OR_NEWER is for its own queue, ANY for the cohort."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
    ANY = "Any"


class Fungibility(StrEnum):
    """Whether the search for a flavor ends at one that needs borrowing, or preemption."""

    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class FlavorPreference(StrEnum):
    """Which of two flavors is better when one needs borrowing and the other preemption."""

    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


class FairStrategy(StrEnum):
    """The test that a victim has to pass under fair sharing."""

    FINAL_SHARE = "LessThanOrEqualToFinalShare"
    INITIAL_SHARE = "LessThanInitialShare"


class UndeclaredResources(StrEnum):
    """What a request for a resource without quota does: blocks the workload, or is ignored."""

    BLOCK = "BlockUndeclared"
    IGNORE = "IgnoreUndeclared"


@dataclass(frozen=True, slots=True)
class Preemption:
    """A ClusterQueue's preemption rules.

    `while_borrowing` (borrowWithinCohort) lets it evict in the cohort although it will borrow:
    victims of lower priority, at or below `threshold` if that is set.
    """

    within_queue: PreemptionPolicy = PreemptionPolicy.NEVER
    reclaim: PreemptionPolicy = PreemptionPolicy.NEVER
    while_borrowing: bool = False
    threshold: int | None = None


@dataclass(frozen=True, slots=True)
class FlavorFungibility:
    """How a ClusterQueue searches its flavors."""

    when_can_borrow: Fungibility = Fungibility.MAY_STOP_SEARCH
    when_can_preempt: Fungibility = Fungibility.TRY_NEXT_FLAVOR
    preference: FlavorPreference = FlavorPreference.BORROWING_OVER_PREEMPTION


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """A check of a ClusterQueue; it applies to `flavors`, to all when empty."""

    name: str
    flavors: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Rules:
    """The part of the configuration that changes decisions.

    `fair_strategies` is empty without fair sharing, else the strategies in order.
    """

    fair_strategies: tuple[FairStrategy, ...] = ()
    undeclared: UndeclaredResources = UndeclaredResources.BLOCK
    partial_admission: bool = True
    block_admission: bool = False
    """waitForPodsReady.blockAdmission: admit one after the pods of all others are ready."""
    cards: CardQuotas = _CARDS
    """What counts the shares of cards that pods hold."""

    @property
    def fair_sharing(self) -> bool:
        """Whether shares decide instead of borrowing levels."""
        return bool(self.fair_strategies)


class RequeueTimestamp(StrEnum):
    """By which time a workload evicted for unready pods queues again: as new, or as old."""

    EVICTION = "Eviction"
    CREATION = "Creation"


@dataclass(frozen=True, slots=True)
class PodsReady:
    """waitForPodsReady: how long admitted pods may stay unready, and what follows. Seconds."""

    timeout_s: float = 1800.0
    """From Admitted to the first PodsReady."""
    recovery_timeout_s: float | None = 1800.0
    """From the loss of readiness to its return; None waits for ever."""
    block_admission: bool = False
    timestamp: RequeueTimestamp = RequeueTimestamp.EVICTION
    backoff_base_s: int = 60
    backoff_max_s: int = 3600
    backoff_limit: int | None = None
    """Evictions for unready pods before the workload is deactivated; None is no limit."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long Workloads that ended are kept, in seconds; None keeps them for ever."""

    after_finished_s: float | None = None
    after_deactivated_s: float | None = None
    """Of those that the queue itself deactivated (Evicted, DeactivatedDueTo…)."""


class TransformationStrategy(StrEnum):
    """Whether the input of a transformation still counts beside its outputs."""

    RETAIN = "Retain"
    REPLACE = "Replace"


@dataclass(frozen=True, slots=True)
class Transformation:
    """One unit of `input` asks for `outputs`, times the amount of `multiply_by` if that is set."""

    input: str
    strategy: TransformationStrategy = TransformationStrategy.RETAIN
    multiply_by: str = ""
    """Name of a resource of the same request; empty multiplies by nothing."""
    outputs: Mapping[str, Fraction] = field(default_factory=dict)
    """Resource name to exact amount in its own unit (cpu in cores); may be negative."""


@dataclass(frozen=True, slots=True)
class ResourceRules:
    """What the requests of pods become before quota is asked for: prefixes first, then rules;
    `devices` is for claims, to which neither applies. `vendors` are the names of cards.
    """

    excluded_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()
    devices: DeviceRules = field(default_factory=DeviceRules)
    vendors: Vendors = VENDORS


@dataclass(frozen=True, slots=True)
class FairUsage:
    """Admission fair sharing: how the past use of LocalQueues ages, and what it weighs."""

    half_life_s: float = 0.0
    """Time in which past use counts half; 0 forgets it at once."""
    sampling_s: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)
    """Resource name to weight; resources that are not named weigh 1."""


@dataclass(frozen=True, slots=True)
class Policies:
    """All that the configuration says of admission."""

    rules: Rules = field(default_factory=Rules)
    resources: ResourceRules = field(default_factory=ResourceRules)
    pods_ready: PodsReady | None = None
    """None where nobody waits for pods to be ready."""
    retention: Retention = field(default_factory=Retention)
    fair_usage: FairUsage | None = None
    """None where LocalQueues are not told apart."""
    dispatching: Dispatching = field(default_factory=Dispatching)

    @property
    def timestamp(self) -> RequeueTimestamp:
        """By which time workloads evicted for unready pods queue again."""
        return self.pods_ready.timestamp if self.pods_ready else RequeueTimestamp.EVICTION
