"""What a workload asks of the cards of a worker cluster, as the agent there will ask for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from federation.core.devices.fleet.no_room import LOOKED_AT, no_room
from federation.core.devices.fleet.reported_fleet import ReportedFleet
from federation.core.devices.fleet.types import Gang, NoPlace, Placement, Shape
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.core.types import PodSet, ResourceFlavor


def asks_for_cards(pods: PodSet, fleet: ReportedFleet) -> bool:
    """Whether its cards are counted there: by an agent, all of whose nodes register none of such,
    they are not.
    """
    return pods.cards is not None and any(
        asked.vendor in fleet.vendors
        for container in pods.cards.containers
        for asked in container.cards
    )


def shape_of(
    pods: PodSet, requests: Mapping[str, int], flavors: Iterable[ResourceFlavor] = ()
) -> Shape:
    """One of its pods with what it requests of a node, if these flavors of the cluster are
    assigned to it.
    """
    assert pods.cards is not None
    selector, tolerations = dict(pods.node_selector), list(pods.tolerations)
    for flavor in flavors:
        selector |= dict(flavor.node_labels)
        tolerations += flavor.tolerations
    return Shape(
        pods.cards,
        tuple(sorted(requests.items())),
        tuple(sorted(selector.items())),
        pods.affinity,
        tuple(dict.fromkeys(tolerations)),
    )


def beside(amounts: Mapping[str, int], vendors: Vendors = VENDORS) -> dict[str, int]:
    """Those that do not stand for cards, or shares of them."""
    return {name: n for name, n in amounts.items() if vendors.of_resource(name) is None}


def demand(amounts: Mapping[str, int], vendors: Vendors = VENDORS) -> dict[str, int]:
    """What a pod that requests this takes of its node beside cards, itself included."""
    return beside(amounts, vendors) | {"pods": 1}


def gang_of(
    asking: Sequence[tuple[PodSet, int, Collection[str]]], flavors: Mapping[str, ResourceFlavor]
) -> Gang:
    """Pods with their number and the names of their flavors, as the fleet is asked."""
    return tuple(
        (
            shape_of(
                pods,
                demand(pods.requests),
                [flavors[name] for name in sorted(names) if name in flavors],
            ),
            count,
        )
        for pods, count, names in asking
    )


def no_cards(answer: NoPlace, gang: Gang, fleet: ReportedFleet) -> str:
    """Why the cards of a cluster do not take a gang."""
    freest = fleet.fleet.freest(answer.shape, LOOKED_AT)
    return no_room(answer, sum(count for _, count in gang), freest, named=False)


def score_of(places: Sequence[Placement]) -> float:
    """Of a whole gang: lower is better."""
    return sum(place.score for place in places)
