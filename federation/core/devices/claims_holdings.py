"""What allocated claims hold of cards: the same entries of the ledger as those of annotations.

The allocation in the status of a ResourceClaim is made by the scheduler in one write, so it is
what counts; where a pod also carries annotations for the same card, it is charged once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from federation.core.devices.cards import Grant
from federation.core.devices.claims import HAMI_DRIVER, Device, qualified
from federation.core.devices.claims_cards import named
from federation.core.devices.holding import Holding, State
from federation.core.devices.vendor_table import NVIDIA
from federation.core.devices.wants import Role

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

    @property
    def owner(self) -> str:
        """Who is charged: the pod, or the claim itself while several pods share it or none has it
        yet. It is one owner at any time, so nothing is charged twice.
        """
        return self.pods[0] if len(self.pods) == 1 else self.uid


def holdings_of(claim: Allocated, devices: Mapping[tuple[str, str, str], Device]) -> list[Holding]:
    """What a claim holds of cards, one entry for each host. `devices` are those published, by key.

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
        Holding(claim.owner, claim.namespace, host, (Role.APP,), (tuple(found),), State.BOUND)
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


def joined(pod: Holding | None, claims: Sequence[Holding]) -> list[Holding]:
    """What a pod holds by its annotations and by its claims (`holdings_of`), one entry for each
    host, each card once: on a card that a claim gives it, the claim is what counts.
    """
    if not claims:
        return [] if pod is None else [pod]
    given = {grant.uuid for claim in claims for grant in _grants(claim)}
    by_host: dict[str, Holding] = {}
    if pod is not None:
        kept = tuple(
            tuple(grant for grant in grants if grant.uuid not in given) for grants in pod.allocation
        )
        by_host[pod.host] = replace(pod, allocation=kept)
    for claim in claims:
        known = by_host.get(claim.host)
        by_host[claim.host] = claim if known is None else _with(known, claim)
    return list(by_host.values())


def _with(known: Holding, claim: Holding) -> Holding:
    """A claim as further containers, which hold theirs as long as the pod lives. The allocation is
    a fact, so a seat that it takes is bound.
    """
    return replace(
        known,
        roles=(*known.roles, *claim.roles),
        allocation=(*known.allocation, *claim.allocation),
        state=max(known.state, claim.state),
        deadline=None,
    )


def _grants(holding: Holding) -> Iterable[Grant]:
    return (grant for grants in holding.allocation for grant in grants)
