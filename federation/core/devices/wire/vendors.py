"""Vendors of cards: the names and rules in which they differ, as one table.

The rules are those of HAMi (its spec, section 1.5); code that treats vendors differently asks
a field here, and never the name of a vendor. Everything is routed by equality of `key`: HAMi offers
a request every card whose model contains the word, which mixes up H20 with H200 and Ascend910B4
with Ascend910B4-1 (defects d05, d25).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Quantity(StrEnum):
    """What the amount of a resource counts."""

    CARDS = "cards"
    MEMORY = "memory"
    PERCENT = "percent"
    CORES = "cores"
    INSTANCES = "instances"
    """Of one MIG profile, see `Vendor.profile`."""


class Form(StrEnum):
    """How a node tells of its cards."""

    JSON = "json"
    """An annotation, a list of cards."""
    COLON = "colon"
    """An annotation, fields separated by commas, cards ended by colons."""
    METAX = "metax"
    """An annotation, a list in the spelling of MetaX."""
    CAPACITY = "capacity"
    """The node's capacity only: cards have made-up UUIDs."""


class Note(StrEnum):
    """What a device plugin reads on a pod besides the allocation text."""

    NONE = ""
    ASCEND = "ascend"
    """JSON of UUIDs with the name of the size, or the amounts in the soft split."""
    DSMLU = "dsmlu"
    """Cambricon's INDEX_CORES_UNITS of the first card."""
    INDICES = "indices"
    """Indices of the cards of the last container that has some."""
    METAX = "metax"
    """JSON of the cards of each container."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """One sort of card and how to ask for it.

    `key` is the word that annotations carry and cards, wants and grants are routed by. `count`,
    `memory`, `percent` and `cores` are resource names, '' where there is none; `aliases` are other
    spellings of them. A plain number of memory counts `mib_per_unit`. Without memory a container
    gets `default_memory` units of each card, or all of it if that is 0. A container that asks
    for memory or compute but no card gets `default_cards`; 0: then it asks for nothing.

    `sizes`, ascending MiB, are those that memory is cut to (HAMi's templates): rounded up to the
    next, or with `exact_sizes` refused if it is another. `nominal_mib` is the size of the card that
    users know, if the largest share has less. `card_cores` are all cores of one card.
    """

    key: str
    count: str
    memory: str = ""
    percent: str = ""
    cores: str = ""
    aliases: Mapping[str, Quantity] = field(default_factory=dict)
    instances: str = ""
    """How the names of resources begin whose units are MIG instances of one profile."""
    mib_per_unit: int = 1
    default_memory: int = 0
    default_cores: int = 0
    default_cards: int = 0
    exclusive_by_default: bool = False
    """Whether a card of which all memory is asked, and no compute, is given with all compute."""
    sizes: tuple[int, ...] = ()
    size_names: Mapping[int, str] = field(default_factory=dict)
    exact_sizes: bool = False
    nominal_mib: int = 0
    card_cores: int = 100
    compute_units: bool = False
    """Whether cards register, and pods are given, compute units, while shares are asked in percent
    of them (rounded down, at least 1)."""
    whole_if_many: bool = False
    """Whether several cards must be whole ones."""
    only_whole: bool = False
    """Whether cards are never shared."""
    totals: bool = False
    """Whether memory and compute are of all cards of a container, and not of each."""
    pairs: bool = False
    """Whether cards are given in pairs: 1 is 2, other odd numbers are refused."""
    one_size_per_card: bool = False
    """Whether all shares of one card must have the same size."""
    cores_need: tuple[str, str] | None = None
    """Annotation of the pod, and its value, without which compute cannot be asked for; with it
    memory is not cut to sizes."""
    register: str = ""
    form: Form = Form.CAPACITY
    capacity_id: str = ""
    """Made-up UUIDs are NODE-`capacity_id`-NUMBER."""
    capacity_mib: int = 0
    """Memory of one card where the capacity does not tell."""
    capacity_slots: int = 100
    groups_of_numa: int = 1
    """How many NUMA nodes the cards are spread over, in order, where the capacity is all there is.
    """
    model_word: str = ""
    """What HAMi looks for in the model of a card (d19). Here the annotation decides."""
    handshake: str = ""
    to_allocate: str = ""
    """Annotation of pods; '' if there is only `allocated`."""
    allocated: str = ""
    note: Note = Note.NONE
    note_key: str = ""
    """What its device plugin reads besides, and in which annotation."""
    type_is_model: bool = False
    """Whether annotations of pods carry the model of the card instead of the key."""
    use_uuids: str = ""
    avoid_uuids: str = ""
    use_models: str = ""
    avoid_models: str = ""

    def names(self) -> Iterator[tuple[str, Quantity]]:
        """Resource names and what they count; aliases last."""
        own = (
            (self.count, Quantity.CARDS),
            (self.memory, Quantity.MEMORY),
            (self.percent, Quantity.PERCENT),
            (self.cores, Quantity.CORES),
        )
        yield from ((name, quantity) for name, quantity in own if name)
        yield from self.aliases.items()

    def profile(self, resource: str) -> str:
        """The MIG profile of a resource like nvidia.com/mig-2g.10gb; '' if it is no such. Names
        of resources have no plus: 1g.10gb.me is the profile 1g.10gb+me.
        """
        if not self.instances or not resource.startswith(self.instances):
            return ""
        name = resource.removeprefix(self.instances)
        return name.replace(".me", "+me") if _PROFILE.fullmatch(name) else ""

    def cut(self, memory_mib: int) -> int | None:
        """The share that this much memory takes; None if there is none. Without `sizes`, itself."""
        if not self.sizes:
            return memory_mib
        if self.exact_sizes:
            return memory_mib if memory_mib in self.sizes else None
        found = next((size for size in self.sizes if size >= memory_mib), None)
        return self.sizes[-1] if found is None and memory_mib <= self.nominal_mib else found

    def cards(self, asked: int) -> int | None:
        """How many cards a container gets that asked for so many; None if it cannot be."""
        if not self.pairs or asked % 2 == 0:
            return asked
        return 2 if asked == 1 else None


_PROFILE: Final = re.compile(r"\d{1,2}g\.\d{1,4}gb(?:\.[a-z0-9.]{1,20})?")


class Vendors:
    """A table of vendors. ValueError if two have the same key, or share a resource name."""

    def __init__(self, vendors: Iterable[Vendor]) -> None:
        self._by_key: dict[str, Vendor] = {}
        self._by_resource: dict[str, tuple[Vendor, Quantity]] = {}
        for vendor in vendors:
            if vendor.key in self._by_key:
                raise ValueError(f"two vendors have the key {vendor.key}: rename one")
            self._by_key[vendor.key] = vendor
            for name, quantity in vendor.names():
                if name in self._by_resource:
                    other = self._by_resource[name][0].key
                    said = f"the resource {name} is of {other} and of {vendor.key}: rename one"
                    raise ValueError(said)
                self._by_resource[name] = (vendor, quantity)
        self._with_profiles = tuple(v for v in self._by_key.values() if v.instances)

    def __iter__(self) -> Iterator[Vendor]:
        return iter(self._by_key.values())

    def get(self, key: str) -> Vendor | None:
        """The vendor of a key."""
        return self._by_key.get(key)

    def of_resource(self, name: str) -> tuple[Vendor, Quantity] | None:
        """Whose resource it is and what it counts; None if it is of no card."""
        found = self._by_resource.get(name)
        if found is None:
            for vendor in self._with_profiles:
                if vendor.profile(name):
                    return vendor, Quantity.INSTANCES
        return found
