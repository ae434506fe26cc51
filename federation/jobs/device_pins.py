"""Seats: the cards that admission has chosen for each pod of a Job, and how pods get to theirs.

A Job has one pod template, so its pods are born with a scheduling gate; each gets its node and its
cards and loses the gate in one write, which also marks the seat on the pod. Where all seats are
the same, the template can say it, and no pod needs a write. All seats of a Job are for pods of
one shape: any pod can have any seat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from federation.api.names import Gate, Pin
from federation.core.devices.wire.plan_note import Seat
from federation.core.devices.wire.vendor_table import VENDORS
from federation.core.devices.wire.vendors import Vendors
from federation.core.topology import HOSTNAME
from federation.jobs.pod_state import ended, gated
from federation.jobs.topology import completion_index

Json = dict[str, Any]

_LONGEST = 6


class Taking(NamedTuple):
    """A gated pod and the number of the seat that it gets."""

    pod: str
    seat: int


@dataclass(frozen=True, slots=True)
class Template:
    """What a start writes into a pod template for its cards: a gate, or the place of all pods."""

    gated: bool
    node_selector: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


class Pinned(NamedTuple):
    """What holds a pod to a seat: its node, and the annotations that choose its cards."""

    host: str
    annotations: Mapping[str, str]


def template_for(pins: Sequence[Pinned], hostname: str, *, alone: bool) -> Template:
    """Pinned if all pods are to get the same, on a node with this hostname label; else gated.

    With `alone` it is always gated: each pod needs annotations of its own.
    """
    if alone or not hostname or any(pin != pins[0] for pin in pins):
        return Template(gated=True)
    return Template(False, {HOSTNAME: hostname}, pins[0].annotations)


def chosen(
    seat: Seat, selectable: Callable[[str, str], bool], vendors: Vendors = VENDORS
) -> dict[str, str]:
    """The annotations that leave HAMi's scheduler no other cards than those of a seat. `selectable`
    tells whether a card (host, UUID) can be chosen so.
    """
    uuids: dict[str, set[str]] = {}
    for grant in (grant for grants in seat.allocation for grant in grants):
        vendor = vendors.get(grant.vendor)
        if vendor is not None and vendor.use_uuids and selectable(seat.host, grant.uuid):
            uuids.setdefault(vendor.use_uuids, set()).add(grant.uuid)
    return {key: ",".join(sorted(found)) for key, found in uuids.items()}


def taken(pods: Iterable[Json], seats: int) -> dict[str, int]:
    """Which pods have which seats, by UID: marked ones theirs, others without a gate the first
    that are free. Of two pods with the same mark the second has none. Pods that ended have left.
    """
    live = [pod for pod in _in_order(pods) if not _gated(pod)]
    found: dict[str, int] = {}
    for pod in live:
        seat = mark_of(pod)
        if seat is not None and seat < seats and seat not in found.values():
            found[pod["metadata"]["uid"]] = seat
    free = [seat for seat in range(seats) if seat not in found.values()]
    unmarked = (pod["metadata"]["uid"] for pod in live if mark_of(pod) is None)
    return found | dict(zip(unmarked, free, strict=False))


def takings(pods: Iterable[Json], seats: int, kept: Collection[int]) -> list[Taking]:
    """Which gated pods may have which seats now: free ones that are `kept` for pods to come.

    A pod with a completion index gets the seat of that number if it can, so that neighbours in
    rank are neighbours in place; the others get what is left. When a Job needs fewer pods than it
    has seats, which of them are kept has nothing to do with the indices that are left.
    """
    pods = list(pods)
    occupied = set(taken(pods, seats).values())
    free = [seat for seat in range(seats) if seat not in occupied and seat in kept]
    found, rest = [], []
    for pod in filter(_gated, _in_order(pods)):
        index = completion_index(pod)
        if index in free:
            free.remove(index)
            found.append(Taking(pod["metadata"]["name"], index))
        else:
            rest.append(pod["metadata"]["name"])
    return [*found, *(Taking(name, seat) for name, seat in zip(rest, free, strict=False))]


def pin_patch(
    pod: Json, seat: int, node_selector: Mapping[str, str], annotations: Mapping[str, str]
) -> Json:
    """The one write that seats a pod."""
    gates = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != Gate.DEVICES]
    return {
        "metadata": {
            "uid": pod["metadata"]["uid"],
            "annotations": {**annotations, Pin.SEAT.value: str(seat)},
        },
        "spec": {"nodeSelector": dict(node_selector), "schedulingGates": gates},
    }


def mark_of(pod: Json) -> int | None:
    """The seat that is marked on a pod."""
    text = (pod["metadata"].get("annotations") or {}).get(Pin.SEAT.value, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST else None


def _in_order(pods: Iterable[Json]) -> list[Json]:
    live = (pod for pod in pods if not ended(pod))
    return sorted(live, key=lambda pod: str(pod["metadata"]["name"]))


def _gated(pod: Json) -> bool:
    return gated(pod["spec"], Gate.DEVICES)
