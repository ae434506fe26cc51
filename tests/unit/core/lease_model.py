"""A manager and an agent around one Lease, each with its own clock, and everything between them
late, lost or out of order. The agent is written from the protocol alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from federation.api import lease as wire
from federation.api.names import Lease, Mirror
from federation.core.failover import Timings
from federation.core.health import Brake, Create, Facts, Fence, judge, settle
from federation.core.lease import Watch, observe, vanished

Json = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


@dataclass
class Clock:
    """Its reading is `start` + `rate` times the true time."""

    start: float = 0.0
    rate: float = 1.0

    def read(self, true: float) -> float:
        return self.start + true * self.rate


@dataclass
class Server:
    """Stores the Lease; `history` is what a watch delivers (None: deleted)."""

    version: int = 10
    lease: Json | None = None
    history: list[Json | None] = field(default_factory=list)

    def put(self, body: Json, based_on: int) -> Json | None:
        """Replace it, if it still is at that version (0: if there is none); None if not."""
        current = int(self.lease["metadata"]["resourceVersion"]) if self.lease else 0
        if current != based_on:
            return None
        self.version += 1
        meta = {**body["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**body, "metadata": meta}
        self.history.append(self.lease)
        return self.lease

    def delete(self) -> None:
        if self.lease is not None:
            self.version += 1
            self.lease = None
            self.history.append(None)


@dataclass
class Request:
    """A renewal on its way; `stored` once the server has carried it out."""

    sent: float
    epoch: int
    based_on: int
    body: Json
    stored: Json | None = None
    refused: bool = False


@dataclass
class Agent:
    """`deadlines` are when its lease in each epoch ends, by its clock. Its clock on the wall, which
    it writes into the Lease, may be `stuck`.
    """

    clock: Clock
    tick: float
    epoch: int = 1
    number: int = 0
    request: Request | None = None
    deadlines: dict[int, float] = field(default_factory=dict)
    kill: float = 0.0
    stuck: bool = False

    def send(self, server: Server, true: float) -> None:
        """Read the Lease and send a renewal."""
        if self.request is not None or server.lease is None:
            return
        lease = server.lease
        epoch = max(self.epoch, int(lease["metadata"]["annotations"][Mirror.EPOCH.value]))
        self.number += 0 if self.stuck else 1
        notes = {**lease["metadata"]["annotations"], Mirror.EPOCH.value: str(epoch)}
        body = {
            "metadata": {**lease["metadata"], "annotations": notes},
            "spec": {**lease["spec"], "holderIdentity": "agent", "renewTime": str(self.number)},
        }
        based_on = int(lease["metadata"]["resourceVersion"])
        self.request = Request(self.clock.read(true), epoch, based_on, body)

    def arrive(self, server: Server) -> None:
        """The request reaches the server."""
        request = self.request
        if request is not None and request.stored is None and not request.refused:
            request.stored = server.put(request.body, request.based_on)
            request.refused = request.stored is None

    def answer(self, *, lost: bool) -> None:
        """The answer reaches the agent, or never does. Only an answer extends anything."""
        request, self.request = self.request, None
        if request is None or request.stored is None or lost:
            return
        spec, notes = request.stored["spec"], request.stored["metadata"]["annotations"]
        self.epoch = request.epoch
        self.deadlines[self.epoch] = request.sent + spec["leaseDurationSeconds"]
        self.kill = max(self.kill, float(notes[Lease.KILL_SECONDS.value]))

    def over(self, epoch: int, true: float) -> bool:
        """Whether what was bound in an epoch has ended for certain."""
        deadline = self.deadlines.get(epoch)
        return deadline is None or self.clock.read(true) >= deadline + self.tick + self.kill

    def lapsed(self, epoch: int, true: float) -> bool:
        """Whether its lease in an epoch is over."""
        return self.clock.read(true) >= self.deadlines.get(epoch, float("-inf"))


@dataclass
class Manager:
    """Does what the core says; sees what the watch brings."""

    clock: Clock
    timings: Timings
    watch: Watch = field(default_factory=Watch)
    read: int = 0
    """Up to where the history was delivered."""
    brake: Brake = field(default_factory=Brake)
    fenced: list[Fence] = field(default_factory=list)

    def list(self, server: Server, true: float) -> None:
        """See the Lease as it is, and nothing of how it came to be so."""
        self.read = len(server.history)
        self._see(server.lease, true)

    def deliver(self, server: Server, true: float, count: int) -> None:
        """The next events of the watch."""
        for lease in server.history[self.read : self.read + count]:
            self._see(lease, true)
        self.read = min(len(server.history), self.read + count)

    def _see(self, lease: Json | None, true: float, *, own: bool = False) -> None:
        now = self.clock.read(true)
        if lease is None:
            self.watch = vanished(self.watch, now)
        else:
            seen = wire.lease_seen(lease)
            self.watch = observe(self.watch, seen, now, self.timings, own=own)

    def tick(self, server: Server, true: float, facts: Facts, *, lost: bool) -> Fence | None:
        """Judge and act; returns the fence that was put, if one was."""
        now = self.clock.read(true)
        self.watch = settle(self.watch, now, self.timings, self.brake)
        verdict = judge("c", self.watch, facts, now, self.timings, self.brake)
        lease, known = server.lease, self._object(server)
        match verdict.action:
            case Create() as create:
                body = wire.created("c", create, self.timings, NOW)
                written = server.put(body, 0)
                if written is not None and not lost:
                    self._see(written, true, own=True)
            case Fence() as fence if known is not None:
                written = server.put(wire.fenced(known, fence, NOW), fence.version)
                if written is None:
                    self._see(lease, true)  # it is read again
                elif not lost:
                    self._see(written, true, own=True)
                return fence if written is not None else None
            case None if known is not None and self.watch.seen is not None:
                seen = self.watch.seen
                body_ = wire.configured(
                    known, seen.epoch, self.timings, self.watch.lease, seen.kill
                )
                written = server.put(body_, seen.version) if body_ else None
                if written is not None and not lost:
                    self._see(written, true, own=True)
        return None

    def _object(self, server: Server) -> Json | None:
        """The Lease at the version that is known here."""
        if self.watch.seen is None:
            return None
        for lease in reversed(server.history):
            if lease and int(lease["metadata"]["resourceVersion"]) == self.watch.seen.version:
                return lease
        return None
