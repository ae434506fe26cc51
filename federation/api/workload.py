"""Workload: one job in the queue, and the record of truth of where it is (Kueue API, v1beta2)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from federation.api.fields import (
    Count,
    FreeForm,
    Int32,
    Label63,
    Positive,
    atomic,
    list_map,
    rules,
)
from federation.api.meta import KubeObject, WireModel
from federation.api.names import DEFAULT_POD_SET, KUEUE_API
from federation.api.workload_status import WorkloadStatus

Topology63 = Annotated[str, Field(min_length=1, max_length=63)]
IndexLabel = Annotated[str, Field(min_length=1, max_length=317)]


class SliceConstraint(WireModel):
    """Slices of `size` pods stay within one domain of `topology`."""

    topology: Topology63
    size: Positive


class TopologyRequest(WireModel):
    """How close the pods must be."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "[has(self.required), has(self.preferred), has(self.unconstrained) && "
                "self.unconstrained].filter(x, x).size() <= 1",
                "at most one of required, preferred and unconstrained may be set",
            )
        )
    )

    required: Topology63 | None = None
    preferred: Topology63 | None = None
    unconstrained: bool | None = None
    pod_index_label: IndexLabel | None = None
    sub_group_index_label: IndexLabel | None = None
    sub_group_count: Count | None = None
    pod_set_group_name: Annotated[str, Field(max_length=256)] | None = None
    pod_set_slice_required_topology: Topology63 | None = None
    pod_set_slice_size: Positive | None = None
    podset_slice_required_topology_constraints: Annotated[
        list[SliceConstraint], Field(max_length=3, json_schema_extra=atomic())
    ] = Field(default_factory=list)


class PodSet(WireModel):
    """Pods that are alike."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.minCount) || self.minCount <= self.count",
                "minCount must be at most count",
            )
        )
    )

    name: Label63 = DEFAULT_POD_SET
    template: FreeForm
    """A core/v1 PodTemplateSpec."""
    count: Count = 1
    min_count: Positive | None = None
    """Fewest pods that are still useful (partial admission)."""
    topology_request: TopologyRequest | None = None


class PriorityClassRef(WireModel):
    """The class that gave the priority."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(self.group == 'kueue.x-k8s.io' && self.kind == 'WorkloadPriorityClass') || "
                "(self.group == 'scheduling.k8s.io' && self.kind == 'PriorityClass')",
                "priorityClassRef must be a kueue.x-k8s.io WorkloadPriorityClass or a "
                "scheduling.k8s.io PriorityClass",
            )
        )
    )

    group: Literal["kueue.x-k8s.io", "scheduling.k8s.io"]
    kind: Literal["WorkloadPriorityClass", "PriorityClass"]
    name: Annotated[str, Field(min_length=1, max_length=253)]


class PreemptionGate(WireModel):
    """While closed, the workload must not preempt."""

    name: Annotated[str, Field(min_length=1, max_length=316)]


class WorkloadSpec(WireModel):
    """What is to run."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.priorityClassRef) || has(self.priority)",
                "priority is required when priorityClassRef is set",
            )
        )
    )

    pod_sets: Annotated[
        list[PodSet],
        Field(
            min_length=1,
            max_length=18,
            json_schema_extra=list_map("name")
            | rules(
                (
                    "self.filter(p, has(p.minCount)).size() <= 1",
                    "at most one podSet may have minCount",
                )
            ),
        ),
    ]
    queue_name: Annotated[str, Field(max_length=253)] | None = None
    priority_class_ref: PriorityClassRef | None = None
    priority: Int32 | None = None
    active: bool = True
    """False evicts and keeps the workload out of the queue."""
    maximum_execution_time_seconds: Positive | None = None
    preemption_gates: Annotated[
        list[PreemptionGate], Field(max_length=8, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)

    priority_class_name: Annotated[str, Field(max_length=253)] | None = None
    """v1beta1's spelling of priorityClassRef.name; rewritten on create and update."""
    priority_class_source: (
        Literal["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""]
        | None
    ) = None
    """v1beta1's spelling of priorityClassRef.group and kind; rewritten on create and update."""


def _condition(node: str, type: str) -> str:
    """CEL: whether the Workload `node` has a true condition of that type."""
    return (
        f"has({node}.status) && has({node}.status.conditions) && "
        f"{node}.status.conditions.exists(c, c.type == '{type}' && c.status == 'True')"
    )


def _frozen(field: str, type: str) -> tuple[str, str]:
    """CEL: a spec field may not change while the condition holds before and after."""
    return (
        f"!({_condition('oldSelf', type)} && {_condition('self', type)}) || "
        f"(has(self.spec.{field}) == has(oldSelf.spec.{field}) && (!has(self.spec.{field}) || "
        f"self.spec.{field} == oldSelf.spec.{field}))",
        f"{field} is immutable while {type} is True",
    )


class Workload(KubeObject):
    """A job in the queue."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"!({_condition('self', 'QuotaReserved')}) || has(self.status.admission)",
                "QuotaReserved needs status.admission",
            ),
            (
                "!has(self.status) || !has(self.status.admission) || "
                "!has(self.status.admission.podSetAssignments) || "
                "size(self.status.admission.podSetAssignments) == size(self.spec.podSets)",
                "status.admission must have one podSetAssignment per podSet",
            ),
            _frozen("queueName", "QuotaReserved"),
            _frozen("maximumExecutionTimeSeconds", "Admitted"),
            (
                f"!({_condition('oldSelf', 'QuotaReserved')} && "
                f"{_condition('self', 'QuotaReserved')}) || "
                "(has(self.spec.priorityClassRef) == has(oldSelf.spec.priorityClassRef) && "
                "(!has(self.spec.priorityClassRef) || "
                "(self.spec.priorityClassRef.kind == oldSelf.spec.priorityClassRef.kind && "
                "(self.spec.priorityClassRef.kind == 'WorkloadPriorityClass' || "
                "self.spec.priorityClassRef.name == oldSelf.spec.priorityClassRef.name))))",
                "priorityClassRef is immutable while QuotaReserved is True, except for the name "
                "of a WorkloadPriorityClass",
            ),
        )
    )

    api_version: str = KUEUE_API
    kind: Literal["Workload"] = "Workload"
    spec: WorkloadSpec
    status: WorkloadStatus = Field(default_factory=WorkloadStatus)
