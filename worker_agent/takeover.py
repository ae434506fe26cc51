"""Bringing this cluster into a new epoch, in the order that keeps the fence tight.

First the API server of the cluster refuses copies of lower epochs (ConfigMap fedq-epoch). Then
what the agent was writing is waited for: it starts none of them since it knows of the fence. What
should have been stopped and was not, as the API server was down, is waited for too, whoever stops
or deletes it: a Job makes new pods for those that the guard of the node has ended, and the guard
ends these only while the lease is over. Then the report says so, and only after that the heartbeat
takes the Lease. A crash in between is of no consequence: all of it is done again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import structlog

from federation.api.names import PODS_OF_COPIES, Gate, Mirror
from federation.edge.errors import ApiError
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, Json
from federation.jobs.mirror import mirrored_attempt
from federation.jobs.pod_state import ended, gated
from worker_agent.agent import Agent
from worker_agent.epochs import Epochs
from worker_agent.facts import WorkerJob
from worker_agent.report import Reporter

log = structlog.get_logger(__name__)

LOOK_S = 0.5
UNTOLD_S = 15.0
"""For how long it is left to controllers to tell pods to end; half of K if that is less."""
MOST_TIMES_K = 3
"""For how long it is waited at most, in K, whoever makes pods again and again."""
_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass
class _Wait:
    """For what is to end before an epoch is taken: since when and until when it is waited for, in
    seconds of the clock that never jumps, not counting time between two tries; the attempts whose
    pods are meant, and the pods that were told to end.
    """

    epoch: int
    begun: float
    until: float
    looked: float
    attempts: set[tuple[str, str, int]] = field(default_factory=set)
    told: set[str] = field(default_factory=set)

    def go_on(self, now: float) -> None:
        """A further try."""
        gap = now - self.looked
        self.begun, self.until, self.looked = self.begun + gap, self.until + gap, now


class Takeover:
    """Called by the heartbeat with the epoch that the Lease is in; see `heartbeat.TakeOver`. It
    waits until the agent is `ready`: has read what is there.
    """

    def __init__(
        self,
        client: KubeClient,
        epochs: Epochs,
        agent: Agent,
        reporter: Reporter,
        ready: asyncio.Event,
    ) -> None:
        self._client, self._epochs = client, epochs
        self._agent, self._reporter, self._ready = agent, reporter, ready
        self._wait = _Wait(0, 0.0, 0.0, 0.0)

    async def __call__(self, epoch: int) -> int:
        found = await self._epochs.raise_to(epoch)
        state = self._agent.state
        await state.written()
        if epoch > state.lease().epoch:
            await self._ready.wait()
            await self._stopped(epoch)
        await self._reporter.tell(found)
        log.info("epoch.entered", epoch=found)
        return found

    async def _stopped(self, epoch: int) -> None:
        """Until no copy is left that is late, and no pod of one. For K at most, as all is gone by
        then that can go, and a pod that cannot (its node is dead) must not keep the cluster away
        for ever. A pod that nobody has told to end gets its K from when that is done here: a
        controller may hear of its pods so late after its API server is back. Raises ApiError.
        """
        state = self._agent.state
        kill, now = state.lease().terms.kill, state.settings.boottime()
        if self._wait.epoch != epoch:
            self._wait = _Wait(epoch, now, now + kill, now)
        wait = self._wait
        wait.go_on(now)
        while True:
            late, pods = state.late(), await self._alive(wait)
            if not (late or pods):
                return
            now = wait.looked = state.settings.boottime()
            last = wait.begun + MOST_TIMES_K * kill
            untold = [pod for pod in pods if _untold(pod) and _uid(pod) not in wait.told]
            if untold and wait.begun + min(UNTOLD_S, kill / 2) <= now < last:
                for pod in untold:
                    await self._end(pod)
                    wait.told.add(_uid(pod))
                wait.until = min(now + kill, last)
            elif now >= wait.until:
                left = [*map(_name, pods), *(str(job.key) for job in late)]
                log.warning("epoch.entered_late", left=left[:20])
                return
            await asyncio.sleep(LOOK_S)  # statuses and deadlines: no single event tells

    async def _end(self, pod: Json) -> None:
        """Delete a pod that nobody deletes. One that cannot be deleted was told, too."""
        meta = pod["metadata"]
        why = "it must not run, and nobody else has told it to end"
        log.warning("pod.told_to_end", pod=_name(pod), why=why)
        try:
            await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])
        except ApiError as error:
            log.warning("pod.not_told_to_end", pod=_name(pod), why=str(error))

    async def _alive(self, wait: _Wait) -> list[Json]:
        """Pods of copies that must not run by now, whatever is said of the copies: a controller
        that has just found its API server again may not know of all pods, and a copy may go before
        them. Pods of whom nothing is known are not meant. Raises ApiError.
        """
        state = self._agent.state
        uncovered = {job.uid for job in state.uncovered()}
        copies = [job for job in state.jobs.values() if job.mirrored]
        wait.attempts |= {_attempt(job) for job in copies if job.uid in uncovered}
        wait.attempts -= {_attempt(job) for job in copies if job.uid not in uncovered}
        if not wait.attempts:
            return []
        found = await self._client.list(
            PODS, label_selector=PODS_OF_COPIES, field_selector=_NOT_ENDED
        )
        return [pod for pod in found.items if _runs(pod) and _copy(pod) in wait.attempts]


def _attempt(job: WorkerJob) -> tuple[str, str, int]:
    return job.key.namespace, job.local_uid, job.attempt


def _runs(pod: Json) -> bool:
    """Whether it runs, or may at any moment: what waits for a gate of ours does not."""
    return not ended(pod) and not any(gated(pod.get("spec") or {}, gate) for gate in Gate)


def _uid(pod: Json) -> str:
    return str(pod["metadata"]["uid"])


def _untold(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def _copy(pod: Json) -> tuple[str, str, int]:
    """The attempt that a pod says that it is of."""
    meta = pod["metadata"]
    notes = meta.get("annotations") or {}
    return meta["namespace"], notes.get(Mirror.LOCAL_UID.value, ""), mirrored_attempt(pod)


def _name(pod: Json) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
