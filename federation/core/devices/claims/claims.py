"""Dynamic Resource Allocation (`resource.k8s.io/v1`): devices, classes and claims as values.

Names of attributes, capacities and counters are qualified: what the wire gives without a domain
belongs to the domain of the device's driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from federation.core.quantity import QuantityError

HAMI_DRIVER = "hami-core-gpu.project-hami.io"
"""The driver whose devices are cards that can be shared by memory and compute."""

IMPLICIT_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Before the name of a class: an extended resource that every class has."""


class ClaimError(QuantityError):
    """A claim cannot be counted. The text says why, and what to do."""


class Version(NamedTuple):
    """A semantic version as attributes have it; `release` False is a pre-release."""

    major: int
    minor: int
    patch: int
    release: bool = True
    tag: tuple[tuple[bool, int, str], ...] = ()


Attribute = str | bool | int | Version


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a device has of something, and which amounts of it may be asked for.

    `default` is what a request gets that asks for none (all of it if None). `values` are the
    amounts that may be had, ascending; without them a range from `minimum` in steps, each None
    where there is no such rule.
    """

    value: Fraction
    default: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    minimum: Fraction | None = None
    maximum: Fraction | None = None
    step: Fraction | None = None


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """What keeps claims off a device. Effect None only tells of something."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Device:
    """One device that a driver publishes. `node` is empty if it is on no single node; `shared`
    says whether several claims may have it at once; `counters` is what it takes of the counters
    that it shares with others, the largest of each name.
    """

    driver: str
    pool: str
    name: str
    node: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    shared: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    counters: Mapping[str, Fraction] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str]:
        """Names it in a cluster."""
        return self.driver, self.pool, self.name


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A class of devices: all its CEL `selectors` hold. `created` orders classes of one name."""

    name: str
    selectors: tuple[str, ...] = ()
    extended_resource: str = ""
    created: str = ""


class Mode(StrEnum):
    """How many devices a request asks for."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """`count` devices of a class for which all `selectors` hold, each with so much of its
    capacities (names as they were written). `mode` is the wire's word, whatever it is.
    """

    device_class: str
    count: int = 1
    selectors: tuple[str, ...] = ()
    capacity: tuple[tuple[str, Fraction], ...] = ()
    mode: str = Mode.EXACT_COUNT
    admin_access: bool = False

    def asked(self, name: str, driver: str) -> Fraction | None:
        """What is asked of a qualified capacity of a driver's devices."""
        found = (amount for key, amount in self.capacity if qualified(key, driver) == name)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The first of these that can be had (`firstAvailable`)."""

    requests: tuple[DeviceRequest, ...]


@dataclass(frozen=True, slots=True)
class ClaimSpec:
    """What one claim asks for: all of its requests, by name."""

    requests: tuple[tuple[str, DeviceRequest | Alternatives], ...] = ()


class SourceKind(StrEnum):
    """What of a device quota is asked for."""

    CAPACITY = "capacity"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Source:
    """Count the capacity or counter `name` of a driver's devices for which `selector` holds (all
    if it is empty).
    """

    kind: SourceKind
    name: str
    driver: str
    selector: str = ""

    @property
    def dimension(self) -> tuple[SourceKind, str]:
        """What it counts."""
        return self.kind, qualified(self.name, self.driver)


@dataclass(frozen=True, slots=True)
class DeviceClassMapping:
    """Devices of these classes ask for quota of `resource`: by number, or by what `sources` say."""

    resource: str
    classes: tuple[str, ...]
    sources: tuple[Source, ...] = ()


class ClaimPolicy(StrEnum):
    """What becomes of pods with claims."""

    COUNT = "count"
    REFUSE = "refuse"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class DeviceRules:
    """How claims ask for quota. `alternatives` says whether firstAvailable may be used."""

    mappings: tuple[DeviceClassMapping, ...] = ()
    policy: ClaimPolicy = ClaimPolicy.COUNT
    alternatives: bool = False

    def of_class(self, name: str) -> tuple[DeviceClassMapping, ...]:
        """The mappings of a class; several if they count different things."""
        return tuple(mapping for mapping in self.mappings if name in mapping.classes)


def qualified(name: str, driver: str) -> str:
    """A name with its domain."""
    return name if "/" in name else f"{driver}/{name}"
