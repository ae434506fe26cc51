"""What queues and the configuration may set of the rules of admission. Names are Kueue's."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


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

    @property
    def fair_sharing(self) -> bool:
        """Whether shares decide instead of borrowing levels."""
        return bool(self.fair_strategies)
