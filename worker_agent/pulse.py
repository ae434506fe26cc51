"""Runs the heartbeat in a thread of its own: what else the agent does cannot keep it from renewing.

The thread has its own event loop and its own connection. What the heartbeat needs of the agent is
done in the agent's loop, and the agent hears there of every change.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from federation.edge.kube import KubeClient
from worker_agent.heartbeat import Heartbeat, TakeOver


class Pulse:
    """`client` is the heartbeat's, and nobody else's: it is closed in the thread."""

    def __init__(self, heartbeat: Heartbeat, client: KubeClient) -> None:
        self._heartbeat, self._client = heartbeat, client

    async def beat(self, take_over: TakeOver, on_change: Callable[[], None]) -> None:
        """Renew until cancelled; see Beat. Both arguments are called in the loop of the caller.
        Raises what the heartbeat raises.
        """
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        async def taken(epoch: int) -> int:
            asked = asyncio.run_coroutine_threadsafe(_awaited(take_over, epoch), loop)
            return await asyncio.wrap_future(asked)

        beat = self._heartbeat.beat(taken, lambda: _tell(loop, on_change))
        inside = _Inside(beat, self._client, lambda: _tell(loop, ended.set))
        inside.start()
        try:
            await ended.wait()
        finally:
            inside.stop()
            await ended.wait()
        if inside.error is not None:
            raise inside.error


async def _awaited(take_over: TakeOver, epoch: int) -> int:
    return await take_over(epoch)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the agent's loop is closed already
        loop.call_soon_threadsafe(call)


class _Inside(threading.Thread):
    """The thread. `error` is what ended it, if nobody stopped it."""

    def __init__(
        self, beat: Coroutine[Any, Any, None], client: KubeClient, on_end: Callable[[], None]
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.error: BaseException | None = None
        self._client, self._on_end = client, on_end
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._through(beat))

    def run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # raised again where it is awaited
            self.error = error
        finally:
            self._loop.close()
            self._on_end()

    def stop(self) -> None:
        """End it; safe to say at any time."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._task.cancel)

    async def _through(self, beat: Coroutine[Any, Any, None]) -> None:
        try:
            await beat
        finally:
            await self._client.aclose()
