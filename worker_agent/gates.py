"""Lets the pods of admitted Jobs go where their topology assignment puts them.

Pods of a Job with several domains are born with a scheduling gate. Each gets the node selector of
its domain and loses the gate in one write. Which pod goes where follows from the assignment and
the pods that are there, so a crash in between is of no consequence.
"""

from __future__ import annotations

import asyncio

import structlog

from federation.api.names import Gate
from federation.core.types import TopologyAssignment
from federation.edge.errors import ApiError, Conflict, NotFound
from federation.edge.informer import Key
from federation.edge.kube import KubeClient
from federation.edge.resources import PODS, Json
from federation.jobs.topology import Release, releases
from worker_agent.agent import Agent
from worker_agent.facts import Stage
from worker_agent.worklist import Worklist

log = structlog.get_logger(__name__)

AT_ONCE = 16
RETRY_S = 1.0


class Gates:
    """One Job at a time per worker: while its pods are written to, nothing new is decided on it."""

    def __init__(self, client: KubeClient, agent: Agent) -> None:
        self._client, self._agent, self._nodes = client, agent, agent.nodes
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._jobs = Worklist(self._release)
        agent.on_pods = self._jobs.mark

    async def run(self) -> None:
        """Until cancelled."""
        await self._jobs.run()

    async def _release(self, uid: str) -> float | None:
        """Write to all pods that may go; see `Look`."""
        places, pods = self._places(uid), self._nodes.pods.get(uid)
        if places is None or not pods:
            return None
        found = {pod["metadata"]["name"]: (key, pod) for key, pod in pods.items()}
        due = releases(places, pods.values())
        writes = (self._ungate(*found[release.pod], release) for release in due)
        return 0.0 if any(await asyncio.gather(*writes)) else None

    def _places(self, uid: str) -> TopologyAssignment | None:
        job = self._agent.jobs.get(uid)
        if job is None or job.stage is not Stage.RUNNING or job.admission is None:
            return None
        return next((p.topology for p in job.admission.pod_sets if p.topology), None)

    async def _ungate(self, key: Key, pod: Json, release: Release) -> bool:
        """One pod; whether its Job has to be looked at again."""
        gates = [g for g in pod["spec"]["schedulingGates"] if g["name"] != Gate.TOPOLOGY]
        patch = {
            "metadata": {"uid": pod["metadata"]["uid"]},
            "spec": {"nodeSelector": release.node_selector, "schedulingGates": gates},
        }
        namespace, name = key
        try:
            async with self._limit:
                self._nodes.see(await self._client.patch(PODS, name, patch, namespace))
        except (Conflict, NotFound):
            return False  # the watch tells what became of it
        except ApiError as error:
            log.warning("pod.not_released", pod=f"{namespace}/{name}", why=str(error))
            await asyncio.sleep(RETRY_S)  # the API server refused; nothing will announce better
        return True
