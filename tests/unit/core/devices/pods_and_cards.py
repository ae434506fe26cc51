"""Cards, wants and pods for tests of the ledger: one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from federation.core.devices.cards import Allocation, Amount, Card, Grant, Host
from federation.core.devices.ledger.holding import Owner, Reservation
from federation.core.devices.ledger.ledger import Ledger
from federation.core.devices.ledger.observed import ObservedPod
from federation.core.devices.wants import CardWants, ContainerWants, PodWants, Role, Wishes

INIT, SIDECAR, APP = Role.INIT, Role.SIDECAR, Role.APP
NVIDIA = "NVIDIA"


def card(uuid: str = "a", memory: int = 40960, **kwargs: Any) -> Card:
    """A card, sound and shared by ten."""
    return Card(uuid, NVIDIA, "NVIDIA A100", memory, **kwargs)


def host(*cards: Card, name: str = "n") -> Host:
    """A node with these cards."""
    return Host(name, cards)


def wants(*containers: tuple[Role, int], cores: int = 0, mutex: bool = False) -> PodWants:
    """A pod of containers with one card each, or none for 0 MiB."""
    return PodWants(
        tuple(
            ContainerWants(
                f"c{number}", role, (CardWants(NVIDIA, 1, mib, 0, cores),) if mib else ()
            )
            for number, (role, mib) in enumerate(containers)
        ),
        Wishes(policy=("mutex",) if mutex else ()),
    )


def on(uuids: Sequence[str], pod: PodWants) -> Allocation:
    """What a pod asks for, on these cards by container."""
    return tuple(
        tuple(Grant(uuid, NVIDIA, asked.memory_mib, asked.cores) for asked in container.cards)
        for uuid, container in zip(uuids, pod.containers, strict=True)
    )


def reservation(owner: Owner, pod: PodWants, uuid: str = "a", **kwargs: Any) -> Reservation:
    """All containers on one card of node n, until 100."""
    places = on([uuid] * len(pod.containers), pod)
    return Reservation(
        **{
            "owner": owner,
            "namespace": "ns",
            "host": "n",
            "wants": pod,
            "allocation": places,
            "deadline": 100.0,
            **kwargs,
        }
    )


def seen(uid: str, pod: PodWants, uuid: str = "a", version: int = 1, **kwargs: Any) -> ObservedPod:
    """A pod whose annotations say that all its containers are on one card of node n."""
    fields = {
        "namespace": "ns",
        "roles": pod.roles,
        "mutex": pod.wishes.mutex,
        "placed_on": "n",
        "allocation": on([uuid] * len(pod.containers), pod),
        **kwargs,
    }
    return ObservedPod(uid, version=version, **fields)


def used(ledger: Ledger, uuid: str = "a", name: str = "n") -> Amount:
    """What is used of a card of a registered node."""
    use = ledger.use(name)
    assert use is not None
    return use.use(uuid).amount


def mib(ledger: Ledger, uuid: str = "a", name: str = "n") -> int:
    """The memory of that."""
    return used(ledger, uuid, name).memory_mib
