"""Renews this cluster's Lease on the management API: the agent's only business there.

The deadline by which a renewal holds is counted from before it was sent, on a clock that goes on
while the machine sleeps; an unknown outcome never extends it. All times of the protocol are those
that the Lease says. The Lease is made by the manager, never here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import structlog

from federation.api import names
from federation.api.epochs import read_epoch
from federation.api.meta import wire_micro_time
from federation.api.names import FEDQ_NAMESPACE, FENCED, Mirror
from federation.api.renewal import Told, read_renewal, renewal_note
from federation.core.failover import Tier
from federation.core.holding import ANSWERED, Lease, Tenure, Terms, terms
from federation.edge.errors import ApiError, Conflict, NotFound, Unreachable
from federation.edge.kube import KubeClient
from federation.edge.machine import boottime
from federation.edge.resources import LEASES, Json
from worker_agent.deadline_file import DeadlineFile

log = structlog.get_logger(__name__)

RETRY_S = 2.0
LONGEST_REQUEST_S = 5.0
"""Unless requests fail: see `patience`."""
FIRST_REQUEST_S = 3.0
"""While it is not known when the lease ends: what runs may be past it."""
ATTEMPTS = 3
"""How often a renewal that somebody else's write got ahead of is made again at once."""

_HINT = (
    "guards that read this file end what runs when the lease that it notes is over, and a new agent"
    " does not know its lease: free space, or make the folder writable, or set FEDQ_DEADLINE_FILE"
    " to another file; it is tried again with each renewal"
)

TakeOver = Callable[[int], Awaitable[int]]
"""Brings this cluster into an epoch, or a higher one that it was in already; returns which. After
that no copy of a lower one is started. Raises ApiError."""


Beat = Callable[[TakeOver, Callable[[], None]], Coroutine[Any, Any, None]]
"""Runs a heartbeat: given what brings the cluster into an epoch, and who hears of changes."""


class _LateError(ApiError):
    """A renewal was answered too late to count."""


class ReplacedError(RuntimeError):
    """Another agent renews this cluster's Lease: this one must not go on deciding."""


class Heartbeat:
    """Keeps the Lease. `lease` is what is known of it, a new value with every change; `on_change`
    hears of each. `problem` says why it is not renewed ('' if it is), `note_problem` why guards do
    not hear of that by the file ('' if they do).
    """

    def __init__(
        self,
        client: KubeClient,
        cluster: str,
        holder: str,
        *,
        file: DeadlineFile | None = None,
        guarded: bool = False,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """`holder` names this process, and no other ever. `guarded` is whether guards of nodes go
        by the file.
        """
        self._client, self._cluster, self._holder = client, cluster, holder
        self._file, self._guarded, self._clock = file, guarded and file is not None, clock
        self._known: Json | None = None
        self._ours = False
        self._failures = 0
        self._assured = 0
        self.lease = file.read(clock()) if file else Lease()
        self._noted = self.lease.tenure
        self.problem, self.note_problem = "the Lease has not been renewed yet", ""
        self.on_change: Callable[[], None] = lambda: None
        self.take_over: TakeOver = _taken

    def tier(self, given: Tier) -> Tier:
        """How well this cluster keeps `stop` now: guards that hear of no renewal are none."""
        return Tier.AGENT if self.note_problem else given

    async def beat(self, take_over: TakeOver, on_change: Callable[[], None]) -> None:
        """Renew until cancelled; see Beat. Raises ReplacedError."""
        self.take_over, self.on_change = take_over, on_change
        while True:
            pause = await self.renew()
            await asyncio.sleep(pause)  # the period of the protocol

    async def renew(self) -> float:
        """Renew once; seconds until the next time. Raises ReplacedError."""
        try:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    await self._renew()
                    break
                except (Conflict, _LateError):
                    if attempt == ATTEMPTS:
                        raise
        except NotFound:
            log.info("lease.missing", cluster=self._cluster, hint="the manager creates it")
            return self._failed("the Lease is missing: the manager creates it")
        except ApiError as error:
            log.warning("lease.not_renewed", why=str(error))
            return self._failed(f"the Lease is not renewed: {error}")
        await self._assure()
        return max(0.0, self.lease.next_due(self._clock()) - self._clock())

    async def _renew(self) -> None:
        lease = self._known
        if lease is None:
            lease = await self._ask(self._client.get(LEASES, self._cluster, FEDQ_NAMESPACE))
        self._known = None  # whatever happens to the write, read again unless it succeeded
        self._look_at_holder(lease)
        seen = self._epoch(lease)
        if max(seen, self.lease.seen) > self.lease.epoch:
            self._fenced(seen)
            epoch = await self.take_over(self.lease.seen)
            self._assured = epoch
        else:
            epoch = self.lease.epoch
        sent = self._clock()
        told = self._told(lease, sent)
        written = await self._ask(self._client.update(LEASES, self._renewed(lease, epoch, told)))
        self._known, self._ours = written, True
        given = _terms(written)
        if not self.lease.in_time(sent, self._clock(), given):
            raise _LateError("the answer to the renewal came too late to extend the lease")
        self._failures = 0
        self._set(self._note(self.lease.renewal(sent, epoch, given, told.of, told.breaks)))
        self.problem = "" if given.lease else "the Lease does not say how long it holds"

    def _note(self, lease: Lease) -> Lease:
        """The lease, which is noted for guards. If that fails they go by the one before, and what
        is started lives under that.
        """
        problem = self._file.write(lease) if self._file is not None else ""
        if problem and problem != self.note_problem:
            log.error("deadline.not_written", why=problem, hint=_HINT)
        elif self.note_problem and not problem:
            log.info("deadline.written_again")
        self.note_problem = problem
        if problem and self._guarded:
            earlier = self._noted.breaks if self._noted is not None else lease.breaks - 1
            return lease.living_under(earlier)
        self._noted = lease.tenure
        return lease

    def _unbroken(self, now: float) -> Tenure | None:
        """The last renewal that goes on for all who stop what runs: this agent, and guards."""
        own, noted = self.lease.unbroken(now), self._noted
        if own is None or not self._guarded:
            return own
        return noted if noted is not None and now < noted.deadline else None

    def _told(self, lease: Json, sent: float) -> Told:
        """What the manager has to know of the renewals before this one. Raises ApiError if the
        clock on the wall stands still: the manager would not see a renewal in it.
        """
        moment = wire_micro_time(datetime.now(UTC))
        if (lease.get("spec") or {}).get("renewTime") == moment:
            raise ApiError(
                "the renewal changes nothing: does the clock of this machine stand still?"
            )
        before = self._unbroken(sent)
        known = before.mark if before is not None else ""
        breaks = max(read_renewal(lease).breaks, self.lease.breaks)
        return Told(moment, known, breaks if known else breaks + 1)

    def _renewed(self, lease: Json, epoch: int, told: Told) -> Json:
        """The Lease as it is to be written. One that was made anew is in the epoch of the cluster
        at least, which cannot go back.
        """
        spec = {**(lease.get("spec") or {}), "holderIdentity": self._holder, "renewTime": told.of}
        meta = lease["metadata"]
        notes = {
            **(meta.get("annotations") or {}),
            Mirror.EPOCH.value: str(epoch),
            names.Lease.RENEWAL.value: renewal_note(told),
        }
        return {**lease, "metadata": {**meta, "annotations": notes}, "spec": spec}

    def _epoch(self, lease: Json) -> int:
        """The epoch that a Lease is in; the first if it does not say so. A fence is always the end
        of the epoch of this cluster, whatever was done to the number on it. Raises ApiError if
        there is one that nobody can read: to take it for an old one would be to miss a fence.
        """
        text = str(_notes(lease).get(Mirror.EPOCH.value, "1"))
        epoch = read_epoch(text)
        if not epoch:
            raise ApiError(
                f"{Mirror.EPOCH} on the Lease is {text[:40]!r}: it takes a whole number of up to"
                " nine digits; the manager writes it anew, or somebody has to"
            )
        fenced = (lease.get("spec") or {}).get("holderIdentity") == FENCED
        return max(epoch, self.lease.epoch + 1) if fenced else epoch

    def _look_at_holder(self, lease: Json) -> None:
        """An agent takes the Lease from whoever has it when it starts, and never takes it back."""
        holder = (lease.get("spec") or {}).get("holderIdentity") or ""
        if self._ours and holder not in ("", FENCED, self._holder):
            raise ReplacedError(
                f"The Lease of cluster {self._cluster} was taken over by {holder}; this agent is"
                f" {self._holder}. Only one agent may decide on a cluster, so this one ends: run"
                " one agent per cluster, and give no two clusters the same name (FEDQ_CLUSTER)."
            )

    @property
    def patience(self) -> float:
        """How long a request may take now, in seconds: given up long before the next renewal is
        due, since a connection that hangs must not cost the lease; after that longer each time,
        since a server that is slow must not either.
        """
        given = self.lease.terms
        first = FIRST_REQUEST_S if self.lease.tenure is None else LONGEST_REQUEST_S
        seconds = min(first, given.renew / 3)
        return max(seconds, min(seconds * 2.0**self._failures, given.lease * ANSWERED))

    async def _ask(self, request: Awaitable[Json]) -> Json:
        """A request with the time that it may take."""
        seconds = self.patience
        try:
            async with asyncio.timeout(seconds):
                return await request
        except TimeoutError:
            raise Unreachable(
                f"The management cluster did not answer within {seconds:.1f} s."
            ) from None

    async def _assure(self) -> None:
        """After a start in an epoch that was noted: see to it that the cluster is in it."""
        if self._assured == self.lease.epoch:
            return
        try:
            async with asyncio.timeout(self.lease.terms.renew / 3):
                self._assured = epoch = await self.take_over(self.lease.epoch)
        except (ApiError, TimeoutError) as error:
            log.info("epoch.not_noted_yet", why=str(error))
            return
        if epoch > self.lease.epoch:
            self._known = None
            self._fenced(epoch)

    def _fenced(self, epoch: int) -> None:
        if 0 < self.lease.epoch < epoch:
            log.warning("lease.fenced", epoch=self.lease.epoch, now=epoch)
        self._set(self.lease.fenced(epoch))

    def _failed(self, problem: str) -> float:
        self.problem = problem
        self._failures = min(self._failures + 1, 10)
        self._set(self.lease.failure())
        return min(RETRY_S, self.lease.terms.renew / 4)

    def _set(self, lease: Lease) -> None:
        self.lease = lease
        self.on_change()


async def _taken(epoch: int) -> int:
    return epoch


def _notes(lease: Json) -> dict[str, Any]:
    return lease["metadata"].get("annotations") or {}


def _terms(lease: Json) -> Terms:
    notes = _notes(lease)
    return terms(
        (lease.get("spec") or {}).get("leaseDurationSeconds"),
        notes.get(names.Lease.RENEW_SECONDS.value),
        notes.get(names.Lease.KILL_SECONDS.value),
    )
