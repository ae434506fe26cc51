"""Jobs and pods as far as queueing looks into them; of their other fields only the names.

Source: Kubernetes' core/v1 and batch/v1 (1.36). A name that is missing here is a warning at most.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictStr, model_validator

from federation.api.fields import Count
from federation.api.meta import WireModel
from federation.core.quantity import QuantityError, exact_quantity

Json = dict[str, Any]


def names(text: str) -> frozenset[str]:
    """Field names, separated by spaces."""
    return frozenset(text.split())


class Lenient(WireModel):
    """A part of an object: what is null is as if it were left out."""

    others: ClassVar[frozenset[str]] = frozenset()
    """Known fields that are not looked at."""

    @model_validator(mode="before")
    @classmethod
    def _nulls_are_absent(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value is not None}
        return data


def _amount(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a quantity")
    if not isinstance(value, str | int | float):
        return value  # told by the type
    try:
        amount = exact_quantity(str(value))
    except QuantityError as error:
        raise ValueError(str(error)) from None
    if amount < 0:
        raise ValueError(f"{value!r} is negative")
    return value


Amount = Annotated[int | float | StrictStr, BeforeValidator(_amount)]
Amounts = dict[str, Amount]


def _whole(value: Any) -> Any:
    if isinstance(value, str | bool):
        raise ValueError(f"{value!r} is not a number; write it without quotes")
    return value


Number = Annotated[Count, BeforeValidator(_whole)]


class ResourceNeeds(Lenient):
    """core/v1 ResourceRequirements."""

    others = names("claims")
    requests: Amounts = Field(default_factory=dict)
    limits: Amounts = Field(default_factory=dict)


class EnvVar(Lenient):
    """core/v1 EnvVar."""

    others = names("valueFrom")
    name: StrictStr
    value: StrictStr = ""


class Container(Lenient):
    """core/v1 Container."""

    others = names(
        "envFrom imagePullPolicy lifecycle livenessProbe ports readinessProbe resizePolicy"
        " restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath"
        " terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
    )
    name: StrictStr
    image: StrictStr = ""
    command: list[StrictStr] = Field(default_factory=list)
    args: list[StrictStr] = Field(default_factory=list)
    env: list[EnvVar] = Field(default_factory=list)
    restart_policy: StrictStr = ""
    resources: ResourceNeeds = Field(default_factory=ResourceNeeds)


class PodToleration(Lenient):
    """core/v1 Toleration."""

    others = names("tolerationSeconds")
    key: StrictStr = ""
    operator: Literal["Equal", "Exists", "Lt", "Gt"] = "Equal"
    value: StrictStr = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""


class Expression(Lenient):
    """core/v1 NodeSelectorRequirement."""

    key: StrictStr
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[StrictStr] = Field(default_factory=list)


class SelectorTerm(Lenient):
    """core/v1 NodeSelectorTerm."""

    others = names("matchFields")
    match_expressions: list[Expression] = Field(default_factory=list)


class NodeSelector(Lenient):
    """core/v1 NodeSelector."""

    node_selector_terms: list[SelectorTerm]


class NodeAffinity(Lenient):
    """core/v1 NodeAffinity."""

    others = names("preferredDuringSchedulingIgnoredDuringExecution")
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Lenient):
    """core/v1 Affinity."""

    others = names("podAffinity podAntiAffinity")
    node_affinity: NodeAffinity | None = None


class PodSpec(Lenient):
    """core/v1 PodSpec."""

    others = names(
        "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks"
        " ephemeralContainers evictionResponders hostAliases hostIPC hostNetwork hostPID hostUsers"
        " hostname hostnameOverride imagePullSecrets nodeName os preemptionPolicy priority"
        " readinessGates resourceClaims schedulerName schedulingGates schedulingGroup"
        " securityContext serviceAccount serviceAccountName setHostnameAsFQDN"
        " shareProcessNamespace subdomain terminationGracePeriodSeconds topologySpreadConstraints"
        " volumes"
    )
    containers: Annotated[list[Container], Field(min_length=1)]
    init_containers: list[Container] = Field(default_factory=list)
    node_selector: dict[str, StrictStr] = Field(default_factory=dict)
    tolerations: list[PodToleration] = Field(default_factory=list)
    affinity: Affinity = Field(default_factory=Affinity)
    priority_class_name: StrictStr = ""
    restart_policy: Literal["Always", "OnFailure", "Never"] | None = None
    resources: ResourceNeeds = Field(default_factory=ResourceNeeds)
    overhead: Amounts = Field(default_factory=dict)
    runtime_class_name: StrictStr = ""


class TemplateMeta(Lenient):
    """Metadata of a pod template."""

    others = names(
        "name generateName namespace creationTimestamp finalizers ownerReferences managedFields"
    )
    labels: dict[str, StrictStr] = Field(default_factory=dict)
    annotations: dict[str, StrictStr] = Field(default_factory=dict)


class PodTemplate(Lenient):
    """core/v1 PodTemplateSpec."""

    metadata: TemplateMeta = Field(default_factory=TemplateMeta)
    spec: PodSpec


class JobSpec(Lenient):
    """batch/v1 JobSpec."""

    others = names(
        "backoffLimitPerIndex completionMode manualSelector maxFailedIndexes podFailurePolicy"
        " podReplacementPolicy scheduling selector successPolicy"
    )
    template: PodTemplate
    parallelism: Number = 1
    completions: Number | None = None
    backoff_limit: Number | None = None
    active_deadline_seconds: Number | None = None
    ttl_seconds_after_finished: Number | None = None
    suspend: StrictBool = False
    managed_by: StrictStr = ""


class NodeTaint(Lenient):
    """core/v1 Taint."""

    others = names("timeAdded")
    key: StrictStr
    value: StrictStr = ""
    effect: StrictStr = "NoSchedule"


class NodeSpec(Lenient):
    """core/v1 NodeSpec, of which only the taints matter."""

    taints: list[NodeTaint] = Field(default_factory=list)


class NodeStatus(Lenient):
    """core/v1 NodeStatus, of which only the room matters."""

    allocatable: Amounts = Field(default_factory=dict)


class NodeFields(Lenient):
    """core/v1 Node."""

    spec: NodeSpec = Field(default_factory=NodeSpec)
    status: NodeStatus = Field(default_factory=NodeStatus)
