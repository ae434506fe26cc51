"""Why a pod cannot have its cards on a host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """HAMi's words for why a card, or the host, is refused; FENCED, SIZE and SEARCH are our own."""

    UNHEALTHY = "CardNotHealth"
    CORDONED = "CardCordoned"
    FENCED = "CardFenced"
    MODEL = "CardTypeMismatch"
    MODE = "ModeNotFit"
    UUID = "CardUuidMismatch"
    SLOTS = "CardTimeSlicingExhausted"
    EXCLUSIVE = "ExclusiveDeviceAllocateConflict"
    MEMORY = "CardInsufficientMemory"
    SIZE = "CardSizeMismatch"
    CORES = "CardInsufficientCore"
    NO_CORES_LEFT = "CardComputeUnitsExhausted"
    MIG = "CardMigTopologyInfeasible"
    NUMA = "NumaNotFit"
    TOO_FEW = "AllocatedCardsInsufficientRequest"
    NO_DEVICES = "NodeInsufficientDevice"
    SEARCH = "SearchGivenUp"


_SENTENCES: Mapping[str, str] = {
    Code.UNHEALTHY: "unhealthy",
    Code.CORDONED: "cordoned",
    Code.FENCED: "fenced, since what is used of them is not known for sure",
    Code.MODEL: "of a model that the pod rules out",
    Code.MODE: "in a sharing mode that the pod or the request rules out",
    Code.UUID: "not among the cards that the pod names",
    Code.SLOTS: "shared by as many containers as they may be",
    Code.EXCLUSIVE: "in use though a card of its own is asked for, or held by one who asked so",
    Code.MEMORY: "short of memory",
    Code.SIZE: "cut to shares of another size",
    Code.CORES: "short of compute",
    Code.NO_CORES_LEFT: "without any compute left",
    Code.MIG: "without a free place for a MIG profile that is large enough",
    Code.NUMA: "on NUMA nodes with too few others",
    Code.TOO_FEW: "free, but too few",
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """No legal placement on `host`. `codes` counts the cards of the vendor by reason, for the
    `container` that could not be placed where all others before it could; `beside` says that it
    would fit without those. `free_mib` is the largest free slice that a container of this pod
    could have, on card `free_on` ('' if it could have none).
    """

    host: str
    codes: Mapping[str, int]
    container: str = ""
    asked: str = ""
    cards: int = 0
    free_mib: int = 0
    free_on: str = ""
    beside: bool = False
    fence: str = ""

    @property
    def given_up(self) -> bool:
        """Whether the search ended before it had seen all placements."""
        return Code.SEARCH in self.codes

    def __str__(self) -> str:
        """A sentence for people."""
        if self.fence:
            return f"{self.host} takes nothing new: {self.fence}"
        if Code.NO_DEVICES in self.codes:
            return f"{self.host} has {self.reason}"
        free = f"largest free slice {self.free_mib} MiB on {self.free_on}" if self.free_on else ""
        return f"{self.host}: {self.reason}" + (f" ({free})" if free and not self.given_up else "")

    @property
    def reason(self) -> str:
        """Part of a sentence for people: what the cards of the host lack, not which host."""
        if self.given_up:
            return (
                "no placement was found for all containers together within the "
                "limit of the search; ask for fewer or for equal containers"
            )
        if Code.NO_DEVICES in self.codes:
            return f"{self.cards} cards of this kind, {self._asks}"
        why = "; ".join(
            f"{count} of {self.cards} cards {_SENTENCES.get(code, code)}"
            for code, count in sorted(self.codes.items())
        )
        return f"{self._asks}: {why}"

    @property
    def _asks(self) -> str:
        others = " beside the other containers" if self.beside else ""
        return f"container {self.container} asks for {self.asked}{others}"
