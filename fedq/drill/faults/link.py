"""The network between the management cluster and one worker cluster, and how it is cut.

A cut is silence: what was sent does not arrive, and nobody is told. (A refused connection or a
certificate that does not match would be noticed at once, and is another fault.)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Protocol


class Way(StrEnum):
    """What is lost."""

    BOTH = "both ways"
    FROM_WORKER = "from the worker"
    """Renewals and answers of the worker's API server do not arrive."""
    TO_WORKER = "to the worker"
    """Requests arrive in the management cluster, and the answers are lost."""


class Link(Protocol):
    """Cuts and mends. All methods may be repeated."""

    how: str
    """What makes the cut, for the report."""

    async def cut(self, worker: str, way: Way) -> None:
        """Lose from now on what goes that way, on connections that are open and on new ones."""

    async def mend(self, worker: str) -> None:
        """Lose nothing any more."""


@asynccontextmanager
async def partition(link: Link, *workers: str, way: Way = Way.BOTH) -> AsyncIterator[None]:
    """These workers are cut off while the block runs."""
    try:
        for worker in workers:
            await link.cut(worker, way)
        yield
    finally:
        for worker in workers:
            await link.mend(worker)
