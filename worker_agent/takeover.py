"""Bringing this cluster into a new epoch, in the order that keeps the fence tight.

First the API server of the cluster refuses copies of lower epochs (ConfigMap fedq-epoch). Then
what the agent was writing is waited for: it starts none of them since it knows of the fence. Then
the report says so, and only after that the heartbeat takes the Lease. A crash in between is of no
consequence: all of it is done again.
"""

from __future__ import annotations

import structlog

from worker_agent.agent import Agent
from worker_agent.epochs import Epochs
from worker_agent.report import Reporter

log = structlog.get_logger(__name__)


class Takeover:
    """Called by the heartbeat with the epoch that the Lease is in; see `heartbeat.TakeOver`."""

    def __init__(self, epochs: Epochs, agent: Agent, reporter: Reporter) -> None:
        self._epochs, self._agent, self._reporter = epochs, agent, reporter

    async def __call__(self, epoch: int) -> int:
        found = await self._epochs.raise_to(epoch)
        await self._agent.state.written()
        await self._reporter.tell(found)
        log.info("epoch.entered", epoch=found)
        return found
