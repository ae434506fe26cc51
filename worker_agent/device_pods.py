"""Pods as the ledger sees them, read from what the API server shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.api.names import Gate, Pin
from federation.core.devices.asking.asking import WantsError
from federation.core.devices.cards import Card
from federation.core.devices.ledger.holding import Replica
from federation.core.devices.ledger.observed import ObservedPod, whole_cards
from federation.core.devices.ledger.seats import ANY
from federation.core.devices.wants import PodWants
from federation.core.devices.wire import pod_notes
from federation.core.devices.wire.allocation_note import NODE, TIME
from federation.core.devices.wire.undecodable import UndecodableError
from federation.core.devices.wire.vendors import Vendors
from federation.core.policies import ResourceRules
from federation.core.quantity import QuantityError
from federation.jobs.device_pins import mark_of
from federation.jobs.devices import card_wants
from federation.jobs.pod_state import ended, gated
from federation.jobs.pods import PodDefaults, pod_requests
from federation.jobs.topology import COMPLETION_INDEX
from worker_agent.rooms import Amounts, demand

Json = dict[str, Any]

NO_WANTS = PodWants(())

_KEPT_NOTES = (Pin.SEAT.value, COMPLETION_INDEX, "hami.io/bind-phase", "hami.io/bind-time", NODE)
_KEPT_SPEC = ("nodeName", "nodeSelector", "schedulingGates")


@dataclass(frozen=True, slots=True)
class Shape:
    """What does not change of a pod: what it asks of cards, and what it takes of its node.

    `trouble` says why what it asks for cannot be read.
    """

    wants: PodWants
    requests: Amounts
    trouble: str = ""


def shape_of(pod: Json, rules: ResourceRules) -> Shape:
    """Read it; the API server took the pod, so what cannot be read is of a kind unknown here."""
    try:
        requests = demand(pod_requests(pod["spec"]), rules.vendors)
    except QuantityError:
        requests = demand({}, rules.vendors)
    try:
        return Shape(card_wants(pod, PodDefaults(rules=rules)) or NO_WANTS, requests)
    except (WantsError, QuantityError) as error:
        return Shape(NO_WANTS, requests, f"what it asks for cannot be read: {error}")


def job_of(pod: Json) -> str:
    """UID of the Job whose pod it is; '' if it is of none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(o["uid"]) for o in owners if o.get("controller") and o["kind"] == "Job"), "")


def observed(pod: Json, shape: Shape, cards: Mapping[str, Card], vendors: Vendors) -> ObservedPod:
    """One version of a pod that asks for cards, or is noted to have some. `cards` are those of the
    node that it is bound to or placed on.
    """
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    notes = meta.get("annotations") or {}
    wants, trouble = shape.wants, shape.trouble
    allocation = None
    try:
        allocation = pod_notes.read(notes, wants, cards, vendors)
    except UndecodableError as error:
        trouble = str(error)
    return ObservedPod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        version=int(meta["resourceVersion"]),
        roles=wants.roles,
        node=spec.get("nodeName", ""),
        gated=bool(spec.get("schedulingGates")),
        started=status.get("phase") == "Running",
        init_done=_init_done(spec, status),
        ended=ended(pod),
        mutex=wants.wishes.mutex,
        seat=_seat(pod),
        placed_on=notes.get(NODE, "") if allocation is not None or trouble else "",
        placed_at=seconds(notes.get(TIME, "")),
        allocation=allocation or (),
        trouble=trouble,
        asks=whole_cards(wants),
    )


def thin(pod: Json) -> Json:
    """The few fields by which a pod finds its seat."""
    meta, spec = pod["metadata"], pod["spec"]
    notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    return {
        "metadata": {
            "name": meta["name"],
            "uid": meta["uid"],
            "annotations": {key: notes[key] for key in _KEPT_NOTES if key in notes},
            "labels": {key: labels[key] for key in (COMPLETION_INDEX,) if key in labels},
        },
        "spec": {name: spec[name] for name in _KEPT_SPEC if name in spec},
        "status": {"phase": (pod.get("status") or {}).get("phase", "")},
    }


def _seat(pod: Json) -> Replica | None:
    job = job_of(pod)
    if not job or gated(pod["spec"], Gate.DEVICES):
        return None
    mark = mark_of(pod)
    return Replica(job, ANY if mark is None else mark)


def _init_done(spec: Json, status: Json) -> bool:
    """Whether all init containers but sidecars have ended well, as the kubelet counts it."""
    ending = {c["name"] for c in spec.get("initContainers") or () if not _stays(c)}
    states = {s["name"]: s.get("state") or {} for s in status.get("initContainerStatuses") or ()}
    done = (states.get(name, {}).get("terminated") for name in ending)
    return all(state is not None and state.get("exitCode") == 0 for state in done)


def _stays(container: Json) -> bool:
    return bool(container.get("restartPolicy") == "Always")


def seconds(text: str) -> float:
    """A Unix time as annotations have it; 0 if it is none."""
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else 0.0
