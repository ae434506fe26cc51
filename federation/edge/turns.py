"""Long work on the loop of a program, in parts between which others get their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

T = TypeVar("T")

AT_ONCE = 64
"""Items between two turns: some ten milliseconds, as leases are renewed by the same loop."""


async def in_turns(items: Sequence[T]) -> AsyncIterator[T]:
    """The items, also those that are appended meanwhile; after so many of them the loop goes on
    with what else there is.
    """
    at = 0
    while at < len(items):
        yield items[at]
        at += 1
        if at % AT_ONCE == 0:
            await asyncio.sleep(0)  # a turn for everybody else
