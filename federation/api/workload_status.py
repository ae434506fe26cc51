"""The status of a Workload: admission, checks, requeueing, and Fedq's own record of the bind."""

from typing import Annotated

from pydantic import ConfigDict, Field

from federation.api.fields import (
    Count,
    FreeForm,
    Quantity,
    Time,
    atomic,
    list_map,
    rules,
    value_set,
)
from federation.api.meta import Conditions, WireModel
from federation.api.resource_flavor import Tolerations
from federation.core.checks import CheckState


def same(field: str) -> str:
    """CEL: the field is as it was; absent is not the same as empty."""
    return (
        f"has(self.{field}) == has(oldSelf.{field}) && "
        f"(!has(self.{field}) || self.{field} == oldSelf.{field})"
    )


CheckName = Annotated[str, Field(min_length=1, max_length=316)]
Cluster = Annotated[str, Field(min_length=1, max_length=256)]
Message = Annotated[str, Field(max_length=32768)]


class TopologyAssignment(WireModel):
    """Domains that the pods go to, in the compressed form of v1beta2."""

    levels: Annotated[list[str], Field(max_length=16, json_schema_extra=atomic())] = Field(
        default_factory=list
    )
    slices: Annotated[list[FreeForm], Field(max_length=1000, json_schema_extra=atomic())] = Field(
        default_factory=list
    )
    """Each {domainCount, valuesPerLevel[], podCounts}, with values equal or per domain."""


class PodSetAssignment(WireModel):
    """Flavors and amounts of one pod set."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (same("flavors"), "flavors of an admission is immutable; clear the admission first")
        )
    )

    name: Annotated[str, Field(max_length=63)]
    flavors: Annotated[dict[str, Annotated[str, Field(max_length=253)]], Field(max_length=64)] = (
        Field(default_factory=dict)
    )
    """Resource name to flavor name."""
    resource_usage: Annotated[dict[str, Quantity], Field(max_length=64)] = Field(
        default_factory=dict
    )
    """Of all `count` pods together."""
    count: Count | None = None
    """Pods admitted; fewer than in the spec after partial admission."""
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: str | None = None


class Admission(WireModel):
    """The quota that the workload holds."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.clusterQueue == oldSelf.clusterQueue",
                "admission may be set or cleared, but not moved to another ClusterQueue",
            ),
            (
                "has(self.podSetAssignments) == has(oldSelf.podSetAssignments) && "
                "(!has(self.podSetAssignments) || "
                "(size(self.podSetAssignments) == size(oldSelf.podSetAssignments) && "
                "self.podSetAssignments.all(p, "
                "oldSelf.podSetAssignments.exists(q, q.name == p.name))))",
                "podSetAssignments of an admission are immutable; clear the admission first",
            ),
        )
    )

    cluster_queue: Annotated[str, Field(max_length=253)]
    pod_set_assignments: Annotated[
        list[PodSetAssignment], Field(max_length=18, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)


class RequeueState(WireModel):
    """Back-off after evictions."""

    count: Count | None = None
    requeue_at: Time | None = None


class ReclaimablePod(WireModel):
    """Pods of a set whose quota is not needed any more."""

    name: Annotated[str, Field(max_length=63)]
    count: Count


class PodSetUpdate(WireModel):
    """What a check adds to the pods of a set."""

    name: Annotated[str, Field(max_length=63)]
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: Tolerations = Field(default_factory=list)


class AdmissionCheckState(WireModel):
    """What one check says."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"self.state != 'Ready' || oldSelf.state != 'Ready' || ({same('podSetUpdates')})",
                "podSetUpdates are immutable while the check stays Ready",
            )
        )
    )

    name: CheckName
    state: CheckState
    message: Message = ""
    last_transition_time: Time | None = None
    requeue_after_seconds: Count | None = None
    retry_count: Count | None = None
    pod_set_updates: Annotated[
        list[PodSetUpdate], Field(max_length=18, json_schema_extra=atomic())
    ] = Field(default_factory=list)


class EvictionCount(WireModel):
    """How often the workload was evicted for one reason."""

    reason: str
    underlying_cause: str = ""
    count: Count


class SchedulingStats(WireModel):
    """Counters over the life of the workload."""

    evictions: Annotated[list[EvictionCount], Field(max_length=256, json_schema_extra=atomic())] = (
        Field(default_factory=list)
    )


class HeldBy(WireModel):
    """A workload that holds some of what is short."""

    namespace: Annotated[str, Field(max_length=63)]
    name: Annotated[str, Field(max_length=253)]
    cluster_queue: Annotated[str, Field(max_length=253)]
    amount: Quantity


class Shortage(WireModel):
    """One quota that lacks room for the workload."""

    pod_set: Annotated[str, Field(max_length=63)]
    flavor: Annotated[str, Field(max_length=253)]
    resource: Annotated[str, Field(max_length=317)]
    needed: Quantity
    """By this pod set and those before it."""
    free: Quantity
    """What it could have now, with all that can be borrowed."""
    borrowable: Quantity
    """The part of `free` that the cohort would lend."""
    nominal: Quantity
    """The ClusterQueue's own quota."""
    most: Quantity
    """What it could have if nothing ran."""
    held_by: Annotated[list[HeldBy], Field(max_length=8, json_schema_extra=atomic())] = Field(
        default_factory=list
    )
    """The largest that hold it, those of the same ClusterQueue first."""


class Waiting(WireModel):
    """Why the workload has no quota: what the condition QuotaReserved says, for programs."""

    reason: Annotated[str, Field(max_length=1024)]
    requeue: Annotated[str, Field(max_length=64)] = ""
    """What became of it in its queue (Kueue's word, or NoCluster)."""
    shortages: Annotated[list[Shortage], Field(max_length=16, json_schema_extra=atomic())] = Field(
        default_factory=list
    )
    hint: Message = ""
    """What would change it."""


class FedqStatus(WireModel):
    """Where the workload is bound. `attempt` is the fencing number: +1 per offer."""

    cluster: Annotated[str, Field(max_length=256)] = ""
    attempt: int = 0
    epoch: int = 0
    """Epoch of the cluster's Lease at the bind."""
    policy: Annotated[str, Field(max_length=32)] = ""
    """What happens when the cluster is lost; fixed at the bind (`fedq.io/on-disconnect`)."""
    rerun_after: Count | None = None
    """Seconds for which the cluster has to be silent at least before the workload runs elsewhere;
    fixed at the bind (`fedq.io/rerun-after`)."""
    held_before: Count | None = None
    """Seconds for which its copy stood still before it was admitted, as the lease had ended."""
    bound_at: Time | None = None
    nominated_at: Time | None = None
    """When clusters were nominated last: the round of the incremental dispatcher began."""
    message: Message = ""
    pods: Annotated[str, Field(max_length=1024)] = ""
    """What is wrong with the pods of the attempt, for people; '' for nothing."""
    waiting: Waiting | None = None


class WorkloadStatus(WireModel):
    """How far the workload is."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!(has(self.clusterName) && has(self.nominatedClusterNames) && "
                "size(self.nominatedClusterNames) > 0)",
                "clusterName and nominatedClusterNames are mutually exclusive",
            ),
            (
                "!has(oldSelf.clusterName) || !has(self.clusterName) || "
                "self.clusterName == oldSelf.clusterName",
                "clusterName is immutable once set",
            ),
        )
    )

    conditions: Conditions = Field(default_factory=list)
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: Annotated[
        list[ReclaimablePod], Field(max_length=18, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)
    admission_checks: Annotated[
        list[AdmissionCheckState], Field(max_length=8, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)
    resource_requests: Annotated[
        list[FreeForm], Field(max_length=18, json_schema_extra=atomic())
    ] = Field(default_factory=list)
    accumulated_past_execution_time_seconds: Count | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: Annotated[list[Cluster], Field(json_schema_extra=value_set())] = Field(
        default_factory=list
    )
    cluster_name: Cluster | None = None
    unhealthy_nodes: Annotated[list[FreeForm], Field(max_length=8, json_schema_extra=atomic())] = (
        Field(default_factory=list)
    )
    preemption_gates: Annotated[list[FreeForm], Field(max_length=8, json_schema_extra=atomic())] = (
        Field(default_factory=list)
    )
    fedq: FedqStatus | None = None
