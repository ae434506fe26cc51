"""Brings pods to their seats: node and cards are written on each, and its gate goes.

One write for each pod. Which pod gets which seat follows from the marks of those that have one, so
a crash in between is of no consequence.
"""

from __future__ import annotations

import asyncio

import structlog

from federation.api.names import Gate
from federation.core.devices.ledger.holding import Replica
from federation.core.devices.wire.plan_note import Seat
from federation.core.topology import HOSTNAME
from federation.edge.errors import ApiError, Conflict, NotFound
from federation.edge.informer import Key
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, Json
from federation.jobs.device_pins import Taking, pin_patch, takings
from worker_agent.agent import Agent
from worker_agent.binder import Binder
from worker_agent.device_binding import Binding
from worker_agent.facts import Stage
from worker_agent.worklist import Worklist

log = structlog.get_logger(__name__)

AT_ONCE = 16
RETRY_S = 1.0
REFUSED_S = 5.0


class Pins:
    """One Job at a time per worker: while its pods are written to, nothing new is decided on it."""

    def __init__(self, client: KubeClient, agent: Agent) -> None:
        self._client, self._agent, self._devices = client, agent, agent.devices
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._jobs = Worklist(self._seat)
        self._devices.on_pods = self.mark
        alone = self._devices.binder is Binder.AGENT
        self._binding = Binding(self._devices, self.mark) if alone else None
        self._failed: dict[str, tuple[Json, Seat, float]] = {}
        """By pod that could not be seated: as what, where, and until when (the loop's clock) it is
        not tried so again. Whoever waits for its node is told at once, its own Job too."""

    def mark(self, job: str) -> None:
        """Have the pods of a Job looked at."""
        if job in self._devices.plans:
            self._jobs.mark(job)

    async def run(self) -> None:
        """Until cancelled."""
        await self._jobs.run()

    async def _seat(self, uid: str) -> float | None:
        """Write to all pods that may go; see `Look`."""
        job, plan = self._agent.jobs.get(uid), self._devices.plans.get(uid)
        if job is None or plan is None or job.stage is not Stage.RUNNING:
            return None
        if plan.note != self._devices.noted_on(uid):
            return None  # no pod is seated by a plan that is not noted yet; then it is marked again
        pods = self._devices.pods.of_job(uid)
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        seats, stalled = range(len(plan.seats)), None
        kept = {n for n in seats if self._devices.ledger.holding(Replica(uid, n)) is not None}
        due = takings(pods, len(seats), kept)
        now = asyncio.get_running_loop().time()
        self._failed = {pod: known for pod, known in self._failed.items() if known[2] > now}
        until = {t: self._rests(by_name[t.pod], plan.seats[t.seat]) for t in due}
        rests = [at - now for at in until.values() if at is not None]
        due = [taking for taking, at in until.items() if at is None]
        if self._binding is not None:
            due = [taking for taking in due if not _waits_for_others(by_name[taking.pod])]
            due, stalled = self._binding.turns(due, plan.seats, uid)
        writes = [
            self._pin(uid, by_name[taking.pod], taking, plan.seats[taking.seat]) for taking in due
        ]
        again = (*await asyncio.gather(*writes), *rests, stalled)
        return min((delay for delay in again if delay is not None), default=None)

    def _rests(self, pod: Json, seat: Seat) -> float | None:
        """Until when a pod is not tried, as nothing has changed since that failed."""
        known = self._failed.get(pod["metadata"]["uid"])
        if known is None or known[0] is not pod or known[1] != seat:  # there is news of it
            return None
        return known[2]

    async def _pin(self, job: str, pod: Json, taking: Taking, seat: Seat) -> float | None:
        """One pod; after how many seconds to look at its Job again."""
        try:
            again = await self._try(job, pod, taking, seat)
            if again is not None:
                until = asyncio.get_running_loop().time() + again
                self._failed[pod["metadata"]["uid"]] = pod, seat, until
            return again
        finally:
            if self._binding is not None:
                self._binding.done(seat.host)

    async def _try(self, job: str, pod: Json, taking: Taking, seat: Seat) -> float | None:
        uid, replica = pod["metadata"]["uid"], Replica(job, taking.seat)
        hostname = self._devices.hostname(seat.host)
        if not hostname:
            return REFUSED_S  # the node is gone: `Reseating` finds another place
        if why := self._devices.ledger.adopt(replica, uid):
            log.warning("pod.not_seated", pod=taking.pod, seat=str(replica), why=why)
            self._agent.reseat(job, taking.seat)
            return REFUSED_S
        patch = pin_patch(pod, taking.seat, {HOSTNAME: hostname}, self._notes(seat))
        if self._binding is not None:
            patch["metadata"]["labels"] = self._binding.labels(seat)
        return await self._write(self._devices.pods.keys.get(uid), uid, patch)

    def _notes(self, seat: Seat) -> dict[str, str]:
        if self._binding is None:
            return self._devices.chosen(seat)
        return self._binding.notes(seat)

    async def _write(self, key: Key | None, uid: str, patch: Json) -> float | None:
        if key is None:
            return None
        namespace, name = key
        try:
            async with self._limit:
                written = await self._client.patch(PODS, name, patch, namespace)
        except (Conflict, NotFound):
            self._devices.ledger.cancel(uid)
            return RETRY_S  # the watch tells what became of it
        except ApiError as error:
            log.warning("pod.not_pinned", pod=f"{namespace}/{name}", why=str(error))
            self._devices.ledger.cancel(uid)
            return RETRY_S  # the API server refused; nothing will announce better
        self._devices.pods.on_event("MODIFIED", written)
        return None


def _waits_for_others(pod: Json) -> bool:
    """Whether a pod has gates that are not ours: its node would be kept for it without an end."""
    return any(gate["name"] != Gate.DEVICES for gate in pod["spec"].get("schedulingGates") or ())
