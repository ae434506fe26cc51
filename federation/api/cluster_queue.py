"""ClusterQueue: quota, order and preemption of a group of queues (Kueue API, v1beta2)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from federation.api.fields import Count, FreeForm, Int32, Name, atomic, list_map, rules, value_set
from federation.api.meta import Conditions, KubeObject, WireModel
from federation.api.names import KUEUE_API
from federation.api.quota import FairSharing, FairSharingStatus, FlavorUsages, ResourceGroup
from federation.api.selector import LabelSelector
from federation.core.policies import StopPolicy

TryFlavor = Literal["MayStopSearch", "TryNextFlavor", "Borrow", "Preempt"]
"""`Borrow` and `Preempt` are v1beta1's words for `MayStopSearch`."""


class FlavorFungibility(WireModel):
    """When to go on to the next flavor instead of borrowing or preempting in this one."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && "
                "self.whenCanPreempt == 'TryNextFlavor')",
                "preference is allowed only when whenCanBorrow and whenCanPreempt are both "
                "TryNextFlavor",
            )
        )
    )

    when_can_borrow: TryFlavor = "MayStopSearch"
    when_can_preempt: TryFlavor = "TryNextFlavor"
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None


class BorrowWithinCohort(WireModel):
    """Whether a borrower may preempt workloads of other queues of the cohort."""

    policy: Literal["Never", "LowerPriority"] = "Never"
    max_priority_threshold: Int32 | None = None
    """Only workloads of at most this priority may be preempted by a borrower."""


class Preemption(WireModel):
    """Whom a pending workload may preempt."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && "
                "self.borrowWithinCohort.policy != 'Never')",
                "borrowWithinCohort needs reclaimWithinCohort other than Never",
            )
        )
    )

    reclaim_within_cohort: Literal["Never", "LowerPriority", "Any"] = "Never"
    within_cluster_queue: Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None


class AdmissionCheckRule(WireModel):
    """A check that workloads of this queue must pass."""

    name: Annotated[str, Field(min_length=1, max_length=316)]
    on_flavors: Annotated[list[Name], Field(max_length=64, json_schema_extra=value_set())] = Field(
        default_factory=list
    )
    """Flavors that the check applies to; empty means all."""


class AdmissionChecksStrategy(WireModel):
    """The checks of a queue."""

    admission_checks: Annotated[
        list[AdmissionCheckRule],
        Field(min_length=1, max_length=64, json_schema_extra=list_map("name")),
    ] = Field(default_factory=list)


class AdmissionScope(WireModel):
    """How local queues of this queue share it over time."""

    admission_mode: Literal["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]


class ClusterQueueSpec(WireModel):
    """Quota and rules of the queue."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *(
                (
                    "has(self.cohortName) || has(self.cohort) || !has(self.resourceGroups) || "
                    "self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, "
                    f"!has(r.{limit}))))",
                    f"{limit} is allowed only when cohortName is set",
                )
                for limit in ("borrowingLimit", "lendingLimit")
            )
        )
    )

    resource_groups: Annotated[
        list[ResourceGroup], Field(max_length=16, json_schema_extra=atomic())
    ] = Field(default_factory=list)
    cohort_name: Name | None = None
    """Queues of one cohort lend each other unused quota."""
    queueing_strategy: Literal["BestEffortFIFO", "StrictFIFO"] = "BestEffortFIFO"
    """StrictFIFO: a head that does not fit blocks those behind it."""
    namespace_selector: LabelSelector | None = None
    """Namespaces whose workloads are admitted: absent matches none, `{}` matches all."""
    flavor_fungibility: FlavorFungibility = Field(
        default_factory=FlavorFungibility, json_schema_extra={"default": {}}
    )
    preemption: Preemption = Field(default_factory=Preemption, json_schema_extra={"default": {}})
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = StopPolicy.NONE
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: FreeForm | None = None
    """Alpha in Kueue; kept without effect."""

    cohort: Name | None = None
    """v1beta1's spelling of cohortName; rewritten on create and update."""
    admission_checks: Annotated[
        list[Annotated[str, Field(max_length=316)]],
        Field(max_length=64, json_schema_extra=value_set()),
    ] = Field(default_factory=list)
    """v1beta1's spelling of admissionChecksStrategy; rewritten on create and update."""


class ClusterQueueStatus(WireModel):
    """Use of the queue."""

    conditions: Conditions = Field(default_factory=list)
    flavors_reservation: FlavorUsages = Field(default_factory=list)
    """Quota reserved, per flavor and resource."""
    flavors_usage: FlavorUsages = Field(default_factory=list)
    """Quota of admitted workloads, per flavor and resource."""
    pending_workloads: Count = 0
    reserving_workloads: Count = 0
    admitted_workloads: Count = 0
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(KubeObject):
    """A pool of quota and the rules by which workloads get it."""

    api_version: str = KUEUE_API
    kind: Literal["ClusterQueue"] = "ClusterQueue"
    spec: ClusterQueueSpec = Field(default_factory=ClusterQueueSpec)
    status: ClusterQueueStatus = Field(default_factory=ClusterQueueStatus)
