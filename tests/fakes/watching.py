"""One open watch of the fake API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import httpx
from pydantic_core import to_json

from federation.edge.resources import Resource
from tests.fakes.objects import Change
from tests.fakes.patches import Json

if TYPE_CHECKING:
    from tests.fakes.kube_api import FakeKube


class WatchStream(httpx.AsyncByteStream):
    """The body of a watch: history from a version on, then what happens, as JSON lines."""

    def __init__(
        self,
        fake: FakeKube,
        res: Resource,
        matches: Callable[[Json], bool],
        query: dict[str, str],
        hold: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`hold` returns once what there is to say may be said: a slow or frozen connection."""
        self._hold = hold
        self._fake, self._res, self._matches = fake, res, matches
        self._timeout = float(query.get("timeoutSeconds") or 1800)
        self._wake = asyncio.Event()
        self._bookmarks = 0
        self._dropped = False
        since = query.get("resourceVersion", "")
        objects = fake.objects
        self._first: list[tuple[str, Json]] = []
        self._position = len(objects.history)
        if since in ("", "0"):
            self._first = [("ADDED", obj) for obj in fake.items(res) if matches(obj)]
        elif int(since) < objects.oldest:
            message = f"too old resource version: {since} ({objects.oldest})"
            error = {"kind": "Status", "code": 410, "reason": "Expired", "message": message}
            self._first = [("ERROR", error)]
        else:
            later = (n for n, c in enumerate(objects.history) if c.version > int(since))
            self._position = next(later, self._position)
        objects.followers.setdefault(res, []).append(self.wake)

    def wake(self) -> None:
        """Look again at what there is to say."""
        self._wake.set()

    def bookmark(self) -> None:
        """Say where we are."""
        self._bookmarks += 1
        self._wake.set()

    def drop(self) -> None:
        """Break off."""
        self._dropped = True
        self._wake.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for type_, obj in self._first:
            yield _line(type_, obj)
            if type_ == "ERROR":
                return
        loop = asyncio.get_running_loop()
        end = loop.call_later(self._timeout, self.wake)  # one timer, however much there is to say
        over = loop.time() + self._timeout
        try:
            while True:
                if self._hold is not None:
                    await self._hold()
                self._wake.clear()  # before looking: what happens while lines are read is news
                if self._dropped:
                    raise httpx.ReadError("the watch was dropped")
                if lines := self._news():
                    yield b"".join(lines)
                if loop.time() >= over:
                    break
                await self._wake.wait()
        finally:
            end.cancel()
        if not self._fake.silent:
            yield self._bookmark_line()

    def _news(self) -> list[bytes]:
        lines: list[bytes] = []
        if self._fake.silent:
            return lines
        history = self._fake.objects.history
        while self._position < len(history):
            change = history[self._position]
            self._position += 1
            if change.resource == self._res and (line := self._change_line(change)):
                lines.append(line)
        while self._bookmarks:
            self._bookmarks -= 1
            lines.append(self._bookmark_line())
        return lines

    def _change_line(self, change: Change) -> bytes | None:
        """An object that starts or stops matching looks created or deleted to this watch."""
        before = change.old is not None and self._matches(change.old)
        after = change.new is not None and self._matches(change.new)
        if before and not after:
            last = change.gone or {
                **(change.old or {}),
                "metadata": {
                    **(change.old or {})["metadata"],
                    "resourceVersion": str(change.version),
                },
            }
            return _line("DELETED", last)
        if after and change.new:
            return _line("MODIFIED" if before else "ADDED", change.new)
        return None

    def _bookmark_line(self) -> bytes:
        version = str(self._fake.objects.version)
        return _line("BOOKMARK", {"metadata": {"resourceVersion": version}})

    async def aclose(self) -> None:
        followers = self._fake.objects.followers[self._res]
        if self.wake in followers:
            followers.remove(self.wake)
        self._fake.forget(self)


def _line(type_: str, obj: Json) -> bytes:
    return to_json({"type": type_, "object": obj}) + b"\n"
