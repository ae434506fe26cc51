"""Topology: how nodes nest, from block to host (Kueue API, v1beta2)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from federation.api.fields import QUALIFIED_NAME_PATTERN, atomic, rules
from federation.api.meta import KubeObject, WireModel
from federation.api.names import KUEUE_API

_HOST = "'kubernetes.io/hostname'"


def _lowest_is_host(levels: str) -> str:
    return f"{levels}[size({levels}) - 1].nodeLabel == {_HOST}"


class TopologyLevel(WireModel):
    """One level, by the node label that names its domains."""

    node_label: Annotated[str, Field(min_length=1, max_length=316, pattern=QUALIFIED_NAME_PATTERN)]


class TopologySpec(WireModel):
    """Levels from the widest to the narrowest."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.levels.all(l, self.levels.exists_one(m, m.nodeLabel == l.nodeLabel))",
                "levels must be unique by nodeLabel",
            ),
            (
                f"!self.levels.exists(l, l.nodeLabel == {_HOST}) || "
                f"{_lowest_is_host('self.levels')}",
                "kubernetes.io/hostname is allowed only as the lowest level",
            ),
            (
                f"self.levels == oldSelf.levels || ({_lowest_is_host('self.levels')} && "
                f"{_lowest_is_host('oldSelf.levels')})",
                "levels are immutable unless kubernetes.io/hostname is the lowest before and after",
            ),
        )
    )

    levels: Annotated[
        list[TopologyLevel], Field(min_length=1, max_length=16, json_schema_extra=atomic())
    ]


class Topology(KubeObject):
    """A hierarchy of node labels."""

    api_version: str = KUEUE_API
    kind: Literal["Topology"] = "Topology"
    spec: TopologySpec
