"""What a Node object says that has to do with its cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from federation.core.devices.asking.amounts import whole


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Quantities are texts as they stand; `allocatable` left empty is the same as `capacity`.
    `lost` are keys of vendors whose device plugin is gone by its handshake.
    """

    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    lost: frozenset[str] = frozenset()

    def amount(self, resource: str) -> int:
        """How much of a resource there is, usable or not. Raises QuantityError."""
        return whole(str(self.capacity.get(resource, "0")))

    def usable(self, resource: str) -> int:
        """How much of it can be given to pods. Raises QuantityError."""
        quantities = self.allocatable or self.capacity
        return whole(str(quantities.get(resource, "0")))
