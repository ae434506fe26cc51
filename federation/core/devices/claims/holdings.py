"""What allocated claims hold of cards: the same entries of the ledger as those of annotations.

The allocation in the status of a ResourceClaim is made by the scheduler in one write, so it is
what counts; what annotations of its pods say of the same card is not (`ledger.claims`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from federation.core.devices.cards import Grant
from federation.core.devices.claims.cards import named
from federation.core.devices.claims.claims import HAMI_DRIVER, Device, qualified
from federation.core.devices.ledger.holding import Holding, State
from federation.core.devices.wants import Role
from federation.core.devices.wire.vendor_table import NVIDIA

_MIB: Final = 2**20
_MEMORY: Final = f"{HAMI_DRIVER}/memory"
_CORES: Final = f"{HAMI_DRIVER}/cores"


@dataclass(frozen=True, slots=True)
class Result:
    """One device that a claim got. `consumed` is its share by capacity, empty if it got all of it;
    `admin` says that it only looks at a device that others have.
    """

    driver: str
    pool: str
    device: str
    consumed: tuple[tuple[str, Fraction], ...] = ()
    admin: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """That of the device."""
        return self.driver, self.pool, self.device


@dataclass(frozen=True, slots=True)
class Allocated:
    """A ResourceClaim with an allocation. `pods` are the UIDs of those it is reserved for; `node`
    is where it was allocated, empty if that is any of several.
    """

    uid: str
    namespace: str
    pods: tuple[str, ...] = ()
    node: str = ""
    results: tuple[Result, ...] = ()


def holdings_of(claim: Allocated, devices: Mapping[tuple[str, str, str], Device]) -> list[Holding]:
    """What a claim holds of cards, one entry for each host, as the claim's own: several pods may
    share it, and it keeps its devices when they end. `devices` are those published, by key.

    A device that is published no more still counts: on the claim's node (else the pool, which is
    how node-local drivers call theirs), with what the allocation says. Empty if it got no cards.
    """
    grants: dict[str, list[Grant]] = {}
    for result in claim.results:
        if result.driver == HAMI_DRIVER and not result.admin:
            device = devices.get(result.key)
            host = (device.node if device else "") or claim.node or result.pool
            grants.setdefault(host, []).append(_grant(result, device))
    return [
        Holding(claim.uid, claim.namespace, host, (Role.APP,), (tuple(found),), State.BOUND)
        for host, found in sorted(grants.items())
    ]


def _grant(result: Result, device: Device | None) -> Grant:
    consumed = {qualified(name, result.driver): amount for name, amount in result.consumed}
    uuid = named(device) if device else "/".join(result.key)
    memory = _amount(_MEMORY, consumed, device) / _MIB
    cores = _amount(_CORES, consumed, device)
    return Grant(uuid, NVIDIA.key, _up(memory), _up(cores))


def _amount(name: str, consumed: Mapping[str, Fraction], device: Device | None) -> Fraction:
    """What is consumed of a capacity; all of it if the allocation does not say."""
    if name in consumed:
        return max(Fraction(0), consumed[name])
    found = device.capacity.get(name) if device else None
    return found.value if found else Fraction(0)


def _up(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
