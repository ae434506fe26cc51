"""Hosts and requests for the tests of fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from federation.core.devices.cards import (
    MIG,
    Allocation,
    Amount,
    Card,
    CardUse,
    Host,
    HostUse,
    MigProfile,
    Slice,
)
from federation.core.devices.host.fit import find
from federation.core.devices.host.misfit import Misfit
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Role, Wishes

A100_PROFILES = (
    MigProfile("1g.5gb", 4864, 15, 1, tuple((start, 1) for start in range(7))),
    MigProfile("2g.10gb", 9984, 29, 2, ((0, 2), (2, 2), (4, 2))),
    MigProfile("3g.20gb", 20096, 43, 3, ((0, 4), (4, 4))),
    MigProfile("7g.40gb", 40192, 100, 7, ((0, 8),)),
)
A30_PROFILES = (
    MigProfile("1g.6gb", 5952, 25, 1, ((0, 1), (1, 1), (2, 1), (3, 1))),
    MigProfile("2g.12gb", 12032, 50, 2, ((0, 2), (2, 2))),
    MigProfile("4g.24gb", 24320, 100, 4, ((0, 4),)),
)


def card(number: int = 0, **rest: Any) -> Card:
    """A shared A100 with 40960 MiB unless said otherwise."""
    given = {"model": "NVIDIA A100-SXM4-40GB", "memory_mib": 40960, "index": number, **rest}
    return Card(f"GPU-{number}", "NVIDIA", **given)


def mig_card(number: int = 0, **rest: Any) -> Card:
    given = {"mode": MIG, "slots": 7, "profiles": A100_PROFILES, **rest}
    return card(number, **given)


def host(*cards: Card, links: Mapping[tuple[str, str], int] | None = None) -> Host:
    return Host("n", cards, links or {})


def used(
    at: Host, amounts: Mapping[int, tuple[int, int, int]] | None = None, **uses: CardUse
) -> HostUse:
    """Amounts (slots, MiB, cores) by the number of the card; whole uses as `c0=`."""
    held = {f"GPU-{n}": CardUse(Amount(*amount)) for n, amount in (amounts or {}).items()}
    return HostUse(at, held | {f"GPU-{name[1:]}": use for name, use in uses.items()})


def mig_used(*slices: Slice, memory_mib: int = 0, cores: int = 0) -> CardUse:
    return CardUse(Amount(len(slices), memory_mib, cores), slices)


def ask(cards: int = 1, memory_mib: int = 0, **rest: Any) -> CardWants:
    percent = rest.pop("percent", 0 if memory_mib or rest.get("profile") else 100)
    return CardWants("NVIDIA", cards, memory_mib, percent, **rest)


def pod(*asks: CardWants | tuple[Role, CardWants] | None, **wishes: Any) -> PodWants:
    """One container for each; None is one without cards."""
    containers = []
    for number, asked in enumerate(asks):
        role, want = asked if isinstance(asked, tuple) else (Role.APP, asked)
        containers.append(ContainerWants(f"c{number}", role, (want,) if want else ()))
    return PodWants(tuple(containers), Wishes(**wishes))


def placed(use: HostUse, wants: PodWants) -> Allocation:
    """Where it goes; fails if it does not fit."""
    found = find(use, wants)
    assert not isinstance(found, Misfit), str(found)
    return found


def cards_of(allocation: Allocation) -> list[list[str]]:
    """UUIDs by container, without what they have in common."""
    return [[grant.uuid.removeprefix("GPU-") for grant in grants] for grants in allocation]


def refused(use: HostUse, wants: PodWants) -> dict[str, int]:
    """The codes; fails if it fits."""
    found = find(use, wants)
    assert isinstance(found, Misfit), found
    return dict(found.codes)
