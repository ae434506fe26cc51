"""Bringing this cluster into a new epoch, in the order that keeps the fence tight.

First the API server of the cluster refuses copies of lower epochs (ConfigMap fedq-epoch), then the
report says that none of them is started any more; only after that the heartbeat takes the Lease.
A crash in between is of no consequence: all of it is done again.
"""

from __future__ import annotations

import structlog

from worker_agent.epochs import Epochs
from worker_agent.report import Reporter

log = structlog.get_logger(__name__)


class Takeover:
    """Called by the heartbeat with the epoch that the Lease is in; see `heartbeat.TakeOver`."""

    def __init__(self, epochs: Epochs, reporter: Reporter) -> None:
        self._epochs, self._reporter = epochs, reporter

    async def __call__(self, epoch: int) -> int:
        found = await self._epochs.raise_to(epoch)
        await self._reporter.tell(found)
        log.info("epoch.entered", epoch=found)
        return found
