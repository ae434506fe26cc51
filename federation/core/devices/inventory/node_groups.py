"""Groups of nodes whose cards a device plugin cuts into equal slices: 4 of 20 GB, 2 of 40, ...

The file is no Kubernetes object: a list `nodeGroups`, each with a name, a nodeSelector, and what
one card is cut to under the names of requests: how many slices, the memory and the compute of one.
Without a number of slices as many are cut as fit; without memory either, cards are shared as they
are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from federation.core.devices.asking.amounts import memory_mib, whole
from federation.core.devices.wire.undecodable import UndecodableError, clean, listed, shown, words
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Quantity, Vendors

MOST_SLICES = 256


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with all labels of `selector`. `slices` 0 is as many as fit, `memory_mib` 0 an even
    part of the card, both 0 no cutting at all. `cores` is what one slice may use of its card.
    """

    name: str
    selector: Mapping[str, str]
    vendor: str = "NVIDIA"
    slices: int = 0
    memory_mib: int = 0
    cores: int = 100

    @property
    def cuts(self) -> bool:
        """Whether cards are cut."""
        return bool(self.slices or self.memory_mib)

    def size_of(self, card_mib: int) -> int:
        """MiB of one slice of a card."""
        return self.memory_mib or card_mib // self.slices

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is in it."""
        return all(labels.get(key) == value for key, value in self.selector.items())


def group_of(groups: Iterable[NodeGroup], labels: Mapping[str, str]) -> NodeGroup | None:
    """The group of a node: of several that match, the one that asks for the most labels. Raises
    UndecodableError if two ask for equally many.
    """
    matching = [group for group in groups if group.matches(labels)]
    if not matching:
        return None
    most = max(len(group.selector) for group in matching)
    found = [group for group in matching if len(group.selector) == most]
    if len(found) > 1:
        names = " and ".join(sorted(group.name for group in found)[:2])
        raise UndecodableError(f"the node is in the node groups {names} alike: make one stricter")
    return found[0]


def decode(document: Mapping[str, Any], vendors: Vendors = VENDORS) -> tuple[NodeGroup, ...]:
    """The groups of a file that was parsed. Raises UndecodableError with the name of the group."""
    groups: list[NodeGroup] = []
    for number, item in enumerate(listed(document.get("nodeGroups"), "nodeGroups")):
        name = words(item, "name")
        if not name:
            raise UndecodableError(f"node group {number} has no name")
        if any(name == group.name for group in groups):
            raise UndecodableError(f"two node groups have the name {shown(name)}")
        try:
            groups.append(_group(name, item, vendors))
        except ValueError as error:
            raise UndecodableError(f"node group {shown(name)}: {error}") from None
    return tuple(groups)


def _group(name: str, item: Mapping[str, Any], vendors: Vendors) -> NodeGroup:
    selector = item.get("nodeSelector") or {}
    if not isinstance(selector, dict):
        raise UndecodableError(f"nodeSelector is {shown(selector)}, not an object")
    given: dict[Quantity, int] = {}
    keys = set()
    for key, value in item.items():
        found = vendors.of_resource(key) if isinstance(key, str) else None
        if found is None:
            if "/" in str(key):
                raise UndecodableError(f"{shown(key)} is a resource of no card")
            continue
        vendor, quantity = found
        keys.add(vendor.key)
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        amount = (
            memory_mib(text, vendor.mib_per_unit) if quantity is Quantity.MEMORY else whole(text)
        )
        if given.setdefault(quantity, amount) != amount:
            raise UndecodableError(f"{key} says something else than another name for the same")
    if len(keys) > 1:
        raise UndecodableError(f"it names cards of {' and '.join(sorted(keys))}: make two groups")
    return _checked(name, selector, next(iter(keys), "NVIDIA"), given)


def _checked(
    name: str, selector: Mapping[Any, Any], vendor: str, given: Mapping[Quantity, int]
) -> NodeGroup:
    for key, value in selector.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise UndecodableError(f"nodeSelector {shown(key)}: {shown(value)} is no pair of texts")
    if {Quantity.PERCENT, Quantity.INSTANCES} & given.keys():
        raise UndecodableError("give the memory of a slice in MiB, not as a percentage or profile")
    slices, memory = given.get(Quantity.CARDS, 0), given.get(Quantity.MEMORY, 0)
    if slices > MOST_SLICES:
        raise UndecodableError(f"{slices} slices of a card are more than {MOST_SLICES}")
    cores = given.get(Quantity.CORES, 100)
    if not 1 <= cores <= 100:
        raise UndecodableError(f"{cores} % of compute is not within 1 and 100")
    selects = {clean(key, "nodeSelector"): value for key, value in selector.items()}
    return NodeGroup(name, selects, vendor, slices, memory, cores)
