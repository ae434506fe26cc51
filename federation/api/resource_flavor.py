"""ResourceFlavor: one sort of nodes, by labels, taints and tolerations (Kueue API, v1beta2)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from federation.api.fields import LabelKey, LabelMap, LabelValue, Name, atomic, rules
from federation.api.meta import KubeObject, WireModel
from federation.api.names import KUEUE_API

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Taint(WireModel):
    """A taint that nodes of this flavor carry."""

    key: LabelKey
    value: LabelValue = ""
    effect: Effect


class Toleration(WireModel):
    """A toleration that admitted pods receive (core/v1 Toleration)."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(has(self.key) && self.key != '') || (has(self.operator) && "
                "self.operator == 'Exists')",
                "operator must be Exists when key is empty, which matches every taint",
            ),
            (
                "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || "
                "self.value == ''",
                "a value must not be set when operator is Exists",
            ),
            (
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                "effect must be NoExecute when tolerationSeconds is set",
            ),
        )
    )

    key: Annotated[str, Field(max_length=317)] | None = None
    operator: Literal["Equal", "Exists"] | None = None
    value: LabelValue | None = None
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


Tolerations = Annotated[list[Toleration], Field(max_length=8, json_schema_extra=atomic())]


class ResourceFlavorSpec(WireModel):
    """Which nodes belong to the flavor and what pods need to run there."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) > 0)",
                "at least one nodeLabel is required when topologyName is set",
            ),
            (
                "!has(oldSelf.topologyName) || (has(self.topologyName) && "
                "self.topologyName == oldSelf.topologyName)",
                "topologyName is immutable once set",
            ),
        )
    )

    node_labels: Annotated[
        LabelMap, Field(json_schema_extra={"x-kubernetes-map-type": "atomic"})
    ] = Field(default_factory=dict)
    """Labels of the nodes; written into the nodeSelector of admitted pods."""
    node_taints: Annotated[
        list[Taint],
        Field(
            max_length=8,
            json_schema_extra=atomic()
            | rules(
                (
                    "self.all(t, self.exists_one(u, u.key == t.key && u.effect == t.effect))",
                    "nodeTaints must be unique by key and effect",
                )
            ),
        ),
    ] = Field(default_factory=list)
    """Taints of the nodes; a workload that does not tolerate them does not get the flavor."""
    tolerations: Tolerations = Field(default_factory=list)
    """Tolerations that admitted pods receive."""
    topology_name: Name | None = None
    """Name of a Topology: turns on placement by topology for this flavor."""


class ResourceFlavor(KubeObject):
    """A sort of nodes that quota can be given for."""

    api_version: str = KUEUE_API
    kind: Literal["ResourceFlavor"] = "ResourceFlavor"
    spec: ResourceFlavorSpec = Field(default_factory=ResourceFlavorSpec)
