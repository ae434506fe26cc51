"""ProvisioningRequestConfig: parameters of the provisioning check (Kueue API)."""

from typing import Annotated, Literal

from pydantic import Field

from federation.api.fields import Count, Name, Positive, ResourceName, atomic, value_set
from federation.api.meta import KubeObject, WireModel
from federation.api.names import KUEUE_API


class RetryStrategy(WireModel):
    """How often and how fast a failed request is repeated."""

    backoff_limit_count: Count = 3
    backoff_base_seconds: Positive = 60
    backoff_max_seconds: Positive = 1800


class NodeSelectorUpdate(WireModel):
    """A node label whose value is taken from a detail of the ProvisioningRequest."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    value_from_provisioning_class_detail: Annotated[str, Field(max_length=32768)]


class PodSetUpdates(WireModel):
    """What a provisioned pod set receives."""

    node_selector: Annotated[
        list[NodeSelectorUpdate], Field(max_length=8, json_schema_extra=atomic())
    ] = Field(default_factory=list)


class ProvisioningRequestConfigSpec(WireModel):
    """What to ask the autoscaler for."""

    provisioning_class_name: Name
    parameters: Annotated[
        dict[str, Annotated[str, Field(max_length=255)]], Field(max_length=100)
    ] = Field(default_factory=dict)
    managed_resources: Annotated[
        list[ResourceName], Field(max_length=100, json_schema_extra=value_set())
    ] = Field(default_factory=list)
    """Only pod sets that request one of these are provisioned; empty means all."""
    retry_strategy: RetryStrategy = Field(
        default_factory=RetryStrategy, json_schema_extra={"default": {}}
    )
    pod_set_updates: PodSetUpdates | None = None
    pod_set_merge_policy: (
        Literal["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"] | None
    ) = None


class ProvisioningRequestConfig(KubeObject):
    """Parameters of an AdmissionCheck of controller `kueue.x-k8s.io/provisioning-request`."""

    api_version: str = KUEUE_API
    kind: Literal["ProvisioningRequestConfig"] = "ProvisioningRequestConfig"
    spec: ProvisioningRequestConfigSpec
