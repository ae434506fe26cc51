"""What HAMi's scheduler would do for a pod, where it is not there: kube-scheduler binds, the agent
writes what the device plugin reads.

The plugin looks for the pod that is being allocated on its node. Of two it could take the wrong
one, so pods are let go to a node one by one: the next when the last one runs, or has failed, or
has not got on for as long as HAMi lets a node lock stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from federation.core.devices.ledger.observed import SKEW
from federation.core.devices.wire import pod_notes
from federation.core.devices.wire.allocation_note import BIND_PHASE, BIND_TIME, NODE
from federation.core.devices.wire.plan_note import Seat
from federation.jobs.device_pins import Taking
from worker_agent.device_watch import ALLOCATING
from worker_agent.devices import Devices

STALLED_S = 300.0


class Binding:
    """Whose turn it is on each node, and what is written on pods. `mark` has a Job looked at."""

    def __init__(self, devices: Devices, mark: Callable[[str], None]) -> None:
        self._devices, self._mark = devices, mark
        self._claims: set[str] = set()
        self._waiting: dict[str, dict[str, None]] = {}
        devices.pods.on_served = self._served

    def turns(
        self, due: Sequence[Taking], seats: Sequence[Seat], job: str
    ) -> tuple[list[Taking], float | None]:
        """Those that may go now: one for each node on which none is being allocated. Each holds
        its node until `done`. Then after how many seconds others may go, whatever is heard of those
        that are being allocated.
        """
        busy = self._busy()
        found, stalled = [], []
        for taking in due:
            host = seats[taking.seat].host
            if not self._devices.noted(seats[taking.seat]):
                found.append(taking)
                continue
            if host in busy or host in self._claims:
                self._waiting.setdefault(host, {})[job] = None
                stalled += [busy[host]] if host in busy else []
                continue
            self._claims.add(host)
            found.append(taking)
        return found, min(stalled, default=None)

    def _busy(self) -> dict[str, float]:
        """The nodes on which a pod is being allocated, and for how many seconds that counts yet.
        What began in the future, by its note, is not believed.
        """
        now, busy = self._devices.now(), dict[str, float]()
        for host, since in self._devices.pods.allocating.values():
            left = since + STALLED_S - now
            if 0 < left <= STALLED_S + SKEW:
                busy[host] = max(left, busy.get(host, 0.0))
        return busy

    def done(self, host: str) -> None:
        """The pod is written, or could not be."""
        self._claims.discard(host)
        if not any(on == host for on, _ in self._devices.pods.allocating.values()):
            self._served(host)

    def _served(self, host: str) -> None:
        for job in self._waiting.pop(host, {}):
            self._mark(job)

    def notes(self, seat: Seat) -> dict[str, str]:
        """The annotations of a pod in this seat."""
        if not self._devices.noted(seat):
            return {}
        now = int(self._devices.now())
        cards = self._devices.nodes.cards(seat.host)
        vendors = self._devices.vendors
        notes = pod_notes.write(seat.allocation, cards, now, node=seat.host, vendors=vendors)
        return {**notes, BIND_PHASE: ALLOCATING, BIND_TIME: str(now)}

    def labels(self, seat: Seat) -> dict[str, str]:
        """The label that HAMi finds pods of a node by."""
        return {NODE: seat.host} if self._devices.noted(seat) else {}
