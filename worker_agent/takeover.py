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
from contextlib import suppress

import structlog

from federation.api.names import Gate, Label, Mirror
from federation.edge.errors import Conflict, NotFound
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, Json
from federation.jobs.mirror import mirrored_attempt
from federation.jobs.pod_state import ended, gated
from worker_agent.agent import Agent
from worker_agent.epochs import Epochs
from worker_agent.report import Reporter

log = structlog.get_logger(__name__)

LOOK_S = 0.25
UNTOLD_S = 15.0
"""For how long it is left to controllers to tell pods to end; half of K if that is less."""
LONGEST = 3
"""How many times K pods are told: who makes them again and again must not keep a cluster away."""
_OF_COPIES = f"{Label.MULTIKUEUE_WORKER_POD.value}=true"


class Takeover:
    """Called by the heartbeat with the epoch that the Lease is in; see `heartbeat.TakeOver`."""

    def __init__(
        self, client: KubeClient, epochs: Epochs, agent: Agent, reporter: Reporter
    ) -> None:
        self._client, self._epochs = client, epochs
        self._agent, self._reporter = agent, reporter

    async def __call__(self, epoch: int) -> int:
        found = await self._epochs.raise_to(epoch)
        await self._agent.state.written()
        await self._stopped()
        await self._reporter.tell(found)
        log.info("epoch.entered", epoch=found)
        return found

    async def _stopped(self) -> None:
        """Until no copy is left that is late, and no pod of one. For K at most, as all is gone by
        then that can go, and a pod that cannot (its node is dead) must not keep the cluster away
        for ever. But who was not told to end does not: a controller may hear of its pods so late
        after its API server is back. Those are told here, and get K, too.
        """
        state = self._agent.state
        kill, begun = state.lease().terms.kill, state.settings.boottime()
        until, told = begun + kill, set[str]()
        while True:
            late, pods = state.late(), await self._alive()
            if not (late or pods):
                return
            now = state.settings.boottime()
            untold = [pod for pod in pods if _untold(pod) and pod["metadata"]["uid"] not in told]
            if untold and begun + min(UNTOLD_S, kill / 2) <= now < begun + LONGEST * kill:
                for pod in untold:
                    await self._end(pod)
                    told.add(pod["metadata"]["uid"])
                until = now + kill
            elif now >= until:
                left = [*map(_name, pods), *(str(job.key) for job in late)]
                log.warning("epoch.entered_late", left=left[:20])
                return
            await asyncio.sleep(LOOK_S)  # statuses and deadlines: no single event tells

    async def _end(self, pod: Json) -> None:
        """Delete a pod that nobody deletes. Raises ApiError."""
        meta = pod["metadata"]
        why = "it must not run, and nobody else has told it to end"
        log.warning("pod.told_to_end", pod=_name(pod), why=why)
        with suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta["name"], meta["namespace"], uid=meta["uid"])

    async def _alive(self) -> list[Json]:
        """Pods that must not run by now, whatever is said of their copies: a controller that has
        just found its API server again may not know of all pods, and a copy may be gone before
        them. Raises ApiError.
        """
        state = self._agent.state
        lapsed = {job.uid for job in state.uncovered()}
        covered = {
            (job.key.namespace, job.local_uid, job.attempt)
            for job in state.jobs.values()
            if job.mirrored and job.uid not in lapsed
        }
        found = await self._client.list(PODS, label_selector=_OF_COPIES)
        return [pod for pod in found.items if _runs(pod) and _copy(pod) not in covered]


def _runs(pod: Json) -> bool:
    """Whether it runs, or may at any moment: what waits for a gate of ours does not."""
    return not ended(pod) and not any(gated(pod.get("spec") or {}, gate) for gate in Gate)


def _untold(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"]


def _copy(pod: Json) -> tuple[str, str, int]:
    """The attempt that a pod says that it is of."""
    meta = pod["metadata"]
    notes = meta.get("annotations") or {}
    return meta["namespace"], notes.get(Mirror.LOCAL_UID.value, ""), mirrored_attempt(pod)


def _name(pod: Json) -> str:
    return f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
