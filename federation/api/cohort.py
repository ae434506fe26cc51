"""Cohort: a tree of queues that lend each other quota (Kueue API, v1beta2)."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from federation.api.fields import Name, atomic, rules
from federation.api.meta import KubeObject, WireModel
from federation.api.names import KUEUE_API
from federation.api.quota import FairSharing, FairSharingStatus, SharedResourceGroup


class CohortSpec(WireModel):
    """Place in the tree and quota shared by the subtree. Unknown fields are kept here."""

    model_config = ConfigDict(
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
        | rules(
            *(
                (
                    "has(self.parentName) || !has(self.resourceGroups) || "
                    "self.resourceGroups.all(g, !has(g.flavors) || g.flavors.all(f, "
                    f"f.resources.all(r, !has(r.{limit}))))",
                    f"{limit} is allowed only when parentName is set",
                )
                for limit in ("borrowingLimit", "lendingLimit")
            )
        )
    )

    parent_name: Name | None = None
    """The cohort above; a cycle makes every queue in it inactive."""
    resource_groups: Annotated[
        list[SharedResourceGroup], Field(max_length=16, json_schema_extra=atomic())
    ] = Field(default_factory=list)
    """Quota of the subtree, on top of what its queues have."""
    fair_sharing: FairSharing | None = None


class CohortStatus(WireModel):
    """Use of the subtree."""

    fair_sharing: FairSharingStatus | None = None


class Cohort(KubeObject):
    """A group of queues. One that is only mentioned by name exists with zero quota."""

    api_version: str = KUEUE_API
    kind: Literal["Cohort"] = "Cohort"
    spec: CohortSpec = Field(default_factory=CohortSpec)
    status: CohortStatus = Field(default_factory=CohortStatus)
