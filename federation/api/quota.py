"""Quota by resource group, as ClusterQueue and Cohort write it, and the usage they report."""

from typing import Annotated

from pydantic import ConfigDict, Field

from federation.api.fields import Name, Quantity, ResourceName, atomic, list_map, rules
from federation.api.meta import WireModel


class ResourceQuota(WireModel):
    """Quota of one resource in one flavor. Limits that are left out do not limit."""

    name: ResourceName
    nominal_quota: Quantity
    """What is ours at any moment. Raw number or quantity; cpu in cores, memory in bytes."""
    borrowing_limit: Quantity | None = None
    """Most that may be taken beyond nominal from the cohort; absent means no limit."""
    lending_limit: Quantity | None = None
    """Most of nominal that others may borrow; absent means all of it."""


class FlavorQuotas(WireModel):
    """Quotas of one flavor."""

    name: Name
    resources: Annotated[
        list[ResourceQuota], Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))
    ]


class ResourceGroup(WireModel):
    """Resources that always come from the same flavor, and the flavors to try in order."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.flavors) || self.flavors.all(f, size(f.resources) == "
                "size(self.coveredResources))",
                "every flavor must have as many resources as coveredResources",
            ),
            (
                "!has(self.flavors) || self.flavors.all(f, f.resources.map(r, r.name) == "
                "self.coveredResources)",
                "resources of a flavor must match coveredResources in the same order",
            ),
        )
    )

    covered_resources: Annotated[
        list[ResourceName], Field(min_length=1, max_length=64, json_schema_extra=atomic())
    ]
    flavors: Annotated[
        list[FlavorQuotas], Field(min_length=1, max_length=64, json_schema_extra=list_map("name"))
    ]


class SharedResourceGroup(ResourceGroup):
    """A resource group of a Cohort, where flavors may be left out (it then gives no quota)."""

    flavors: Annotated[
        list[FlavorQuotas], Field(max_length=64, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)


class FairSharing(WireModel):
    """Weight in the comparison of dominant resource shares."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.weight) || "
                "quantity(string(self.weight)).compareTo(quantity('0')) == 0 || "
                "quantity(string(self.weight)).isGreaterThan(quantity('1n'))",
                "weight must be 0, or more than 1e-9",
            )
        )
    )

    weight: Quantity = 1
    """Twice the weight, twice the share; 0 means an infinite share (always last)."""


class FairSharingStatus(WireModel):
    """The share in use."""

    weighted_share: int = 0
    """Highest ratio of use above nominal to what the cohort lends, per mille, over the weight."""


class ResourceUsage(WireModel):
    """Use of one resource."""

    name: str
    total: Quantity = 0
    """All that is reserved, borrowed part included."""
    borrowed: Quantity = 0


class FlavorUsage(WireModel):
    """Use of one flavor."""

    name: str
    resources: Annotated[
        list[ResourceUsage], Field(max_length=64, json_schema_extra=list_map("name"))
    ] = Field(default_factory=list)


FlavorUsages = Annotated[
    list[FlavorUsage], Field(max_length=64, json_schema_extra=list_map("name"))
]
