"""`resources.deviceClassMappings` of a Configuration: which quota devices of a class ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from federation.api.fields import Name, ResourceName
from federation.api.meta import WireModel
from federation.core.devices.claims.cel import CelSyntaxError, selector
from federation.core.devices.claims.claims import (
    ClaimPolicy,
    DeviceClassMapping,
    DeviceRules,
    Source,
    SourceKind,
)

MOST_MAPPINGS: Final = 16


def _expression(text: str) -> str:
    try:
        selector(text)
    except CelSyntaxError as error:
        raise ValueError(f"it is not a CEL expression that is understood: {error}") from None
    return text


class CelSelector(WireModel):
    """A CEL expression over `device`."""

    expression: Annotated[str, AfterValidator(_expression)]


class DeviceSelector(WireModel):
    """Chooses devices."""

    cel: CelSelector


Driver = Annotated[Name, Field(max_length=63)]


class CounterSource(WireModel):
    """A counter that partitions of devices consume (`consumesCounters`)."""

    name: ResourceName
    driver: Driver
    device_selector: DeviceSelector | None = None
    """Kueue demands one; absent is every device of the driver."""


class CapacitySource(WireModel):
    """A capacity that requests share (`capacity.requests`)."""

    name: ResourceName
    driver: Driver
    device_selector: DeviceSelector | None = None


class SourceModel(WireModel):
    """One of the two."""

    counter: CounterSource | None = None
    capacity: CapacitySource | None = None

    @model_validator(mode="after")
    def _one(self) -> SourceModel:
        if (self.counter is None) is (self.capacity is None):
            raise ValueError("exactly one source type must be set per entry: counter or capacity")
        return self

    def read(self) -> Source:
        """As the core has it."""
        kind = SourceKind.COUNTER if self.counter else SourceKind.CAPACITY
        found = self.counter or self.capacity
        assert found is not None
        chosen = found.device_selector.cel.expression if found.device_selector else ""
        return Source(kind, found.name, found.driver, chosen)


class MappingModel(WireModel):
    """Devices of these classes ask for quota of the resource `name`."""

    name: ResourceName
    device_class_names: Annotated[list[ResourceName], Field(min_length=1, max_length=8)]
    sources: list[SourceModel] = Field(default_factory=list)
    """Absent counts devices."""

    @model_validator(mode="after")
    def _of_one_kind(self) -> MappingModel:
        if len(set(self.device_class_names)) < len(self.device_class_names):
            raise ValueError("a device class is named twice under deviceClassNames")
        sources = [source.read() for source in self.sources]
        if len({source.kind for source in sources}) > 1:
            raise ValueError("cannot mix counter and capacity sources in the same mapping")
        if len(set(sources)) < len(sources):
            raise ValueError("a source is named twice")
        return self

    def read(self) -> DeviceClassMapping:
        """As the core has it."""
        sources = tuple(source.read() for source in self.sources)
        return DeviceClassMapping(self.name, tuple(self.device_class_names), sources)


def _distinct(items: list[MappingModel]) -> list[MappingModel]:
    """Kueue lets a class have several mappings if all are of counters with different names; here
    they may be of anything that differs.
    """
    names: set[str] = set()
    counted: dict[tuple[str, object], str] = {}
    for item in items:
        if item.name in names:
            raise ValueError(f"resource {item.name} has two mappings; one is allowed")
        names.add(item.name)
        what: set[object] = {source.read().dimension for source in item.sources} or {"devices"}
        for key in ((name, each) for name in item.device_class_names for each in what):
            if key in counted:
                raise ValueError(
                    f"device class {key[0]} already mapped to resource {counted[key]}: two mappings"
                    " of one class have to count different capacities or counters"
                )
            counted[key] = item.name
    return items


DeviceClassMappings = Annotated[
    list[MappingModel], Field(max_length=MOST_MAPPINGS), AfterValidator(_distinct)
]


def device_rules(mappings: list[MappingModel], gates: Mapping[str, bool]) -> DeviceRules:
    """What the core is told. Counters and capacities need no feature gate here."""
    policy = ClaimPolicy.COUNT
    if not gates.get("KueueDRAIntegration", gates.get("DynamicResourceAllocation", True)):
        refuses = gates.get("KueueDRARejectWorkloadsWhenDRADisabled", True)
        policy = ClaimPolicy.REFUSE if refuses else ClaimPolicy.IGNORE
    alternatives = gates.get("KueueDRAIntegrationPrioritizedList", False)
    return DeviceRules(tuple(mapping.read() for mapping in mappings), policy, alternatives)
