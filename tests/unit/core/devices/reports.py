"""Reports of hosts, written and read as an agent and a manager do."""

from __future__ import annotations

import json
from collections.abc import Iterable

from federation.api.report_placement import placement_from_wire, placement_to_wire
from federation.api.worker_report import ReportedPlacement
from federation.core.devices.cards import HostUse
from federation.core.devices.fleet.buckets import Buckets, Classes
from federation.core.devices.fleet.kinds import Kinds
from federation.core.devices.fleet.reported_fleet import ReportedFleet
from federation.core.devices.fleet.strategies.base import Strategy
from federation.core.devices.fleet.types import Room

Hosts = Iterable[tuple[HostUse, Room]]
LIMIT = 200_000


def buckets_of(hosts: Hosts) -> Buckets:
    """Counted under numbered names."""
    made = Buckets()
    for number, (use, room) in enumerate(hosts):
        made.put(f"n{number:05d}", use, room)
    return made


def sent(classes: Classes) -> Classes:
    """Through JSON and back."""
    wire = json.loads(json.dumps(placement_to_wire(classes)))
    return placement_from_wire(ReportedPlacement.model_validate(wire))


def size(classes: Classes) -> int:
    """Characters on the wire."""
    return len(json.dumps(placement_to_wire(classes), separators=(",", ":")))


def fleet_of(classes: Classes, strategy: Strategy) -> ReportedFleet:
    """What a manager makes of it."""
    made = ReportedFleet(strategy, Kinds())
    made.report(sent(classes))
    return made
