"""The cards of a host while one pod is being placed: what is used is changed and taken back."""

from __future__ import annotations

from typing import NamedTuple

from federation.core.devices.cards import INSTANCE, MIG, Grant, HostUse, Slice
from federation.core.devices.host.matching import barred
from federation.core.devices.host.mig_table import MigTable, table_of, taken
from federation.core.devices.host.misfit import Code
from federation.core.devices.wants import FULL, PodWants, Role, Wishes
from federation.core.devices.wire.vendor_table import VENDORS

_ONE_SIZE = frozenset(vendor.key for vendor in VENDORS if vendor.one_size_per_card)


class Demand(NamedTuple):
    """What one container asks of cards of one vendor."""

    container: int
    role: Role
    vendor: str
    cards: int
    memory_mib: int
    percent: int
    cores: int
    profile: str
    alone: bool
    one_numa: bool

    @property
    def asked(self) -> str:
        """In words."""
        share = f"{self.memory_mib} MiB" if self.memory_mib else f"{self.percent}% of the memory"
        cores = f" and {self.cores}% of compute" if self.cores else ""
        return f"{self.cards} card{'s' * (self.cards > 1)} with {self.profile or share}{cores}"


def demands_of(wants: PodWants) -> list[Demand]:
    """What the containers ask, in their order."""
    alone, bind = wants.wishes.mutex, wants.wishes.numa_bind
    return [
        Demand(
            number,
            container.role,
            asked.vendor,
            asked.cards,
            asked.memory_mib,
            asked.percent,
            asked.cores,
            asked.profile,
            alone,
            bind,
        )
        for number, container in enumerate(wants.containers)
        for asked in container.cards
    ]


class Pick(NamedTuple):
    """A card by its number, with what it gives; `bits` are the memory slices of its place."""

    card: int
    memory_mib: int
    cores: int
    slice: Slice | None = None
    bits: int = 0


class GivenUpError(Exception):
    """More has been tried than is allowed."""


class Board:
    """The lists have an entry per card of the host, in its order. `left` is how many picks may
    still be tried; `take` raises GivenUpError when there are none.
    """

    __slots__ = (
        "_kinds",
        "_numa",
        "bars",
        "cards",
        "cores",
        "host",
        "left",
        "masks",
        "memory",
        "slots",
        "tables",
    )

    def __init__(self, use: HostUse, wishes: Wishes, budget: int) -> None:
        self.left = budget
        self.host = use.host
        self.cards = use.host.cards
        self.slots: list[int] = []
        self.memory: list[int] = []
        self.cores: list[int] = []
        self.masks: list[int] = []
        self.tables: list[MigTable | None] = []
        self.bars: list[str] = []
        self._kinds: list[int] | None = None
        self._numa = wishes.numa_bind
        for card in self.cards:
            held = use.use(card.uuid)
            slots, memory, cores = held.amount
            self.slots.append(slots)
            self.memory.append(memory)
            self.cores.append(cores)
            self.masks.append(taken(held.slices))
            self.tables.append(table_of(card.profiles) if card.mode == MIG else None)
            self.bars.append(barred(card, held, wishes))

    def refusal(self, demand: Demand, number: int) -> str:
        """Why this card cannot give what is asked of one, as a code; '' if it can."""
        if self.bars[number]:
            return self.bars[number]
        card, slots = self.cards[number], self.slots[number]
        if slots >= card.slots:
            return Code.SLOTS
        if demand.alone and slots:
            return Code.EXCLUSIVE
        cores, used = demand.cores, self.cores[number]
        if cores == FULL and slots and card.cores == FULL:
            return Code.EXCLUSIVE
        table = self.tables[number]
        if table is not None:
            return self._mig_refusal(demand, number, table)
        if card.mode == INSTANCE or demand.profile:
            return "" if card.offers(0, 0, demand.profile) and card.mode == INSTANCE else Code.MODE
        if not card.offers(demand.memory_mib, demand.percent, ""):
            return Code.MODE
        share = card.share(demand.memory_mib, demand.percent)
        if share is None or self.memory[number] + share > card.memory_mib:
            return Code.MEMORY
        if not share and demand.percent and card.memory_mib:
            return Code.MEMORY  # rounded down to 0, which would mean no limit at all
        if slots and card.vendor in _ONE_SIZE and self.memory[number] != slots * share:
            return Code.SIZE
        if cores:
            return Code.CORES if used + cores > card.cores else ""
        return Code.NO_CORES_LEFT if used >= card.cores else ""

    def _mig_refusal(self, demand: Demand, number: int, table: MigTable) -> str:
        need = self.mig_need(demand, number, table)
        if not demand.profile and self.memory[number] + need > self.cards[number].memory_mib:
            return Code.MEMORY
        return "" if table.moves(self.masks[number], need, demand.profile) else Code.MIG

    def mig_need(self, demand: Demand, number: int, table: MigTable) -> int:
        """MiB that a profile must have. The whole card is its largest profile, which is usually a
        little smaller than the memory that the card registers (defect d14).
        """
        total = self.cards[number].memory_mib
        if demand.memory_mib or demand.percent < FULL:
            return demand.memory_mib or total * demand.percent // FULL
        return min(total, table.largest_mib)

    def room(self, demand: Demand, number: int) -> int:
        """How many such shares one container can still have of the card, which did not refuse one
        before the container was given any.
        """
        table = self.tables[number]
        if table is None:
            return 1
        if self.refusal(demand, number):
            return 0
        if demand.alone or demand.cores == FULL:
            return 1
        need = self.mig_need(demand, number, table)
        places = table.count(self.masks[number], need, demand.profile)
        return min(places, self.cards[number].slots - self.slots[number])

    def picks(self, demand: Demand, number: int) -> list[Pick]:
        """What the card, which does not refuse, can give: of a MIG card each free place."""
        card, table = self.cards[number], self.tables[number]
        if table is not None:
            need = self.mig_need(demand, number, table)
            return [
                Pick(number, move.profile.memory_mib, move.profile.cores, move.slice, move.bits)
                for move in table.moves(self.masks[number], need, demand.profile)
            ]
        if card.mode == INSTANCE:
            return [Pick(number, card.memory_mib, card.cores)]
        return [Pick(number, card.share(demand.memory_mib, demand.percent) or 0, demand.cores)]

    def count(self, pick: Pick, times: int) -> None:
        """Add its amounts (1) or take them away (-1); its place stays as it is."""
        number = pick.card
        self.slots[number] += times
        self.memory[number] += times * pick.memory_mib
        self.cores[number] += times * pick.cores

    def take(self, pick: Pick) -> None:
        """Its amounts and its place are taken."""
        self.left -= 1
        if self.left < 0:
            raise GivenUpError
        self.count(pick, 1)
        self.masks[pick.card] |= pick.bits

    def give_back(self, pick: Pick) -> None:
        """As if it had not been taken."""
        self.count(pick, -1)
        self.masks[pick.card] &= ~pick.bits

    def grant(self, demand: Demand, pick: Pick) -> Grant:
        """As others see it."""
        return Grant(
            self.cards[pick.card].uuid, demand.vendor, pick.memory_mib, pick.cores, pick.slice
        )

    def free_mib(self, number: int) -> int:
        """The largest slice that could still be had of the card, legal or not."""
        table = self.tables[number]
        if table is not None:
            return table.free_mib(self.masks[number])
        return max(self.cards[number].memory_mib - self.memory[number], 0)

    def likeness(self, number: int) -> tuple[int, int, int, int, int]:
        """Equal for two cards if one will do wherever the other does."""
        return (
            self._kind(number),
            self.slots[number],
            self.memory[number],
            self.cores[number],
            self.masks[number],
        )

    def state(self) -> tuple[tuple[int, int, int, int, int], ...]:
        """Equal for two boards of one host if what fits on one fits on the other."""
        return tuple(sorted(self.likeness(number) for number in range(len(self.cards))))

    def _kind(self, number: int) -> int:
        if self._kinds is None:
            known: dict[object, int] = {}
            self._kinds = [
                known.setdefault(
                    (
                        card.vendor,
                        card.mode,
                        card.memory_mib,
                        card.cores,
                        card.slots,
                        card.numa if self._numa else 0,
                        card.profiles,
                        card.sizes,
                        bar,
                    ),
                    len(known),
                )
                for card, bar in zip(self.cards, self.bars, strict=True)
            ]
        return self._kinds[number]
