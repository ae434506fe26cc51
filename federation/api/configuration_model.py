"""The fields of a Configuration (Kueue's `config.kueue.x-k8s.io`, v1beta1 and v1beta2).

Defaults that the version decides are left out here; `federation.api.configuration` adds them.
Parts that only Kueue's own process needs (webhook, certificates, leader election, …) are accepted
and have no effect.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from federation.api.configuration_devices import DeviceClassMappings
from federation.api.configuration_multikueue import MultiKueue
from federation.api.duration import Duration, parse_duration
from federation.api.fields import Count, LabelKey, ResourceName
from federation.api.meta import ObjectMeta, WireModel
from federation.api.selector import LabelSelector
from federation.core.policies import FairStrategy, UndeclaredResources
from federation.core.quantity import exact_quantity

Section = dict[str, Any]
"""A part that is accepted as it is and has no effect here."""

STRATEGIES: Final = (
    (FairStrategy.FINAL_SHARE,),
    (FairStrategy.INITIAL_SHARE,),
    (FairStrategy.FINAL_SHARE, FairStrategy.INITIAL_SHARE),
)
"""The lists of fair preemption strategies that are allowed; the last is the default."""

FRAMEWORKS: Final = (
    "batch.volcano.sh/job",
    "batch/job",
    "deployment",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/jaxjob",
    "kubeflow.org/mpijob",
    "kubeflow.org/mxjob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "pod",
    "ray.io/raycluster",
    "ray.io/rayjob",
    "ray.io/rayservice",
    "sparkoperator.k8s.io/sparkapplication",
    "statefulset",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
)
"""Names of integrations: those of Kueue's format, and of two kinds that it does not have."""


class RequeuingStrategy(WireModel):
    """When a workload whose pods were not ready in time comes back."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    """Eviction: behind its equals; Creation: where it was."""
    backoff_base_seconds: Count = 60
    backoff_max_seconds: Count = 3600
    backoff_limit_count: Count | None = None
    """Evictions before it is deactivated; absent is no limit."""


class WaitForPodsReady(WireModel):
    """Evict admitted workloads whose pods are not all ready in time."""

    enable: bool | None = None
    """v1beta1's switch; since then the section alone turns it on."""
    timeout: Duration | None = None
    """From admission to ready pods; default 30m (5m in v1beta1); 0s is the default too."""
    block_admission: bool | None = None
    """Admit one workload after the pods of all others are ready. Default false (v1beta1: true)."""
    requeuing_strategy: RequeuingStrategy = Field(default_factory=RequeuingStrategy)
    recovery_timeout: Duration | None = None
    """From the loss of readiness to its return; default as `timeout`; 0s waits for ever."""
    max_timeout_on_workload: Duration | None = None
    """Kueue's cap of a timeout set on a Workload; no effect here."""


class Integrations(WireModel):
    """Kinds of jobs that are queued."""

    frameworks: list[str] | None = None
    """Those that are switched on; absent: all (Kueue: batch/job alone)."""
    external_frameworks: list[str] = Field(default_factory=list)
    """Further ones, as Kind.version.group."""
    label_keys_to_copy: list[LabelKey] = Field(default_factory=list)
    pod_options: Section | None = None
    """v1beta1 only, without effect since."""


def _allowed(strategies: list[FairStrategy]) -> list[FairStrategy]:
    if strategies and tuple(strategies) not in STRATEGIES:
        lists = " or ".join(f"[{', '.join(allowed)}]" for allowed in STRATEGIES)
        raise ValueError(f"it must be {lists}")
    return strategies


class FairSharing(WireModel):
    """Share the cohort by dominant resource share instead of by borrowing level."""

    enable: bool | None = None
    """v1beta1's switch; since then the section alone turns it on."""
    preemption_strategies: Annotated[list[FairStrategy], AfterValidator(_allowed)] = Field(
        default_factory=list
    )
    """Empty means both."""


def _positive(duration: str) -> str:
    if parse_duration(duration) == 0:
        raise ValueError("it must be longer than 0s")
    return duration


class AdmissionFairSharing(WireModel):
    """Let LocalQueues take turns by what they used lately."""

    usage_half_life_time: Duration = "0s"
    usage_sampling_interval: Annotated[Duration, AfterValidator(_positive)] = "5m"
    resource_weights: dict[ResourceName, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = (
        Field(default_factory=dict)
    )
    """Weights of resources; those not named weigh 1."""


def _quantity(value: str | int | float) -> str | int | float:
    exact_quantity(str(value))
    return value


Amount = Annotated[int | float | str, AfterValidator(_quantity)]
"""A quantity that may be negative (an output of a transformation)."""


class Transformation(WireModel):
    """What one unit of a resource means in quota."""

    input: ResourceName
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: ResourceName | None = None
    outputs: dict[ResourceName, Amount] = Field(default_factory=dict)


def _one_per_input(items: list[Transformation]) -> list[Transformation]:
    seen: set[str] = set()
    for item in items:
        if item.input in seen:
            raise ValueError(f"input {item.input} has two transformations; one is allowed")
        seen.add(item.input)
    return items


class Resources(WireModel):
    """How requests of pods become requests for quota."""

    exclude_resource_prefixes: list[str] = Field(default_factory=list)
    transformations: Annotated[list[Transformation], AfterValidator(_one_per_input)] = Field(
        default_factory=list
    )
    quota_check_strategy: UndeclaredResources = UndeclaredResources.BLOCK
    device_class_mappings: DeviceClassMappings = Field(default_factory=list)


class WorkloadRetention(WireModel):
    """How long Workloads are kept after their end; absent keeps them for ever."""

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(WireModel):
    """What is deleted when it is old."""

    workloads: WorkloadRetention = Field(default_factory=WorkloadRetention)


class Configuration(WireModel):
    """The whole file."""

    api_version: str
    kind: Literal["Configuration"] = "Configuration"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    """Not in Kueue's format; accepted, without effect."""
    namespace: str | None = None
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector | None = None
    """Default: all namespaces but kube-system and the manager's own."""
    wait_for_pods_ready: WaitForPodsReady | None = None
    integrations: Integrations = Field(default_factory=Integrations)
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    resources: Resources = Field(default_factory=Resources)
    object_retention_policies: ObjectRetentionPolicies = Field(
        default_factory=ObjectRetentionPolicies
    )
    multi_kueue: MultiKueue = Field(default_factory=MultiKueue)
    feature_gates: dict[str, bool] = Field(default_factory=dict)
    device_config: Section | None = None
    """Not in Kueue's format: the device configuration of HAMi's scheduler (`device-config.yaml`),
    with the names and defaults of requests for cards.
    """

    webhook: Section | None = None
    leader_election: Section | None = None
    metrics: Section | None = None
    health: Section | None = None
    pprof_bind_address: str | None = None
    controller: Section | None = None
    tls: Section | None = None
    internal_cert_management: Section | None = None
    client_connection: Section | None = None
    visibility_server: Section | None = None
    queue_visibility: Section | None = None
    """v1beta1 only, without effect since."""

    @property
    def is_v1beta1(self) -> bool:
        """Whether the old version's defaults hold."""
        return self.api_version.endswith("/v1beta1")
